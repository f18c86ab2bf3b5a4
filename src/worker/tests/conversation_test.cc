#include "conversation.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace headworks::worker {
namespace {

using executor::Reply;
using model::Verdict;
using namespace std::chrono_literals;
using C = Conversation;

constexpr Duration kLease = 16s;
constexpr Duration kBeat = 4s;

model::AttemptKey Key(std::int64_t epoch) {
  return {.tenant = TenantId("t"),
          .run = RunNo(1),
          .task = TaskNo(2),
          .map_index = -1,
          .epoch = Epoch(epoch)};
}

/// Drives a conversation by hand: `did` is what it wanted done last.
class Talk : public testing::Test {
 protected:
  /// All that one wants done now.
  static std::vector<C::Action> Drive(C& talk, Duration now) {
    std::vector<C::Action> all;
    do {
      auto more = talk.Next(now);
      std::move(more.begin(), more.end(), std::back_inserter(all));
    } while (talk.due() <= now && !talk.end());
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

  void Register() {
    Go();
    One<C::SayRegister>();
    talk.OnRegistered(worker_api::Welcome{.lease = kLease, .heartbeat_every = kBeat}, now);
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
  C::SayBeat RunOne() {
    Register();
    Assign({1});
    Open(1);
    return One<C::SayBeat>();
  }
  void Pulse(const C::SayBeat& beat, Reply reply, std::string token = "") {
    talk.OnBeaten(beat.id, worker_api::Beaten{.pulses = {{reply, std::move(token)}}}, now);
    Go();
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

TEST_F(Talk, AHostWithoutRoomAsksForOneAtATimeAndLessAndLessOften) {
  const auto fails = [&](std::int64_t epoch) {
    Assign({epoch});
    Open(epoch);
    talk.OnEnded(Key(epoch), {.verdict = Verdict::kSnoozed,
                              .reason = model::Reason::kDispatchFailed,
                              .error = "no space left"});
    talk.OnCompleted(Key(epoch), Reply::kGoOn, now);
    Go();
  };
  Register();
  std::int64_t epoch = 0;
  for (const Duration pause : {1s, 2s, 4s, 8s, 16s, 30s, 30s}) {
    fails(++epoch);
    const Duration until = now + pause;
    EXPECT_TRUE(None<C::SayPoll>()) << FormatDuration(pause);
    now = until - 1us;
    Go();
    EXPECT_TRUE(None<C::SayPoll>()) << FormatDuration(pause);
    Go(1us);
    if (pause == 1s) {
      EXPECT_TRUE(None<C::SayPoll>()) << "the one for its other slot is under way";
      continue;
    }
    EXPECT_EQ(One<C::SayPoll>().poll.free, (std::map<std::string, std::uint32_t>{{"q", 1}}));
  }
  EXPECT_EQ(talk.figures().no_room, "no space left");
  EXPECT_EQ(std::ranges::count_if(told,
                                  [](const auto& line) {
                                    return line.starts_with("tasks cannot run here: no space left");
                                  }),
            1);
  Assign({++epoch});
  Open(epoch);
  talk.OnEnded(Key(epoch), {.verdict = Verdict::kInterrupted});
  EXPECT_EQ(talk.figures().no_room, "no space left") << "which says nothing of room";
  talk.OnCompleted(Key(epoch), Reply::kGoOn, now);
  Go();
  Assign({++epoch});
  Open(epoch);
  End(Verdict::kFailed, epoch);
  EXPECT_EQ(talk.figures().no_room, "") << "its code ran";
  EXPECT_EQ(told.size() > 1 && told[told.size() - 2] == "tasks run here again", true);
  talk.OnCompleted(Key(epoch), Reply::kGoOn, now);
  Go();
  EXPECT_EQ(talk.figures().unreported, 0U);
}

TEST_F(Talk, ATaskThatSnoozesSaysNothingOfRoom) {
  Register();
  Assign({1});
  Open(1);
  talk.OnEnded(Key(1), {.verdict = Verdict::kSnoozed, .reason = model::Reason::kSnooze});
  talk.OnCompleted(Key(1), Reply::kGoOn, now);
  Go();
  EXPECT_FALSE(None<C::SayPoll>());
  EXPECT_EQ(talk.figures().no_room, "");
}

TEST_F(Talk, RegistersThenPollsForAllItsSlots) {
  Go();
  EXPECT_EQ(did.size(), 1U);
  const auto registration = One<C::SayRegister>().registration;
  EXPECT_EQ(registration.who.incarnation, "inc");
  EXPECT_EQ(registration.slots, options.slots);
  talk.OnRegistered(worker_api::Welcome{.lease = kLease, .heartbeat_every = kBeat}, now);
  Go();
  EXPECT_EQ(did.size(), 1U);
  const auto poll = One<C::SayPoll>().poll;
  EXPECT_EQ(poll.free, (std::map<std::string, std::uint32_t>{{"q", 2}}));
  EXPECT_EQ(poll.wait, options.poll_wait);
}

TEST_F(Talk, SaysARegistrationAgainThatGotNoAnswerLaterAndLater) {
  Duration last{};
  for (int i = 0; i < 12; ++i) {
    Go();
    One<C::SayRegister>();
    talk.OnRegistered(Silence(), now);
    Go();
    EXPECT_TRUE(None<C::SayRegister>());
    const Duration wait = talk.due() - now;
    EXPECT_GE(wait, 50ms);
    EXPECT_LE(wait, 5s);
    if (i == 11) EXPECT_GE(wait, 2500ms);
    // Twice as long each time, less a jitter of up to a half.
    if (i < 6) EXPECT_GE(wait, last);
    last = wait;
    now = talk.due();
  }
  EXPECT_EQ(told, std::vector<std::string>{"no good answer from the server: no answer"});
}

TEST_F(Talk, EndsWhenItIsRefusedAndHoldsNothing) {
  Go();
  talk.OnRegistered(Error{Code::kPermissionDenied, "expired"}, now);
  Go();
  ASSERT_TRUE(talk.end());
  EXPECT_EQ(talk.end()->error(), (Error{Code::kPermissionDenied, "expired"}));
}

TEST_F(Talk, OneWhoIsRefusedLaterEndsOnceItHoldsNothing) {
  const auto beat = RunOne();
  const Duration last_heard = now;
  talk.OnPolled(last_poll, Error{Code::kPermissionDenied, "expired"}, now);
  Go();
  EXPECT_FALSE(talk.end());
  EXPECT_TRUE(None<C::SayPoll>());
  talk.OnBeaten(beat.id, Silence(), now);
  Go(kLease);
  EXPECT_EQ(All<C::Cancel>().size(), 1U);
  End(Verdict::kCancelled);
  EXPECT_FALSE(talk.end());
  // No answer, as to a credential that has ended: then it is lost by its lease.
  const Duration lost_at = last_heard + kLease + options.report_patience;
  while (now + 1s < lost_at) {
    for (const auto& each : All<C::SayComplete>()) talk.OnCompleted(each.attempt, Silence(), now);
    for (const auto& each : All<C::SayBeat>()) talk.OnBeaten(each.id, Silence(), now);
    if (!None<C::SayRegister>()) talk.OnRegistered(Error{Code::kPermissionDenied, "expired"}, now);
    Go(1s);
    EXPECT_FALSE(talk.end());
  }
  talk.OnRegistered(Error{Code::kPermissionDenied, "expired"}, now);
  Go(1s);
  ASSERT_TRUE(talk.end());
  EXPECT_EQ(talk.end()->error().code, Code::kPermissionDenied);
  EXPECT_EQ(told.back(), "the end of / of run 1, try 1 could not be said and is lost");
}

TEST_F(Talk, WhatRunsWhenItIsRefusedKeepsItsLease) {
  auto beat = RunOne();
  talk.OnPolled(last_poll, Error{Code::kPermissionDenied, "wrong_queue"}, now);
  for (int i = 0; i < 8; ++i) {
    Pulse(beat, Reply::kGoOn);
    if (!None<C::SayRegister>())
      talk.OnRegistered(Error{Code::kPermissionDenied, "wrong_queue"}, now);
    Go(kBeat);
    EXPECT_TRUE(None<C::Cancel>());
    beat = One<C::SayBeat>();
  }
  End();
  EXPECT_EQ(One<C::SayComplete>().outcome.verdict, Verdict::kSucceeded);
  talk.OnCompleted(Key(1), Reply::kGoOn, now);
  talk.OnRegistered(Error{Code::kPermissionDenied, "wrong_queue"}, now);
  Go();
  ASSERT_TRUE(talk.end());
  EXPECT_EQ(talk.end()->error().code, Code::kPermissionDenied);
}

TEST_F(Talk, OneWhoIsTakenAgainPollsAgain) {
  RunOne();
  talk.OnPolled(last_poll, Error{Code::kPermissionDenied, "expired"}, now);
  Go(200ms);
  One<C::SayRegister>();
  talk.OnRegistered(worker_api::Welcome{.lease = kLease, .heartbeat_every = kBeat}, now);
  Go();
  One<C::SayPoll>();
}

TEST_F(Talk, AsksTheGateBeforeItBegins) {
  Register();
  Assign({1});
  EXPECT_TRUE(None<C::Launch>());
  EXPECT_EQ(One<C::SayStart>().start_token, "start-1");
  // The other slot is still asked for, and no more.
  EXPECT_EQ(One<C::SayPoll>().poll.free.at("q"), 1U);
  Open(1);
  EXPECT_EQ(One<C::Launch>().attempt, Key(1));
  EXPECT_EQ(One<C::SayBeat>().heartbeat.work_tokens, std::vector<std::string>{"work-1"});
}

TEST_F(Talk, WhatTheGateDoesNotLetInIsForgotten) {
  Register();
  Assign({1, 2});
  Open(1, Reply::kStop);
  EXPECT_EQ(One<C::Forget>().attempt, Key(1));
  talk.OnStarted(Key(2), Error{Code::kPermissionDenied, "expired"}, now);
  Go();
  EXPECT_EQ(One<C::Forget>().attempt, Key(2));
  EXPECT_EQ(talk.figures().started, 0U);
}

TEST_F(Talk, AsksTheGateAgainWhenItGotNoAnswer) {
  Register();
  Assign({1});
  talk.OnStarted(Key(1), Silence(), now);
  Go();
  EXPECT_TRUE(None<C::SayStart>());
  Go(200ms);
  EXPECT_EQ(One<C::SayStart>().start_token, "start-1");
  talk.OnStarted(Key(1), worker_api::Started{.reply = Reply::kAskAgain}, now);
  Go(400ms);
  EXPECT_EQ(One<C::SayStart>().start_token, "start-1");
}

TEST_F(Talk, WhatIsToBeCancelledAtTheGateNeverRuns) {
  Register();
  Assign({1});
  Open(1, Reply::kCancel);
  EXPECT_TRUE(None<C::Launch>());
  const auto complete = One<C::SayComplete>();
  EXPECT_EQ(complete.outcome.verdict, Verdict::kCancelled);
  EXPECT_EQ(complete.work_token, "work-1");
}

TEST_F(Talk, ALeaseCountsFromWhenTheAnsweredWordBegan) {
  Register();
  Assign({1});
  const Duration asked = now;
  now += 2s;
  Open(1);
  EXPECT_EQ(One<C::Launch>().kill_at, asked + kLease - kLease / 16);
  const auto beat = One<C::SayBeat>();
  const Duration beaten = now;
  now += 3s;
  Pulse(beat, Reply::kGoOn);
  EXPECT_EQ(One<C::KillAt>().at, beaten + kLease - kLease / 16);
}

TEST_F(Talk, WhatMayStartOnlyWhenItsLeaseIsAlmostOverNeverRuns) {
  for (const auto& [late, runs] :
       {std::pair(kLease - kLease / 8 - 1us, true), {kLease - kLease / 8, false}}) {
    Conversation fresh(options, "inc", random, [](const std::string&) {});
    Drive(fresh, now);
    fresh.OnRegistered(worker_api::Welcome{.lease = kLease, .heartbeat_every = kBeat}, now);
    Drive(fresh, now);
    worker_api::Polled polled;
    polled.assignments.push_back({Key(1), "q", "start-1"});
    fresh.OnPolled(1, polled, now);
    Drive(fresh, now);
    now += late;
    fresh.OnStarted(Key(1), worker_api::Started{Reply::kGoOn, "work-1", {}}, now);
    did = Drive(fresh, now);
    EXPECT_EQ(All<C::Launch>().size(), runs ? 1U : 0U);
    EXPECT_TRUE(None<C::Overdue>());
    if (!runs) EXPECT_EQ(One<C::SayComplete>().outcome.verdict, Verdict::kInterrupted);
  }
}

TEST_F(Talk, WhatIsStoppedForItsLeaseMayDropLinesOnceItHadItsGrace) {
  RunOne();
  talk.OnGrace(Key(1), 700ms);
  Go(kLease - kLease / 8);
  EXPECT_TRUE(None<C::DropRest>());
  Go(699ms);
  EXPECT_TRUE(None<C::DropRest>());
  Go(1ms);
  EXPECT_EQ(One<C::DropRest>().attempt, Key(1));
  Go(1ms);
  EXPECT_TRUE(None<C::DropRest>());
}

TEST_F(Talk, AGraceEndsWithTheLease) {
  RunOne();
  talk.OnGrace(Key(1), 60s);
  Go(kLease - kLease / 8);
  Go(kLease / 16 - 1us);
  EXPECT_TRUE(None<C::DropRest>());
  Go(1us);
  EXPECT_EQ(One<C::DropRest>().attempt, Key(1));
}

TEST_F(Talk, WhatWasCancelledMayDropLinesOnceItsLeaseIsOver) {
  const auto beat = RunOne();
  talk.OnGrace(Key(1), 700ms);
  const Duration heard = now;
  Go(1s);
  Pulse(beat, Reply::kCancel);
  // As long as the engine answers, it may take them.
  Go(heard + kLease - kLease / 16 - 1us - now);
  EXPECT_TRUE(None<C::DropRest>());
  Go(1us);
  EXPECT_EQ(One<C::DropRest>().attempt, Key(1));
}

TEST_F(Talk, StopsWhatRunsBeforeTheLeaseEndsAndSaysSoLater) {
  const auto beat = RunOne();
  talk.OnBeaten(beat.id, Silence(), now);
  const Duration soft = now + kLease - kLease / 8;
  now = soft - 1us;
  Go();
  EXPECT_TRUE(None<C::Cancel>());
  Go(1us);
  EXPECT_EQ(One<C::Cancel>().attempt, Key(1));
  EXPECT_EQ(talk.figures().stopped_for_lease, 1U);
  // At the hard end nothing of it may live.
  EXPECT_TRUE(None<C::Overdue>());
  Go(kLease / 16);
  EXPECT_EQ(One<C::Overdue>().attempt, Key(1));
  Go(1s);
  EXPECT_TRUE(None<C::Overdue>());
  End(Verdict::kCancelled);
  const auto complete = One<C::SayComplete>();
  EXPECT_EQ(complete.outcome.verdict, Verdict::kInterrupted);
  EXPECT_EQ(complete.outcome.reason, model::Reason::kNone);
}

TEST_F(Talk, ASuccessThatCameBeforeTheStopStays) {
  const auto beat = RunOne();
  talk.OnBeaten(beat.id, Silence(), now);
  Go(kLease);
  End(Verdict::kSucceeded);
  EXPECT_EQ(One<C::SayComplete>().outcome.verdict, Verdict::kSucceeded);
}

TEST_F(Talk, ABeatThatIsToCancelCancelsOnce) {
  const auto beat = RunOne();
  Pulse(beat, Reply::kCancel);
  EXPECT_EQ(One<C::Cancel>().attempt, Key(1));
  Go(kLease / 4);
  Pulse(One<C::SayBeat>(), Reply::kCancel);
  EXPECT_TRUE(None<C::Cancel>());
  End(Verdict::kCancelled);
  EXPECT_EQ(One<C::SayComplete>().outcome.verdict, Verdict::kCancelled);
}

TEST_F(Talk, WhatIsSomebodyElsesIsKilledAndNothingMoreIsSaid) {
  const auto beat = RunOne();
  talk.OnLines(Key(1));
  Go();
  talk.OnLogged(Key(1), Reply::kGoOn, true, now);
  Pulse(beat, Reply::kStop);
  EXPECT_EQ(One<C::KillAt>().at, Duration(0));
  EXPECT_EQ(One<C::Mute>().attempt, Key(1));
  EXPECT_TRUE(None<C::SayLog>());
  Go(kBeat);
  EXPECT_TRUE(None<C::SayBeat>());
  End(Verdict::kInterrupted);
  EXPECT_TRUE(None<C::SayComplete>());
  EXPECT_EQ(One<C::Forget>().attempt, Key(1));
  EXPECT_EQ(talk.figures().fenced, 1U);
}

TEST_F(Talk, AFunctionThatIsFencedAndDoesNotStopIsOverdue) {
  const auto beat = RunOne();
  Pulse(beat, Reply::kStop);
  Go(kLease);
  EXPECT_EQ(One<C::Overdue>().attempt, Key(1));
}

TEST_F(Talk, ATokenIsReplacedByTheOneThatABeatAnswers) {
  const auto beat = RunOne();
  Pulse(beat, Reply::kGoOn, "renewed");
  Go(kBeat);
  EXPECT_EQ(One<C::SayBeat>().heartbeat.work_tokens, std::vector<std::string>{"renewed"});
  End();
  EXPECT_EQ(One<C::SayComplete>().work_token, "renewed");
}

TEST_F(Talk, WhatHasJustBegunIsShownBesideTheBeatThatWaits) {
  const auto beat = RunOne();
  EXPECT_EQ(beat.heartbeat.wait, kBeat);
  Assign({2});
  Open(2);
  EXPECT_TRUE(None<C::SayBeat>());
  Go(200ms);
  const auto extra = One<C::SayBeat>();
  EXPECT_EQ(extra.heartbeat.work_tokens, std::vector<std::string>{"work-2"});
  EXPECT_EQ(extra.heartbeat.wait, 500ms);
  Pulse(extra, Reply::kCancel);
  EXPECT_EQ(One<C::Cancel>().attempt, Key(2));
  // Whatever comes, there are two at most.
  talk.OnBeaten(beat.id, Silence(), now);
  Go(1s);
  EXPECT_EQ(All<C::SayBeat>().size(), 1U);
  EXPECT_EQ(One<C::SayBeat>().heartbeat.work_tokens.size(), 2U);
}

TEST_F(Talk, LinesGoBeforeTheVerdict) {
  RunOne();
  talk.OnLines(Key(1));
  Go();
  EXPECT_EQ(One<C::SayLog>().work_token, "work-1");
  talk.OnLines(Key(1));
  End();
  EXPECT_TRUE(None<C::SayLog>());  // one at a time
  EXPECT_TRUE(None<C::SayComplete>());
  talk.OnLogged(Key(1), Silence(), true, now);
  Go();
  EXPECT_TRUE(did.empty());
  Go(200ms);
  One<C::SayLog>();
  EXPECT_TRUE(None<C::SayComplete>());
  talk.OnLogged(Key(1), Reply::kGoOn, false, now);
  Go();
  EXPECT_EQ(One<C::SayComplete>().attempt, Key(1));
}

TEST_F(Talk, LinesThatWereSaidAlreadyHoldUpNoVerdict) {
  RunOne();
  talk.OnLines(Key(1));
  Go();
  One<C::SayLog>();
  talk.OnLines(Key(1));  // of a line that went with the first
  talk.OnLogged(Key(1), Reply::kGoOn, false, now);
  End();
  One<C::SayLog>();
  EXPECT_TRUE(None<C::SayComplete>());
  // There is nothing to say: that is known while it is being done.
  talk.OnLogged(Key(1), Reply::kGoOn, false, now);
  EXPECT_LE(talk.due(), now);
  Go();
  One<C::SayComplete>();
}

TEST_F(Talk, AVerdictIsSaidUntilItIsAnswered) {
  RunOne();
  End();
  One<C::SayComplete>();
  for (const Result<Reply>& reply :
       {Result<Reply>(Silence()), Result<Reply>(Reply::kAskAgain),
        Result<Reply>(Error{Code::kAtCapacity, ""}), Result<Reply>(Error{Code::kInternal, ""})}) {
    talk.OnCompleted(Key(1), reply, now);
    Go();
    EXPECT_TRUE(None<C::SayComplete>());
    Go(5s);
    One<C::SayComplete>();
  }
  talk.OnCompleted(Key(1), Reply::kGoOn, now);
  Go();
  EXPECT_EQ(One<C::Forget>().attempt, Key(1));
  EXPECT_EQ(talk.figures().reported, 1U);
}

TEST_F(Talk, WhatIsHeldIsShownUntilItsVerdictIsAnswered) {
  const auto beat = RunOne();
  End();
  Pulse(beat, Reply::kGoOn);
  Go(kBeat);
  EXPECT_EQ(One<C::SayBeat>().heartbeat.work_tokens, std::vector<std::string>{"work-1"});
}

TEST_F(Talk, ABeatBesideAVerdictSaysNothingOfIt) {
  const auto beat = RunOne();
  End();
  One<C::SayComplete>();
  // The verdict was committed, and its answer is the later one.
  Pulse(beat, Reply::kStop);
  EXPECT_TRUE(None<C::Forget>());
  talk.OnCompleted(Key(1), Reply::kGoOn, now);
  Go();
  EXPECT_EQ(One<C::Forget>().attempt, Key(1));
  EXPECT_EQ(talk.figures().reported, 1U);
  EXPECT_EQ(talk.figures().fenced, 0U);
}

TEST_F(Talk, AVerdictWhoseAnswerWasLostIsNotCalledFenced) {
  const auto beat = RunOne();
  End();
  talk.OnCompleted(Key(1), Silence(), now);
  Pulse(beat, Reply::kStop, "renewed");
  EXPECT_TRUE(None<C::Forget>());
  Go(5s);
  EXPECT_EQ(One<C::SayComplete>().work_token, "renewed");
  talk.OnCompleted(Key(1), Reply::kGoOn, now);
  Go();
  EXPECT_EQ(One<C::Forget>().attempt, Key(1));
  EXPECT_EQ(talk.figures().reported, 1U);
  EXPECT_EQ(talk.figures().fenced, 0U);
}

TEST_F(Talk, ABeatThatIsLateIsFollowedByAnother) {
  const auto first = RunOne();
  Go(kBeat + kLease / 8 - 1us);
  EXPECT_TRUE(None<C::SayBeat>());
  Go(1us);
  const auto second = One<C::SayBeat>();
  EXPECT_EQ(second.heartbeat.work_tokens, first.heartbeat.work_tokens);
  Pulse(second, Reply::kGoOn);
  Go(kLease - kLease / 4);
  EXPECT_TRUE(None<C::Cancel>());
}

TEST_F(Talk, ABeatThatWouldBeTooLargeIsSaidInParts) {
  options.slots = {{"q", 10'000}};
  const auto beats_of = [&](std::size_t token_bytes, std::int64_t count) {
    Conversation fresh(options, "inc", random, [](const std::string&) {});
    Drive(fresh, now);
    fresh.OnRegistered(worker_api::Welcome{.lease = kLease, .heartbeat_every = kBeat}, now);
    Drive(fresh, now);
    worker_api::Polled polled;
    for (std::int64_t epoch = 1; epoch <= count; ++epoch)
      polled.assignments.push_back({Key(epoch), "q", "start"});
    fresh.OnPolled(1, polled, now);
    Drive(fresh, now);
    for (std::int64_t epoch = 1; epoch <= count; ++epoch)
      fresh.OnStarted(Key(epoch),
                      worker_api::Started{Reply::kGoOn, std::string(token_bytes, 't'), {}}, now);
    did = Drive(fresh, now);
    std::vector<std::size_t> tokens;
    for (const auto& beat : All<C::SayBeat>()) tokens.push_back(beat.heartbeat.work_tokens.size());
    return tokens;
  };
  EXPECT_EQ(beats_of(1'024, 2'048), (std::vector<std::size_t>{2'048}));
  EXPECT_EQ(beats_of(1'024, 2'049), (std::vector<std::size_t>{2'048, 1}));
}

TEST_F(Talk, WhatIsHandedBackIsSaidInPartsToo) {
  Register();
  talk.OnDrain(now);
  worker_api::Polled polled;
  for (std::int64_t epoch = 1; epoch <= 2'049; ++epoch)
    polled.assignments.push_back({Key(epoch), "q", std::string(1'024, 't')});
  talk.OnPolled(last_poll, polled, now);
  Go();
  const auto said = All<C::SayHandBack>();
  ASSERT_EQ(said.size(), 2U);
  EXPECT_EQ(said[0].start_tokens.size(), 2'048U);
  EXPECT_EQ(said[1].start_tokens.size(), 1U);
}

TEST_F(Talk, LateBeatsAreBounded) {
  options.slots = {{"q", 1}};
  RunOne();
  std::size_t beats = 1;
  for (int i = 0; i < 100; ++i) {
    Go(kBeat);
    beats += All<C::SayBeat>().size();
  }
  EXPECT_EQ(beats, 8U);
}

TEST_F(Talk, AWelcomeThatNobodyCanKeepIsNone) {
  for (const auto& [lease, beat] :
       {std::pair<Duration, Duration>(0s, 1s), {1s, 0s}, {1s, 1s}, {24h + 1us, 1s}}) {
    Go(5s);
    One<C::SayRegister>();
    talk.OnRegistered(worker_api::Welcome{.lease = lease, .heartbeat_every = beat}, now);
    Go();
    EXPECT_TRUE(did.empty());
    EXPECT_NE(told.back().find("cannot be kept"), std::string::npos);
  }
  Go(5s);
  talk.OnRegistered(worker_api::Welcome{.lease = 24h, .heartbeat_every = 1s}, now);
  Go();
  One<C::SayPoll>();
}

TEST_F(Talk, AnOutcomeThatIsRefusedBecomesAFailureOnce) {
  RunOne();
  End();
  talk.OnCompleted(Key(1), Error{Code::kInvalidArgument, "too large"}, now);
  Go();
  const auto again = One<C::SayComplete>().outcome;
  EXPECT_EQ(again.verdict, Verdict::kFailed);
  EXPECT_EQ(again.reason, model::Reason::kOutput);
  EXPECT_EQ(again.error, "too large");
  talk.OnCompleted(Key(1), Error{Code::kInvalidArgument, "too large"}, now);
  Go();
  EXPECT_EQ(One<C::Forget>().attempt, Key(1));
}

TEST_F(Talk, OneThatIsNotKnownAnyMoreRegistersAndGoesOn) {
  const auto beat = RunOne();
  talk.OnBeaten(beat.id, Error{Code::kNotFound, ""}, now);
  Go();
  One<C::SayRegister>();
  EXPECT_TRUE(None<C::SayBeat>());
  EXPECT_TRUE(None<C::Cancel>());
  talk.OnRegistered(worker_api::Welcome{.lease = kLease, .heartbeat_every = kBeat}, now);
  Go(kBeat);
  EXPECT_EQ(One<C::SayBeat>().heartbeat.work_tokens, std::vector<std::string>{"work-1"});
  End();
  One<C::SayComplete>();
  // Nobody needs to be registered to say that.
  talk.OnCompleted(Key(1), Error{Code::kNotFound, ""}, now);
  Go();
  EXPECT_TRUE(None<C::SayRegister>());
  Go(200ms);
  One<C::SayComplete>();
}

TEST_F(Talk, AShorterLeaseOfTheNextEngineIsForWhatThatOneHears) {
  const auto beat = RunOne();
  const Duration heard = now;
  Go(5s);
  talk.OnBeaten(beat.id, Error{Code::kNotFound, ""}, now);
  Go();
  One<C::SayRegister>();
  talk.OnRegistered(worker_api::Welcome{.lease = 2s, .heartbeat_every = 500ms}, now);
  Go();
  EXPECT_TRUE(None<C::Cancel>() && None<C::Overdue>()) << "what was promised stands";
  const auto next = One<C::SayBeat>();
  const Duration said = now;
  Go(100ms);
  Pulse(next, Reply::kGoOn);
  EXPECT_EQ(One<C::KillAt>().at, said + 2s - 125ms);
  talk.OnBeaten(next.id, Silence(), now);
  Go(said + 2s - 250ms - now);
  EXPECT_EQ(One<C::Cancel>().attempt, Key(1));
  EXPECT_LT(now, heard + kLease);
}

TEST_F(Talk, WhatTheNextEngineDoesNotHearHasTheLeaseThatItWasPromised) {
  const auto beat = RunOne();
  const Duration heard = now;
  talk.OnBeaten(beat.id, Error{Code::kNotFound, ""}, now);
  Go();
  talk.OnRegistered(worker_api::Welcome{.lease = 2s, .heartbeat_every = 500ms}, now);
  Go();
  now = heard + kLease - kLease / 8 - 1us;
  Go();
  EXPECT_TRUE(None<C::Cancel>());
  Go(1us);
  EXPECT_EQ(One<C::Cancel>().attempt, Key(1));
  EXPECT_TRUE(None<C::Overdue>());
}

TEST_F(Talk, OneThatIsForgottenAgainAndAgainRegistersLaterAndLater) {
  Register();
  int registered = 0;
  for (const Duration until = now + 60s; now < until; Go(50ms)) {
    for (const auto& each : All<C::SayPoll>())
      talk.OnPolled(each.id, Error{Code::kNotFound, ""}, now);
    if (None<C::SayRegister>()) continue;
    ++registered;
    talk.OnRegistered(worker_api::Welcome{.lease = kLease, .heartbeat_every = kBeat}, now);
  }
  EXPECT_GE(registered, 12);
  EXPECT_LE(registered, 40);
}

TEST_F(Talk, ACordonedWorkerAsksAgainLater) {
  Register();
  talk.OnPolled(One<C::SayPoll>().id, worker_api::Polled{.assignments = {}, .drain = true}, now);
  Go();
  EXPECT_TRUE(None<C::SayPoll>());
  Go(5s);
  One<C::SayPoll>();
}

TEST_F(Talk, APollWhoseAnswerIsKnownIsSaidAgainLaterAndLater) {
  Register();
  Assign({1});
  Duration last{};
  for (int i = 0; i < 6; ++i) {
    Assign({1});
    EXPECT_TRUE(None<C::SayPoll>());
    EXPECT_GE(talk.due() - now, std::max<Duration>(last, 50ms));
    last = talk.due() - now;
    Go(last);
    One<C::SayPoll>();
  }
  Assign({1, 2});
  talk.OnStarted(Key(2), worker_api::Started{.reply = Reply::kStop}, now);
  Go();
  One<C::SayPoll>();
}

TEST_F(Talk, APollThatGotNoAnswerIsSaidAgainLater) {
  Register();
  talk.OnPolled(One<C::SayPoll>().id, Silence(), now);
  Go();
  EXPECT_TRUE(None<C::SayPoll>());
  Go(200ms);
  One<C::SayPoll>();
}

TEST_F(Talk, DrainHandsBackWhatHasNotBegun) {
  Register();
  Assign({1});
  const auto poll = One<C::SayPoll>();
  Open(1, Reply::kAskAgain);  // its gate may be open: it is asked again
  talk.OnDrain(now);
  worker_api::Polled polled;
  polled.assignments.push_back({Key(2), "q", "start-2"});
  talk.OnPolled(poll.id, polled, now);
  Go();
  EXPECT_EQ(One<C::SayHandBack>().start_tokens, std::vector<std::string>{"start-2"});
  EXPECT_TRUE(None<C::SayLeave>());
  Go(200ms);
  EXPECT_EQ(One<C::SayStart>().start_token, "start-1");
  Open(1);
  EXPECT_TRUE(None<C::Launch>());
  EXPECT_EQ(One<C::SayComplete>().outcome.verdict, Verdict::kInterrupted);
  talk.OnCompleted(Key(1), Reply::kGoOn, now);
  Go();
  One<C::SayLeave>();
  talk.OnLeft();
  EXPECT_TRUE(talk.end().has_value() && talk.end()->has_value());
}

TEST_F(Talk, DrainLetsWhatRunsEndAndStopsItAfterAWhile) {
  const auto beat = RunOne();
  talk.OnDrain(now);
  Go();
  EXPECT_TRUE(None<C::SayPoll>());
  EXPECT_TRUE(None<C::Cancel>());
  Go(9'999ms);
  EXPECT_TRUE(None<C::Cancel>());
  Pulse(beat, Reply::kGoOn);
  Go(1ms);
  EXPECT_EQ(One<C::Cancel>().attempt, Key(1));
  End(Verdict::kCancelled);
  EXPECT_EQ(One<C::SayComplete>().outcome.verdict, Verdict::kInterrupted);
}

TEST_F(Talk, DrainEndsAlsoWhereCodeDoesNot) {
  const auto beat = RunOne();
  talk.OnGrace(Key(1), 3s);
  talk.OnDrain(now);
  Pulse(beat, Reply::kGoOn);
  const Duration begin = now;
  const Duration most = options.drain_timeout + 3s + options.report_patience;
  while (now + 100ms < begin + most) {
    for (const auto& each : All<C::SayBeat>())
      talk.OnBeaten(each.id, worker_api::Beaten{.pulses = {{Reply::kGoOn, ""}}}, now);
    Go(100ms);
    ASSERT_FALSE(talk.end());
    EXPECT_TRUE(None<C::Overdue>());
    // Lines that nobody takes are given up before.
    EXPECT_EQ(None<C::DropRest>(), now != begin + options.drain_timeout + 3s);
  }
  Go(100ms);
  EXPECT_EQ(One<C::Overdue>().attempt, Key(1));
  EXPECT_TRUE(None<C::SayLeave>()) << "another would begin it";
  ASSERT_TRUE(talk.end());
  EXPECT_EQ(talk.end()->error().code, Code::kDrainTimeout);
}

TEST_F(Talk, ASecondDrainStopsAtOnce) {
  RunOne();
  talk.OnDrain(now);
  Go(1s);
  EXPECT_TRUE(None<C::Cancel>());
  talk.OnDrain(now);
  Go();
  EXPECT_EQ(One<C::Cancel>().attempt, Key(1));
}

TEST_F(Talk, AnOperatorDrainsItByAPollAndBySignalsItIsHurriedLater) {
  RunOne();
  talk.OnPolled(last_poll, worker_api::Polled{.assignments = {}, .drain = true, .leave = true},
                now);
  Go();
  EXPECT_EQ(told.back(), "an operator drains this worker, for up to 10.0s");
  EXPECT_TRUE(None<C::SayPoll>());
  Go(1s);
  talk.OnDrain(now);  // whoever stops the program that drains already
  Go();
  EXPECT_TRUE(None<C::Cancel>());
  talk.OnDrain(now);
  Go();
  EXPECT_EQ(One<C::Cancel>().attempt, Key(1));
}

TEST_F(Talk, AnOperatorDrainsItByAHeartbeat) {
  const auto beat = RunOne();
  Assign({2});
  const worker_api::Beaten beaten{.pulses = {{Reply::kGoOn, ""}}, .leave = true};
  talk.OnBeaten(beat.id, beaten, now);
  Go();
  EXPECT_TRUE(None<C::Cancel>());
  // Said again each time, it is no second wish.
  Go(200ms);
  const auto again = One<C::SayBeat>();
  talk.OnBeaten(again.id, beaten, now);
  Go();
  EXPECT_TRUE(None<C::Cancel>());
  End();
  talk.OnCompleted(Key(1), Reply::kGoOn, now);
  Go();
  Open(2);
  talk.OnCompleted(Key(2), Reply::kGoOn, now);
  Go();
  One<C::SayLeave>();
  talk.OnLeft();
  EXPECT_TRUE(talk.end().has_value() && talk.end()->has_value());
}

TEST_F(Talk, EndsThatCannotBeSaidAreGivenUpAfterAWhile) {
  RunOne();
  talk.OnDrain(now);
  talk.OnDrain(now);
  Go();
  End(Verdict::kCancelled);
  for (int i = 0; i < 100 && None<C::SayLeave>(); ++i) {
    if (!None<C::SayComplete>()) talk.OnCompleted(Key(1), Silence(), now);
    EXPECT_LE(i, 90);
    Go(100ms);
  }
  One<C::SayLeave>();
  Go(5s);
  ASSERT_TRUE(talk.end());
  EXPECT_EQ(talk.end()->error().code, Code::kDrainTimeout);
}

TEST_F(Talk, WhoIsAboutToBeRegisteredLeaves) {
  Go();
  One<C::SayRegister>();
  talk.OnDrain(now);
  EXPECT_FALSE(talk.end());
  Go();
  One<C::SayLeave>();
}

TEST_F(Talk, WhoIsNotRegisteredDrainsAtOnce) {
  Go();
  talk.OnRegistered(Silence(), now);
  talk.OnDrain(now);
  Go();
  EXPECT_TRUE(talk.end().has_value() && talk.end()->has_value());
}

TEST_F(Talk, PollsThatWaitCoverSlotsThatAreFreedMeanwhile) {
  Register();
  Assign({1});
  const auto first = One<C::SayPoll>();
  Open(1);
  End();
  const auto second = One<C::SayPoll>();
  EXPECT_EQ(first.poll.free.at("q") + second.poll.free.at("q"), 2U);
}

}  // namespace
}  // namespace headworks::worker
