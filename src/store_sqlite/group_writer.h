#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "core.h"

namespace headworks::store_sqlite {

/// Small transactions of several threads that wait for the writer are committed together, by
/// whoever gets it first; each is still all or nothing.
///
/// Threads.  Write may be called concurrently.
class GroupWriter {
 public:
  explicit GroupWriter(Core& core) : core_(core) {}

  /// Runs `body(connection)`, perhaps on another thread and, if what it met fails, twice: it must
  /// not keep anything of its first run.  Its changes are undone if it returns an error.
  template <typename Body>
  std::invoke_result_t<Body, Connection&> Write(Body body) {
    using Answer = std::invoke_result_t<Body, Connection&>;
    std::optional<Answer> answer;
    const Status status = Run([&](Connection& c) -> Status {
      answer.emplace(body(c));
      if (!*answer) return answer->error();
      return {};
    });
    if (!status) return status.error();
    return *std::move(answer);
  }

  /// Those that wait for the writer now.
  std::size_t waiting();

 private:
  using Work = std::function<Status(Connection&)>;
  struct Waiting {
    const Work& work;
    Status result;
    bool done = false;  // under the writer's mutex
  };

  Status Run(const Work& work);
  void Commit(std::span<Waiting* const> group);

  Core& core_;
  std::mutex queue_mutex_;
  std::vector<Waiting*> queue_;  // under queue_mutex_
};

}  // namespace headworks::store_sqlite
