#include <gtest/gtest.h>

#include "fuzz/properties.h"
#include "fuzz/seeded_changes.h"

namespace headworks::expr {
namespace {

constexpr std::string_view kMeaning = "${{}}()[]\"'`\\\n.,:?!-+*/%<>=&|#0179aerbu \x00\xff";

TEST(Fuzz, ExpressionsHoldTheirProperties) {
  AttackWithCorpus(EXPRESSIONS_CORPUS "/expression", kMeaning, 2'000'000, CheckExpression);
}

TEST(Fuzz, TemplatesHoldTheirProperties) {
  AttackWithCorpus(EXPRESSIONS_CORPUS "/template", kMeaning, 500'000, CheckTemplate);
}

}  // namespace
}  // namespace headworks::expr
