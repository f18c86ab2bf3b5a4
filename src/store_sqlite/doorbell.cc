#include "doorbell.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <thread>
#include <utility>

namespace headworks::store_sqlite {
namespace {

/// For reading and writing at both ends: so a ring with no engine is no SIGPIPE, and an engine
/// without appenders sees no end of file.
int OpenFifo(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return -1;
  struct stat status{};
  if (fstat(fd, &status) == 0 && S_ISFIFO(status.st_mode)) return fd;
  close(fd);
  return -1;
}

class Doorbell final : public store::Inbox::Watch {
 public:
  Doorbell(std::string path, int fifo, int stop, std::function<void()> rung)
      : path_(std::move(path)), fifo_(fifo), stop_(stop), rung_(std::move(rung)), thread_([this] {
          Listen();
        }) {}
  ~Doorbell() override {
    // An eventfd at zero takes one without fail.
    static_cast<void>(eventfd_write(stop_, 1));
    thread_.join();
    unlink(path_.c_str());
    close(stop_);
    close(fifo_);
  }

 private:
  void Listen() {
    std::array<pollfd, 2> ends{pollfd{fifo_, POLLIN, 0}, pollfd{stop_, POLLIN, 0}};
    for (;;) {
      if (poll(ends.data(), ends.size(), -1) < 0) {
        if (errno == EINTR) continue;
        return;  // the engine looks now and then all the same
      }
      if (ends[1].revents != 0) return;
      std::array<char, 4'096> rings{};
      while (read(fifo_, rings.data(), rings.size()) == static_cast<ssize_t>(rings.size())) {
      }
      rung_();
    }
  }

  const std::string path_;
  const int fifo_;
  const int stop_;
  const std::function<void()> rung_;
  std::thread thread_;  // last: uses all of the above
};

}  // namespace

void RingDoorbell(const std::string& path) {
  const int fd = OpenFifo(path);
  if (fd < 0) return;
  // Full: it has not been heard yet, so it will be.
  static_cast<void>(write(fd, "!", 1) == 1);
  close(fd);
}

std::unique_ptr<store::Inbox::Watch> HangDoorbell(const std::string& path,
                                                  std::function<void()> rung) {
  if (mkfifo(path.c_str(), 0600) != 0 && errno != EEXIST) return nullptr;
  const int fifo = OpenFifo(path);
  if (fifo < 0) return nullptr;
  const int stop = eventfd(0, EFD_CLOEXEC);
  if (stop < 0) {
    close(fifo);
    return nullptr;
  }
  return std::make_unique<Doorbell>(path, fifo, stop, std::move(rung));
}

}  // namespace headworks::store_sqlite
