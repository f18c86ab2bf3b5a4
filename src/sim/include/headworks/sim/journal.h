#pragma once

#include <string>
#include <utility>
#include <vector>

namespace headworks::sim {

/// What happened in one schedule, and the first invariant that did not hold.
class Journal {
 public:
  explicit Journal(bool keeps) : keeps_(keeps) {}

  /// False: lines are not kept, so nobody need format them.
  bool keeps() const { return keeps_; }
  void Note(std::string line) {
    if (keeps_) lines_.push_back(std::move(line));
  }
  void Violated(std::string what) {
    if (!violation_.empty()) return;
    Note("VIOLATED " + what);
    violation_ = std::move(what);
  }
  bool failed() const { return !violation_.empty(); }
  const std::string& violation() const { return violation_; }
  std::vector<std::string> TakeLines() { return std::move(lines_); }

 private:
  const bool keeps_;
  std::vector<std::string> lines_;
  std::string violation_;
};

}  // namespace headworks::sim
