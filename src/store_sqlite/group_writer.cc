#include "group_writer.h"

namespace headworks::store_sqlite {

std::size_t GroupWriter::waiting() {
  const std::lock_guard lock(queue_mutex_);
  return queue_.size();
}

Status GroupWriter::Run(const Work& work) {
  Waiting mine{work, {}, false};
  {
    const std::lock_guard lock(queue_mutex_);
    queue_.push_back(&mine);
  }
  const std::lock_guard lock(core_.writer_mutex());
  if (!mine.done) {
    std::vector<Waiting*> group;
    {
      const std::lock_guard queue_lock(queue_mutex_);
      group.swap(queue_);
    }
    Commit(group);
  }
  return std::move(mine.result);
}

void GroupWriter::Commit(std::span<Waiting* const> group) {
  bool began = false;
  const Status stored = core_.WriteLocked([&](Connection& c) -> Status {
    began = true;
    if (group.size() == 1) return group.front()->result = group.front()->work(c);
    for (Waiting* const member : group) {
      member->result = InSavepoint(c, member->work);
      // Some errors have rolled all of it back.
      if (sqlite3_get_autocommit(c.handle()) != 0) return member->result;
    }
    return {};
  });
  // One that cannot be stored must not fail those that it met: each alone.  Where not even a
  // transaction could be begun, each would only wait for the writer as long again.
  if (!stored && began && group.size() > 1) {
    for (Waiting* const& member : group) Commit(std::span(&member, 1));
    return;
  }
  for (Waiting* const member : group) {
    if (!stored) member->result = stored;
    member->done = true;
  }
}

}  // namespace headworks::store_sqlite
