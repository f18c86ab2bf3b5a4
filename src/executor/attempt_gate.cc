#include "headworks/executor/attempt_gate.h"

#include <algorithm>
#include <utility>

namespace headworks::executor {

Result<std::string> AttemptGate::Admit(const Attempt& attempt) {
  return issuer_.MintStart(attempt.key, attempt.try_no, StartValid(attempt));
}

Status AttemptGate::CheckAdmission(const Attempt& attempt) const {
  return issuer_.CheckStart(attempt.key, attempt.try_no, StartValid(attempt));
}

Duration AttemptGate::StartValid(const Attempt& attempt) const {
  return attempt.task().start_timeout + options_.pending_timeout;
}

void AttemptGate::Open(AttemptSink& sink, std::string_view start_token, std::string holder,
                       Callback done) {
  auto start = issuer_.Verify(start_token, TokenUse::kStart);
  if (!start) return done(ToError(start.error()));
  Word word{start->attempt, holder, Word::Kind::kStarted, {}};
  sink.Hear(std::move(word), [this, start = *std::move(start), holder = std::move(holder),
                              done = std::move(done)](const Heard& heard) {
    if (heard.reply != Reply::kGoOn && heard.reply != Reply::kCancel)
      return done(Answer{heard.reply, {}});
    // By another clock, which may have been set since.
    auto token = issuer_.MintWork(start, holder, std::min(heard.opened_at, clock_.Now()));
    if (!token) return done(Error(token.error()));
    done(Answer{heard.reply, *std::move(token)});
  });
}

void AttemptGate::Say(AttemptSink& sink, std::string_view work_token, Word::Kind kind,
                      model::Outcome outcome, Callback done) {
  auto work = issuer_.Verify(work_token, TokenUse::kWork);
  if (!work) return done(ToError(work.error()));
  if (kind == Word::Kind::kStarted) return done(ToError(TokenFault::kWrongUse));
  const bool over = NearCeiling(*work);
  if (over && kind == Word::Kind::kVerdict && outcome.verdict == model::Verdict::kCancelled) {
    outcome.verdict = model::Verdict::kFailed;
    outcome.reason = model::Reason::kCredentialCeiling;
    outcome.error = "it ran for as long as its token may be renewed";
  }
  Word word{work->attempt, work->holder, kind, std::move(outcome)};
  sink.Hear(std::move(word),
            [this, work = *std::move(work), kind, over, done = std::move(done)](Reply reply) {
              if (over && reply == Reply::kGoOn && kind != Word::Kind::kVerdict)
                reply = Reply::kCancel;
              Answer answer{reply, {}};
              const bool alive = kind == Word::Kind::kHeartbeat &&
                                 (reply == Reply::kGoOn || reply == Reply::kCancel);
              if (alive && work.expires_at - clock_.Now() <= options_.renew_before)
                if (auto token = issuer_.Renew(work)) answer.token = *std::move(token);
              done(std::move(answer));
            });
}

bool AttemptGate::NearCeiling(const TokenClaims& work) const {
  const Instant ceiling = issuer_.Ceiling(work.opened_at);
  return ceiling != kNever && clock_.Now() >= ceiling - options_.stop_before_ceiling;
}

}  // namespace headworks::executor
