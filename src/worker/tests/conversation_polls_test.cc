#include "talk.h"

// What it asks for, and how it comes to its end.
namespace headworks::worker {
namespace {

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
  Register(240s, 60s);
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

TEST_F(Talk, AHostWithoutRoomAsksForOneBesideWhatRuns) {
  RunOne();
  const auto fails = [&](std::int64_t epoch) {
    talk.OnEnded(Key(epoch), {.verdict = Verdict::kSnoozed,
                              .reason = model::Reason::kDispatchFailed,
                              .error = "no space left"});
    talk.OnCompleted(Key(epoch), Reply::kGoOn, now);
    Go();
  };
  Assign({2});
  Open(2);
  fails(2);
  EXPECT_TRUE(None<C::SayPoll>());
  Go(1s);
  EXPECT_EQ(One<C::SayPoll>().poll.free.at("q"), 1U);
  Assign({3});
  EXPECT_TRUE(None<C::SayPoll>()) << "it has yet to begin";
  Open(3);
  EXPECT_TRUE(None<C::SayPoll>());
  fails(3);
  Go(2s - 1us);
  EXPECT_TRUE(None<C::SayPoll>());
  Go(1us);
  One<C::SayPoll>();
}

TEST_F(Talk, AHostWithoutRoomAsksForMoreOnceWhatItTriedGoesOn) {
  Register();
  Assign({1, 2});
  Open(1);
  Open(2);
  for (const std::int64_t epoch : {1, 2}) {
    talk.OnEnded(Key(epoch),
                 {.verdict = Verdict::kSnoozed, .reason = model::Reason::kDispatchFailed});
    talk.OnCompleted(Key(epoch), Reply::kGoOn, now);
  }
  Go();
  Go(1s);
  EXPECT_EQ(One<C::SayPoll>().poll.free.at("q"), 1U);
  Assign({3});
  Open(3);
  EXPECT_TRUE(None<C::SayPoll>()) << "it may be over in a moment";
  Go(1s);
  EXPECT_EQ(One<C::SayPoll>().poll.free.at("q"), 1U);
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

TEST_F(Talk, OneWhoIsTakenAgainPollsAgain) {
  RunOne();
  talk.OnPolled(last_poll, Error{Code::kPermissionDenied, "expired"}, now);
  Go(200ms);
  One<C::SayRegister>();
  talk.OnRegistered(worker_api::Welcome{.lease = kLease, .heartbeat_every = kBeat}, now);
  Go();
  One<C::SayPoll>();
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

TEST_F(Talk, ACordonedWorkerAsksAgainLater) {
  Register();
  talk.OnPolled(One<C::SayPoll>().id, worker_api::Polled{.assignments = {}, .drain = true}, now);
  Go();
  EXPECT_TRUE(None<C::SayPoll>());
  Go(kBeat / 2 - 1us);
  EXPECT_TRUE(None<C::SayPoll>());
  Go(1us);
  One<C::SayPoll>();
}

TEST_F(Talk, ACordonedWorkerAsksAgainAfterFiveSecondsAtMost) {
  Register(600s, 150s);
  talk.OnPolled(One<C::SayPoll>().id, worker_api::Polled{.assignments = {}, .drain = true}, now);
  Go(5s - 1us);
  EXPECT_TRUE(None<C::SayPoll>());
  Go(1us);
  One<C::SayPoll>();
}

// Whoever says nothing for two heartbeats is shown as silent.
TEST_F(Talk, ACordonedWorkerIsNeverSilent) {
  Register();
  EXPECT_LT(LongestSilence([&](std::int64_t) {
              talk.OnPolled(last_poll, worker_api::Polled{.assignments = {}, .drain = true}, now);
              Go();
            }),
            2 * kBeat);
}

TEST_F(Talk, AWorkerWithoutRoomIsNeverSilent) {
  Register();
  EXPECT_LT(LongestSilence([&](std::int64_t epoch) {
              Assign({epoch});
              Open(epoch);
              talk.OnEnded(Key(epoch), {.verdict = Verdict::kSnoozed,
                                        .reason = model::Reason::kDispatchFailed});
              talk.OnCompleted(Key(epoch), Reply::kGoOn, now);
              Go();
            }),
            2 * kBeat);
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

TEST_F(Talk, ADrainWithoutPatienceLeavesCodeItsGrace) {
  options.report_patience = 0s;
  Conversation hasty(options, "inc", random, [](const std::string&) {});
  Drive(hasty, now);
  hasty.OnRegistered(worker_api::Welcome{.lease = kLease, .heartbeat_every = kBeat}, now);
  Drive(hasty, now);
  worker_api::Polled polled;
  polled.assignments.push_back({Key(1), "q", "start-1"});
  hasty.OnPolled(1, polled, now);
  Drive(hasty, now);
  hasty.OnStarted(Key(1), worker_api::Started{Reply::kGoOn, "work-1", {}}, now);
  hasty.OnGrace(Key(1), 3s);
  hasty.OnDrain(now);
  hasty.OnDrain(now);
  did = Drive(hasty, now);
  EXPECT_EQ(One<C::Cancel>().attempt, Key(1));
  now += 3s - 1us;
  did = Drive(hasty, now);
  EXPECT_TRUE(None<C::Overdue>() && None<C::SayLeave>());
  EXPECT_FALSE(hasty.end());
  now += 1us;
  did = Drive(hasty, now);
  EXPECT_EQ(One<C::Overdue>().attempt, Key(1));
  EXPECT_TRUE(hasty.end());
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
