#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "headworks/base/check.h"
#include "headworks/spec/workflow_file.h"

/// Any bytes give a workflow that the model takes and that reads back as itself, or faults that
/// point into the text and can be explained.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using headworks::model::Workflow;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::vector<headworks::spec::Fault> faults;
  const auto definition = headworks::spec::ParseWorkflow(text, "fuzz.yaml", "/", &faults);
  HEADWORKS_CHECK(definition.has_value() == faults.empty());
  if (definition) {
    const auto workflow = Workflow::Create(*definition);
    HEADWORKS_CHECK(workflow.has_value());
    const auto again = Workflow::FromCanonicalJson((*workflow)->canonical_json());
    HEADWORKS_CHECK(again.has_value() && (*again)->version() == (*workflow)->version());
    return 0;
  }
  for (const auto& fault : faults) {
    HEADWORKS_CHECK(headworks::spec::Explain(fault.code) != nullptr);
    HEADWORKS_CHECK(!fault.message.empty() && fault.column <= size + 1 && fault.line <= size + 1);
    HEADWORKS_CHECK((fault.line == 0) == (fault.column == 0));
  }
  return 0;
}
