#include "headworks/log_store/memory_log_store.h"

#include <algorithm>
#include <mutex>

#include "headworks/log_store/chunk.h"

namespace headworks::log_store {
namespace {

class MemoryLogStore final : public LogStore {
 public:
  Status Append(std::span<const Batch> batches) override {
    HEADWORKS_TRY(CheckAppend(batches));
    const std::scoped_lock lock(mutex_);
    for (const Batch& batch : batches) {
      for (const Line& line : batch.lines) entries_.push_back({batch.attempt, line, ++last_});
    }
    return {};
  }

  Result<Page> Read(const Query& query) override {
    HEADWORKS_TRY(CheckQuery(query));
    const std::scoped_lock lock(mutex_);
    Page page{.entries = {}, .next = query.after};
    std::size_t bytes = 0;
    for (const Stored& stored : entries_) {
      if (stored.position <= query.after.chunk || !Selects(query, stored.attempt)) continue;
      if (page.entries.size() == query.max_lines || bytes > kMaxPageBytes) {
        page.more = true;
        break;
      }
      bytes += stored.line.bytes.size();
      page.entries.push_back({stored.attempt, stored.line});
      page.next = {.chunk = stored.position};
    }
    return page;
  }

  Result<Page> Tail(const Query& query) override {
    HEADWORKS_TRY(CheckQuery(query));
    const std::scoped_lock lock(mutex_);
    Page page{.entries = {}, .next = query.after};
    std::size_t bytes = 0;
    for (auto stored = entries_.rbegin(); stored != entries_.rend(); ++stored) {
      if (stored->position <= query.after.chunk || !Selects(query, stored->attempt)) continue;
      if (page.entries.size() == query.max_lines || bytes > kMaxPageBytes) {
        page.more = true;
        break;
      }
      bytes += stored->line.bytes.size();
      if (page.entries.empty()) page.next = {.chunk = stored->position};
      page.entries.push_back({stored->attempt, stored->line});
    }
    std::ranges::reverse(page.entries);
    return page;
  }

  Status DeleteRun(const TenantId& tenant, RunNo run) override {
    const std::scoped_lock lock(mutex_);
    std::erase_if(entries_, [&](const Stored& s) {
      return s.attempt.tenant == tenant && s.attempt.run == run;
    });
    return {};
  }

 private:
  struct Stored {
    model::AttemptKey attempt;
    Line line;
    std::int64_t position;
  };

  static bool Selects(const Query& q, const model::AttemptKey& a) {
    return a.tenant == q.tenant && a.run == q.run && (!q.task || a.task == *q.task) &&
           (!q.map_index || a.map_index == *q.map_index) && (!q.epoch || a.epoch == *q.epoch);
  }

  std::mutex mutex_;
  std::vector<Stored> entries_;
  std::int64_t last_ = 0;
};

}  // namespace

std::unique_ptr<LogStore> NewMemoryLogStore() { return std::make_unique<MemoryLogStore>(); }

}  // namespace headworks::log_store
