#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace headworks {

/// SHA-256 of bytes that come piece by piece.
///
/// Life.  Construct, Add as often as needed, Hex once.
/// Threads.  One at a time.
class Sha256 {
 public:
  Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;
  ~Sha256();

  void Add(std::string_view bytes);
  /// In lower-case hex.  Nothing may be added after it.
  std::string Hex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace headworks
