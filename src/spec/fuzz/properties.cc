#include "properties.h"

#include <vector>

#include "headworks/base/check.h"
#include "headworks/spec/workflow_file.h"

namespace headworks::spec {

void CheckWorkflowText(std::string_view text) {
  using model::Workflow;
  std::vector<Fault> faults;
  const auto definition = ParseWorkflow(text, "fuzz.yaml", "/", &faults);
  HEADWORKS_CHECK(definition.has_value() || !faults.empty());
  if (definition) {
    const auto workflow = Workflow::Create(*definition);
    HEADWORKS_CHECK(workflow.has_value());
    const auto again = Workflow::FromCanonicalJson((*workflow)->canonical_json());
    HEADWORKS_CHECK(again.has_value() && (*again)->version() == (*workflow)->version());
  }
  for (const auto& fault : faults) {
    HEADWORKS_CHECK(Explain(fault.code) != nullptr);
    HEADWORKS_CHECK(!fault.message.empty() && fault.column <= text.size() + 1 &&
                    fault.line <= text.size() + 1);
    HEADWORKS_CHECK((fault.line == 0) == (fault.column == 0));
  }
}

}  // namespace headworks::spec
