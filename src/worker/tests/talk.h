#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "conversation.h"

namespace headworks::worker {

using executor::Reply;
using model::Verdict;
using namespace std::chrono_literals;
using C = Conversation;

inline constexpr Duration kLease = 16s;
inline constexpr Duration kBeat = 4s;

inline model::AttemptKey Key(std::int64_t epoch) {
  return {.tenant = TenantId("t"),
          .run = RunNo(1),
          .task = TaskNo(2),
          .map_index = -1,
          .epoch = Epoch(epoch)};
}

/// Drives a conversation by hand: `did` is what it wanted done last.
class Talk : public testing::Test {
 protected:
  /// All that one wants done now, which is not without end.
  static std::vector<C::Action> Drive(C& talk, Duration now) {
    std::vector<C::Action> all;
    for (int i = 0; i < 1'000; ++i) {
      auto more = talk.Next(now);
      std::move(more.begin(), more.end(), std::back_inserter(all));
      if (talk.due() > now || talk.end()) return all;
    }
    ADD_FAILURE() << "it never comes to rest";
    return all;
  }
  void Go() {
    did = Drive(talk, now);
    for (const auto& poll : All<C::SayPoll>()) last_poll = poll.id;
  }
  void Go(Duration by) {
    now += by;
    Go();
  }
  template <typename Action>
  std::vector<Action> All() const {
    std::vector<Action> all;
    for (const C::Action& each : did)
      if (const auto* action = std::get_if<Action>(&each)) all.push_back(*action);
    return all;
  }
  template <typename Action>
  Action One() const {
    const auto all = All<Action>();
    EXPECT_EQ(all.size(), 1U);
    return all.empty() ? Action() : all.front();
  }
  template <typename Action>
  bool None() const {
    return All<Action>().empty();
  }

  void Register(Duration lease = kLease, Duration beat = kBeat) {
    Go();
    One<C::SayRegister>();
    talk.OnRegistered(worker_api::Welcome{.lease = lease, .heartbeat_every = beat}, now);
    Go();
  }
  /// Answers the poll that was said last, with these attempts.
  void Assign(const std::vector<std::int64_t>& epochs) {
    worker_api::Polled polled;
    for (const std::int64_t epoch : epochs)
      polled.assignments.push_back({Key(epoch), "q", "start-" + std::to_string(epoch)});
    talk.OnPolled(last_poll, polled, now);
    Go();
  }
  void Open(std::int64_t epoch, Reply reply = Reply::kGoOn) {
    talk.OnStarted(Key(epoch),
                   worker_api::Started{
                       .reply = reply, .work_token = "work-" + std::to_string(epoch), .job = {}},
                   now);
    Go();
  }
  /// Registered, with one attempt whose code runs; its heartbeat is under way.
  C::SayBeat RunOne(Duration lease = kLease, Duration beat = kBeat) {
    Register(lease, beat);
    Assign({1});
    Open(1);
    return One<C::SayBeat>();
  }
  void Pulse(const C::SayBeat& beat, Reply reply, std::string token = "") {
    talk.OnBeaten(beat.id, worker_api::Beaten{.pulses = {{reply, std::move(token)}}}, now);
    Go();
  }
  /// Between two polls, of which each waits for a heartbeat's time until it is answered.
  Duration LongestSilence(const std::function<void(std::int64_t)>& answer) {
    Duration longest{};
    for (std::int64_t i = 1; i <= 20; ++i) {
      const Duration said = now;
      const std::uint64_t poll = last_poll;
      now += kBeat;
      answer(i);
      while (last_poll == poll && now < said + 3 * kLease) Go(100ms);
      longest = std::max(longest, now - said);
    }
    return longest;
  }
  void End(Verdict verdict = Verdict::kSucceeded, std::int64_t epoch = 1) {
    talk.OnEnded(Key(epoch), {.verdict = verdict});
    Go();
  }
  static Error Silence() { return {Code::kUnavailable, "no answer"}; }

  WorkerOptions options{.tenant = TenantId("t"),
                        .name = "w",
                        .slots = {{"q", 2}},
                        .drain_timeout = 10s,
                        .report_patience = 7s};
  SeededRandom random{7};
  std::vector<std::string> told;
  Duration now = 1'000s;
  std::vector<C::Action> did;
  std::uint64_t last_poll = 0;
  C talk{options, "inc", random, [this](const std::string& line) { told.push_back(line); }};
};

}  // namespace headworks::worker
