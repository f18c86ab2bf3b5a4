#pragma once

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <string>

#include "headworks/base/fd.h"

namespace headworks::cli {

/// A pipe whose reader takes when it is told to.
class ReaderPipe {
 public:
  ReaderPipe() {
    signal(SIGPIPE, SIG_IGN);  // as the program does
    int ends[2] = {-1, -1};
    if (pipe2(ends, O_CLOEXEC) != 0) return;
    from_ = Fd(ends[0]);
    to_ = Fd(ends[1]);
    fcntl(from_.get(), F_SETFL, O_NONBLOCK);
  }
  int to() const { return to_.get(); }
  void Leave() { from_.Close(); }
  /// All that there is.
  std::string Take() {
    std::string text;
    std::array<char, 1 << 16> piece;
    for (ssize_t count = 0; (count = read(from_.get(), piece.data(), piece.size())) > 0;)
      text.append(piece.data(), static_cast<std::size_t>(count));
    return text;
  }

 private:
  Fd from_, to_;
};

}  // namespace headworks::cli
