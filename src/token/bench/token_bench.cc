// What a token costs to make and to check.
#include <benchmark/benchmark.h>

#include <cstdlib>

#include "headworks/base/random.h"
#include "headworks/token/jwt_issuer.h"

namespace headworks::token {
namespace {

std::unique_ptr<JwtIssuer> Issuer(Clock& clock) {
  SystemRandom random;  // tidy-allow(random): a bench runs on the real machine
  auto issuer = JwtIssuer::Create({}, TokenKeys::Generate(random), clock);
  if (!issuer) std::abort();
  return *std::move(issuer);
}

const model::AttemptKey kAttempt{TenantId("public"), RunNo(42), TaskNo(3), -1, Epoch(7)};

void Mint(benchmark::State& state) {
  SystemClock clock;  // tidy-allow(clock): a bench runs on the real machine
  const auto issuer = Issuer(clock);
  for (auto unused : state)
    benchmark::DoNotOptimize(issuer->MintStart(kAttempt, 1, std::chrono::minutes(70)));
}
BENCHMARK(Mint);

void Verify(benchmark::State& state) {
  SystemClock clock;  // tidy-allow(clock): a bench runs on the real machine
  const auto issuer = Issuer(clock);
  const auto token = issuer->MintStart(kAttempt, 1, std::chrono::hours(24));
  for (auto unused : state)
    if (!issuer->Verify(*token, executor::TokenUse::kStart)) state.SkipWithError("refused");
}
BENCHMARK(Verify);

}  // namespace
}  // namespace headworks::token

BENCHMARK_MAIN();
