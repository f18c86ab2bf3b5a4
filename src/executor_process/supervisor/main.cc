#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "supervisor/protocol.h"
#include "supervisor/supervisor.h"

namespace {

bool IsPacketSocket(int fd) {
  int type = 0;
  socklen_t size = sizeof type;
  return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_SEQPACKET;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace headworks::supervisor;
  if (argc != 3 || !IsPacketSocket(kSocketFd) || fcntl(kLockFd, F_GETFD) < 0) {
    std::fputs(
        "headworks-supervisor starts and ends the processes of one Headworks engine, "
        "which starts it; it is not run by hand.\n",
        stderr);
    return 2;
  }
  // The engine may be part of a program whose files are not ours to hold open.
  syscall(SYS_close_range, static_cast<unsigned>(kLockFd + 1), ~0U, 0U);
  for (const int fd : {kSocketFd, kLockFd}) fcntl(fd, F_SETFD, FD_CLOEXEC);
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO}) dup2(null, fd);
  if (null > STDERR_FILENO) close(null);
  if (chdir("/") != 0) std::perror("headworks-supervisor: cannot leave the working directory");
  return Supervisor(kSocketFd, argv[1], argv[2]).Run();
}
