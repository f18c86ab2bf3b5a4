#pragma once

#include <string>
#include <vector>

#include "headworks/base/result.h"

namespace headworks::store_sqlite {

/// This test program, started again in another process to play a part there.
class Child {
 public:
  /// "own PATH": opens the database, acquires a shard, commits a run with the number 1.
  /// "wait": does nothing.
  /// Returns when the part is played; the child then waits until it is killed.
  explicit Child(const std::vector<std::string>& part);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  int pid() const { return pid_; }
  /// What the child said: "ok", or the error's code and message.
  const std::string& answer() const { return answer_; }
  /// SIGKILL, and waits for the end.
  void Kill();

 private:
  int pid_ = -1;
  std::string answer_;
};

/// The child's side; called by main().
int PlayPart(int argc, char** argv);

}  // namespace headworks::store_sqlite
