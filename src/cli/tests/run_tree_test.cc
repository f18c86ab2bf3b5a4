#include "run_tree.h"

#include <gtest/gtest.h>

#include <map>

namespace headworks::cli {
namespace {

using model::TaskState;
using Needs = std::vector<std::pair<std::string, std::vector<std::string>>>;

class RunTreeTest : public testing::Test {
 protected:
  void Make(const Needs& needs) {
    model::WorkflowDefinition definition;
    definition.name.workflow = "w";
    for (const auto& [id, upstreams] : needs) {
      model::Task task;
      task.id = id;
      task.action = model::ShellAction{"true", {}};
      task.needs = upstreams;
      definition.tasks.push_back(task);
    }
    workflow_ = *model::Workflow::Create(std::move(definition));
    tasks_.assign(workflow_->size(), {});
  }

  void Set(std::string_view id, TaskState state) {
    tasks_[workflow_->Find(id)->value].state = state;
  }

  std::string Draw(Fold fold = Fold::kNothing, bool utf8 = true, std::size_t width = 60) const {
    std::string text;
    for (const TreeRow& row : DrawTree(*workflow_, tasks_, fold, utf8, width)) {
      text += row.branch;
      for (const TaskNo no : row.tasks) text += workflow_->task(no).id + " ";
      for (const TaskNo no : row.also_needs) text += "+" + workflow_->task(no).id + " ";
      text.back() = '\n';
    }
    return text;
  }

  std::shared_ptr<const model::Workflow> workflow_;
  std::vector<model::TaskRun> tasks_;
};

TEST_F(RunTreeTest, DiamondHangsTheJoinBelowOneAndNamesTheOther) {
  Make({{"a", {}}, {"b", {"a"}}, {"c", {"a"}}, {"d", {"b", "c"}}, {"e", {}}});
  EXPECT_EQ(Draw(),
            "├─ a\n"
            "│  ├─ b\n"
            "│  │  └─ d +c\n"
            "│  └─ c\n"
            "└─ e\n");
  EXPECT_EQ(Draw(Fold::kNothing, false),
            "|- a\n"
            "|  |- b\n"
            "|  |  `- d +c\n"
            "|  `- c\n"
            "`- e\n");
}

TEST_F(RunTreeTest, TaskHangsBelowTheUpstreamThatIsFarthestFromTheRoots) {
  Make({{"a", {}}, {"b", {"a"}}, {"late", {"b"}}, {"join", {"a", "late"}}});
  EXPECT_EQ(Draw(), "└─ a\n   └─ b\n      └─ late\n         └─ join +a\n");
}

TEST_F(RunTreeTest, DeepBranchesAreCutOnTheLeft) {
  Make({{"a", {}}, {"b", {"a"}}, {"c", {"b"}}, {"d", {"c"}}});
  EXPECT_EQ(Draw(Fold::kNothing, true, 9), "└─ a\n   └─ b\n      └─ c\n…     └─ d\n");
}

TEST_F(RunTreeTest, LeavesInTheSameStateShareALine) {
  Make({{"a", {}},
        {"t1", {"a"}},
        {"t2", {"a"}},
        {"t3", {"a"}},
        {"t4", {"a"}},
        {"t5", {"a"}},
        {"t6", {"a"}},
        {"t7", {"a"}}});
  for (const char* id : {"a", "t1", "t3", "t4"}) Set(id, TaskState::kSucceeded);
  for (const char* id : {"t2", "t5", "t6"}) Set(id, TaskState::kRunning);
  EXPECT_EQ(Draw(Fold::kQuiet), "└─ a\n   ├─ t1 t3 t4\n   ├─ t2\n   ├─ t5\n   ├─ t6\n   └─ t7\n");
  EXPECT_EQ(Draw(Fold::kEverything), "└─ a\n   ├─ t1 t3 t4\n   ├─ t2 t5 t6\n   └─ t7\n");
}

TEST_F(RunTreeTest, WhatOthersHangBelowIsNeverFolded) {
  Make({{"t1", {}}, {"t2", {}}, {"t3", {}}, {"join", {"t1", "t2", "t3"}}});
  EXPECT_EQ(Draw(Fold::kEverything), "├─ t1\n│  └─ join +t2 +t3\n├─ t2\n└─ t3\n");
}

}  // namespace
}  // namespace headworks::cli
