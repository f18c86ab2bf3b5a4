// An executor of your own, in one file: two printers that share a file as their paper.
//
// It takes tasks that say `exec: [print, TEXT]`, TEXT of one line, or `exec: [hold]` (waits until
// it is stopped). A paper belongs to one database: its lines are known by the numbers of that one's
// attempts, and with another database they would pass for printed. It grows with every line and is
// read as a whole at the start, so begin a new paper together with a new database. What an executor
// must do stands at headworks::executor::Executor; the suite in headworks/executor_conformance
// checks it.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "headworks/executor/execution_status.h"
#include "headworks/executor/executor.h"

class Printer final : public headworks::executor::Executor {
 public:
  using Attempt = headworks::executor::Attempt;
  using Key = headworks::model::AttemptKey;
  using Outcome = headworks::model::Outcome;
  using Status = headworks::executor::ExecutionStatus;
  using DispatchError = headworks::executor::DispatchError;

  // A line on the paper is the evidence that its attempt was printed, also after a crash.
  explicit Printer(std::string paper) : paper_(std::move(paper)) {
    std::ifstream in(paper_);
    for (std::string line; std::getline(in, line);) printed_.insert(line.substr(0, line.find(' ')));
  }
  ~Printer() override {
    static_cast<void>(Drain(headworks::Duration(0)).has_value());
    const std::scoped_lock lock(mutex_);
    closing_ = true;
    changed_.notify_all();
  }

  std::string_view Name() const override { return "printer"; }

  headworks::Status Start(headworks::executor::AttemptSink& sink) override {
    sink_ = &sink;
    for (std::size_t i = 0; i < kPrinters; ++i) threads_.emplace_back([this] { Work(); });
    return {};
  }

  headworks::executor::OfferResult Offer(const Attempt& attempt) override {
    using headworks::executor::NotTaken;
    if (ArgvOf(attempt).empty())
      return NotTaken(DispatchError::kValidation, "the printer takes 'exec' tasks only");
    // What stands at the start of a line is evidence.
    for (const std::string& text : ArgvOf(attempt))
      if (text.find_first_of("\r\n") != std::string::npos)
        return NotTaken(DispatchError::kValidation, "the printer takes TEXT without line breaks");
    const std::scoped_lock lock(mutex_);
    if (entries_.contains(attempt.key)) return {};
    if (sink_ == nullptr || draining_)
      return NotTaken(DispatchError::kNoCapacity, "the printer is switched off");
    if (UsedLocked() >= kPlaces) {
      room_wanted_ = true;
      return NotTaken(DispatchError::kNoCapacity, "the printer's tray is full");
    }
    entries_.emplace(attempt.key, Entry{.attempt = attempt});
    queue_.push_back(attempt.key);
    changed_.notify_all();
    return {};
  }

  void Cancel(const Key& key) override { Stop(key, Status::kCancelled); }

  headworks::executor::Capacity GetCapacity() const override {
    const std::scoped_lock lock(mutex_);
    if (UsedLocked() >= kPlaces) room_wanted_ = true;
    return {kPlaces, UsedLocked()};
  }

  headworks::Result<std::vector<headworks::executor::Inspection>> Inspect(
      std::span<const Attempt> attempts) override {
    std::vector<headworks::executor::Inspection> answers;
    const std::scoped_lock lock(mutex_);
    for (const Attempt& attempt : attempts) {
      const auto at = entries_.find(attempt.key);
      if (at == entries_.end() && printed_.contains(MarkOf(attempt.key)))
        answers.push_back(headworks::executor::Ended{OutcomeOf(Status::kCompleted, "")});
      else if (at == entries_.end())
        answers.push_back(headworks::executor::Absent{});
      else if (at->second.stage == Stage::kQueued)
        answers.push_back(headworks::executor::Pending{"waits for a printer"});
      else if (at->second.stage == Stage::kPrinting)
        answers.push_back(headworks::executor::Running{});
      else
        answers.push_back(headworks::executor::Ended{at->second.outcome});
    }
    return answers;
  }

  std::vector<Key> List() const override {
    std::vector<Key> keys;
    const std::scoped_lock lock(mutex_);
    for (const auto& [key, entry] : entries_)
      if (entry.stage != Stage::kEnded) keys.push_back(key);
    return keys;
  }

  headworks::executor::Metrics GetMetrics() const override {
    const std::scoped_lock lock(mutex_);
    headworks::executor::Metrics metrics;
    metrics.active = printing_;
    metrics.max = kPrinters;
    metrics.executed = executed_;
    metrics.failed = failed_;
    metrics.mean_duration =
        total_ / std::max<std::int64_t>(1, static_cast<std::int64_t>(executed_));
    metrics.p99_duration = longest_;
    return metrics;
  }

  // The verdicts are stored: what was kept to prove them may go.
  void Settled(std::span<const Key> keys) override {
    const std::scoped_lock lock(mutex_);
    for (const Key& key : keys) {
      entries_.erase(key);
      printed_.erase(MarkOf(key));
    }
  }

  headworks::Status Drain(headworks::Duration timeout) override {
    std::unique_lock lock(mutex_);
    draining_ = true;
    const std::deque<Key> waiting = queue_;
    lock.unlock();
    for (const Key& key : waiting) Stop(key, Status::kInterrupted);
    lock.lock();
    const auto quiet = [this] { return UsedLocked() == 0 && telling_ == 0; };
    if (changed_.wait_for(lock, timeout, quiet)) return {};
    for (auto& [key, entry] : entries_)
      if (entry.stage == Stage::kPrinting) entry.stop = Status::kInterrupted;
    changed_.notify_all();
    if (changed_.wait_for(lock, std::chrono::seconds(5), quiet)) return {};
    return headworks::Error{headworks::Code::kDrainTimeout, "a printer does not stop"};
  }

 private:
  enum class Stage : unsigned char { kQueued, kPrinting, kEnded };
  struct Entry {
    Attempt attempt;
    Stage stage = Stage::kQueued;
    Status stop = Status::kCompleted;  // anything else: it is to stop, and this is why
    Outcome outcome{};
  };
  static constexpr std::uint32_t kPrinters = 2;
  static constexpr std::uint32_t kPlaces = 4;  // printing, or in the tray

  static std::string MarkOf(const Key& key) {
    return std::to_string(key.run.value) + "/" + std::to_string(key.epoch.value);
  }
  static std::vector<std::string> ArgvOf(const Attempt& attempt) {
    const auto* exec = std::get_if<headworks::model::ExecAction>(&attempt.task().action);
    return exec != nullptr ? exec->argv : std::vector<std::string>();
  }
  std::uint32_t UsedLocked() const { return static_cast<std::uint32_t>(queue_.size()) + printing_; }

  void Work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return !queue_.empty() || closing_; });
      if (queue_.empty()) return;
      const Key key = queue_.front();
      queue_.pop_front();
      Entry& entry = entries_.at(key);
      entry.stage = Stage::kPrinting;
      ++printing_;
      lock.unlock();
      sink_->Started(key);
      const auto begin = std::chrono::steady_clock::now();
      lock.lock();
      Outcome outcome = PrintLocked(entry, lock);
      const auto took =
          std::chrono::ceil<headworks::Duration>(std::chrono::steady_clock::now() - begin);
      --printing_;
      ++executed_;
      if (outcome.verdict == headworks::model::Verdict::kRetry) ++failed_;
      total_ += took;
      longest_ = std::max(longest_, took);
      TellLocked(key, std::move(outcome), lock);
    }
  }

  Outcome PrintLocked(Entry& entry, std::unique_lock<std::mutex>& lock) {
    const std::vector<std::string> argv = ArgvOf(entry.attempt);
    if (argv.front() == "hold") {
      changed_.wait(lock, [&] { return entry.stop != Status::kCompleted; });
      return OutcomeOf(entry.stop, "stopped while it held");
    }
    if (argv.front() != "print" || argv.size() != 2)
      return OutcomeOf(Status::kRetry, "the printer knows [print, TEXT] and [hold]");
    std::ofstream out(paper_, std::ios::app);
    out << MarkOf(entry.attempt.key) << ' ' << argv[1] << '\n';
    out.flush();
    return out ? OutcomeOf(Status::kCompleted, "") : OutcomeOf(Status::kRetry, "out of paper");
  }

  // One that waits ends here; one that prints is told.
  void Stop(const Key& key, Status why) {
    std::unique_lock lock(mutex_);
    const auto at = entries_.find(key);
    if (at == entries_.end() || at->second.stage == Stage::kEnded) return;
    if (at->second.stage == Stage::kPrinting) {
      at->second.stop = why;
      changed_.notify_all();
      return;
    }
    std::erase(queue_, key);
    TellLocked(key, OutcomeOf(why, "stopped before it was printed"), lock);
  }

  // Keeps the verdict until it is settled, and tells it outside of the lock.
  void TellLocked(const Key& key, Outcome outcome, std::unique_lock<std::mutex>& lock) {
    Entry& entry = entries_.at(key);
    entry.stage = Stage::kEnded;
    entry.outcome = outcome;
    ++telling_;
    const bool room = !draining_ && std::exchange(room_wanted_, false);
    lock.unlock();
    sink_->Ended(key, std::move(outcome));
    if (room) sink_->CapacityChanged();
    lock.lock();
    --telling_;
    changed_.notify_all();
  }

  const std::string paper_;
  headworks::executor::AttemptSink* sink_ = nullptr;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::map<Key, Entry> entries_;
  std::deque<Key> queue_;
  std::set<std::string> printed_;
  std::uint32_t printing_ = 0;
  std::uint32_t telling_ = 0;
  bool draining_ = false;
  bool closing_ = false;
  mutable bool room_wanted_ = false;
  std::uint64_t executed_ = 0;
  std::uint64_t failed_ = 0;
  headworks::Duration total_{0};
  headworks::Duration longest_{0};

  std::vector<std::jthread> threads_;  // last: they use all of the above
};
