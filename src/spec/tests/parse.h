#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "headworks/model/workflow.h"
#include "headworks/spec/workflow_file.h"

namespace headworks::spec {

/// "line:column CODE" of each fault; every code must be explained.
inline std::vector<std::string> FaultsOf(std::string_view text) {
  std::vector<Fault> faults;
  const auto result = ParseWorkflow(text, "w.yaml", "/srv", &faults);
  EXPECT_EQ(result.has_value(), faults.empty());
  std::vector<std::string> all;
  for (const Fault& fault : faults) {
    all.push_back(fmt::format("{}:{} {}", fault.line, fault.column, fault.code));
    EXPECT_NE(Explain(fault.code), nullptr) << fault.code;
    EXPECT_NE(result.error().message.find(fault.ToString()), std::string::npos);
  }
  return all;
}

/// All faults as a person sees them; empty = none.
inline std::string MessageOf(std::string_view text) {
  const auto result = ParseWorkflow(text, "w.yaml", "/srv");
  return result ? "" : result.error().message;
}

inline model::WorkflowDefinition Good(std::string_view text) {
  auto result = ParseWorkflow(text, "w.yaml", "/srv");
  EXPECT_TRUE(result.has_value()) << result.error().message;
  return result ? *std::move(result) : model::WorkflowDefinition{};
}

}  // namespace headworks::spec
