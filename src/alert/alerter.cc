#include "headworks/alert/alerter.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "courier.h"
#include "dead_watch.h"

namespace headworks::alert {

struct Alerter::Parts {
  Parts(task_queue::Queues& queues, const std::vector<std::string>& targets) {
    for (const std::string& target : targets)
      watches.push_back({DeadWatch(queues, targets, target)});
  }
  struct Watch {
    DeadWatch dead;
    std::uint64_t written = 0;
  };
  std::vector<Watch> watches;
  std::optional<Courier> courier;
};

Alerter::Alerter(const std::vector<std::string>& targets, task_queue::Queues& queues,
                 Commands* commands, Clock& clock, Logger& log)
    : queues_(queues), clock_(clock), log_(log), parts_(std::make_unique<Parts>(queues, targets)) {
  if (commands == nullptr) return;
  parts_->courier.emplace(queues, *commands, clock, log, [this] {
    const std::lock_guard lock(mutex_);
    woken_ = true;
    wakes_.notify_all();
  });
}

Alerter::~Alerter() { Close(Duration()); }

void Alerter::Start() {
  thread_ = std::jthread([this](const std::stop_token& stop) {
    while (!stop.stop_requested()) Wait(Tick(), stop);
  });
}

Duration Alerter::Tick() {
  bool more = false;
  Note(Work(more));
  return more ? Duration() : kInterval;
}

Status Alerter::Work(bool& more) {
  HEADWORKS_ASSIGN(const auto all, queues_.survey().ListAll());
  Status first;  // a way that is barred bars no other (I11)
  for (Parts::Watch& watch : parts_->watches) {
    const DeadWatch::Looked looked = watch.dead.Look(all);
    if (first) first = looked.trouble;
    watch.written += looked.written;
    more |= looked.more || looked.written > 0;
    const std::lock_guard lock(mutex_);
    dead_letters_ = std::max(dead_letters_, watch.written);
  }
  auto& courier = parts_->courier;
  if (courier) {
    const bool was_busy = courier->busy();
    HEADWORKS_TRY(courier->Tick(all));
    more |= was_busy && !courier->busy();  // it is free for the next one
  }
  return first;
}

void Alerter::Wait(Duration at_most, const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  wakes_.wait_for(lock, stop, at_most, [this] { return woken_; });
  woken_ = false;
}

void Alerter::Note(const Status& status) {
  const std::lock_guard lock(mutex_);
  const std::string trouble = status ? std::string() : status.error().message;
  if (!trouble.empty() && trouble_.empty())
    log_.Warning("alerts cannot be looked after", {{"error", trouble}});
  trouble_ = trouble;
}

void Alerter::Close(Duration at_most) {
  if (thread_.joinable()) {
    thread_.request_stop();
    thread_.join();
  }
  auto& courier = parts_->courier;
  const Duration deadline = clock_.Monotonic() + at_most;
  while (courier && clock_.Monotonic() < deadline) {
    const Duration pause = Tick();
    if (!trouble().empty()) break;
    if (pause > Duration() && !courier->busy()) break;
    if (pause > Duration()) Wait(std::min(pause, deadline - clock_.Monotonic()), {});
  }
  if (courier) Note(courier->Stop());
}

Alerter::Figures Alerter::figures() const {
  Figures figures;
  if (parts_->courier) {
    const Courier::Figures of = parts_->courier->figures();
    figures = {.succeeded = of.succeeded, .failed = of.failed, .given_up = of.given_up};
  }
  const std::lock_guard lock(mutex_);
  figures.dead_letters = dead_letters_;
  return figures;
}

std::string Alerter::trouble() const {
  const std::lock_guard lock(mutex_);
  return trouble_;
}

}  // namespace headworks::alert
