#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "headworks/base/fd.h"
#include "headworks/base/time.h"

namespace headworks::cli {

/// Text on its way to standard output or error, whose reader may be slow, stalled or gone: whoever
/// writes here is none the slower.
///
/// Bounds.  Holds what the reader has not taken.  Who has much to write asks HasRoom first.
/// Errors.  What cannot be written takes no more, all further text is lost, and OutputError knows.
/// Threads.  One.
class Outlet {
 public:
  /// Above this there is no room.
  static constexpr std::size_t kRoom = std::size_t{1} << 20;

  /// `fd` must outlive it.
  explicit Outlet(int fd);

  /// Never waits for the reader.
  void Write(std::string_view text);
  /// Hands on what the reader takes now; true: nothing is left.
  bool Pump();
  /// Waits until nothing is left; false: the reader took nothing for as long as `patience`.
  bool Drain(Duration patience);

  bool HasRoom() const { return held() < kRoom; }
  std::size_t held() const { return text_.size() - at_; }
  /// Bytes that the reader took so far.
  std::uint64_t taken() const { return taken_; }
  bool is_broken() const { return broken_; }
  /// Writable once the reader takes more.
  int fd() const { return unblocked_ ? unblocked_.get() : fd_; }

 private:
  void Break(int error);

  int fd_;
  Fd unblocked_;  // the same pipe or terminal, and a write there waits for nobody; or none
  std::string text_;
  std::size_t at_ = 0;  // what stands before it is written
  std::uint64_t taken_ = 0;
  bool broken_ = false;
};

/// Writes to standard output, and waits for its reader.
void Print(std::string_view text);
/// errno of the write to standard output that failed, after which nothing more was written; 0 =
/// all went well.  EPIPE: its reader has left, and may well have had enough.
int OutputError();
inline bool OutputIsBroken() { return OutputError() != 0; }
/// Makes writes to a standard stream that is closed fail: else the next file that is opened would
/// take its place, and its text.
void HoldClosedStreams();

}  // namespace headworks::cli
