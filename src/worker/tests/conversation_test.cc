#include "talk.h"

// What is said of attempts, and their leases.
namespace headworks::worker {
namespace {

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

TEST_F(Talk, WhereNoBeatMayWaitTheNextComesHalfwayLater) {
  const auto beat = RunOne();
  const Duration said = now;
  Go(10ms);
  Pulse(beat, Reply::kGoOn);
  Go(said + kBeat / 2 - 1us - now);
  EXPECT_TRUE(None<C::SayBeat>());
  Go(1us);
  const auto next = One<C::SayBeat>();
  Go(100ms);
  Pulse(next, Reply::kCancel);
  One<C::SayBeat>();  // that was news
}

TEST_F(Talk, ABeatThatWaitedIsFollowedByTheNext) {
  const auto beat = RunOne();
  Go(kBeat / 2);
  Pulse(beat, Reply::kGoOn);
  One<C::SayBeat>();
}

TEST_F(Talk, TheShortestLeaseIsKept) {
  auto beat = RunOne(100ms, 33ms);
  for (int i = 0; i < 50; ++i) {
    Go(33ms);  // as long as it waits
    Pulse(beat, Reply::kGoOn);
    ASSERT_TRUE(None<C::Cancel>());
    beat = One<C::SayBeat>();
  }
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

TEST_F(Talk, LateBeatsAreBounded) {
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

}  // namespace
}  // namespace headworks::worker
