#include <gtest/gtest.h>

#include "fuzz/properties.h"
#include "seeded_changes.h"

namespace headworks::spec {
namespace {

TEST(Fuzz, WorkflowFilesHoldTheirProperties) {
  constexpr std::string_view kMeaning = "\n\n    ::--,,[]{}&*!|>'\"#%?$@`\\\t\r.<=~019eynx\x00\xff";
  AttackWithCorpus(WORKFLOWS_CORPUS, kMeaning, 150'000, CheckWorkflowText);
}

}  // namespace
}  // namespace headworks::spec
