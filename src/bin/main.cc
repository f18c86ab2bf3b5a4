#include <malloc.h>
#include <signal.h>
#include <unistd.h>

#include "headworks/cli/cli.h"

int main(int argc, char** argv) {
  // Keeps freed memory: giving it back and faulting it in again costs SQLite most of its time.
  mallopt(M_TRIM_THRESHOLD, 256 << 20);
  mallopt(M_MMAP_THRESHOLD, 64 << 20);
  // A reader that leaves (`| head`) must not end a run.
  signal(SIGPIPE, SIG_IGN);
  return headworks::cli::Main(argc, argv, environ);
}
