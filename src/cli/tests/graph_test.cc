#include "graph.h"

#include <gtest/gtest.h>

#include <regex>

namespace headworks::cli {
namespace {

std::shared_ptr<const model::Workflow> Make(
    const std::vector<std::pair<std::string, std::vector<std::string>>>& needs) {
  model::WorkflowDefinition definition;
  definition.name.workflow = "w";
  definition.tasks.reserve(needs.size());
  for (const auto& [id, upstreams] : needs) {
    model::Task task;
    task.id = id;
    task.action = model::ShellAction{"true", {}};
    task.needs = upstreams;
    definition.tasks.push_back(std::move(task));
  }
  return *model::Workflow::Create(std::move(definition));
}

/// x, y, width and height of each box.
std::vector<std::array<double, 4>> Boxes(const std::string& svg) {
  static const std::regex kBox(
      R"re(<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)")re");
  std::vector<std::array<double, 4>> boxes;
  for (std::sregex_iterator at(svg.begin(), svg.end(), kBox), end; at != end; ++at)
    boxes.push_back(
        {std::stod((*at)[1]), std::stod((*at)[2]), std::stod((*at)[3]), std::stod((*at)[4])});
  return boxes;
}

TEST(Graph, MermaidAndDotNameTasksAndArrows) {
  const auto graph = GraphOf(*Make({{"a", {}}, {"b", {"a"}}}));
  EXPECT_EQ(Mermaid(*graph), "flowchart LR\n  t0[\"a\"]\n  t1[\"b\"]\n  t0 --> t1\n");
  EXPECT_EQ(Dot(*graph),
            "digraph \"w\" {\n  rankdir=LR;\n  node [shape=box];\n  t0 [label=\"a\"];\n"
            "  t1 [label=\"b\"];\n  t0 -> t1;\n}\n");
}

TEST(Graph, EveryFormatMarksTasksThatRunAtTheEnd) {
  model::WorkflowDefinition definition =
      Make({{"a", {}}, {"undo", {}}, {"last", {}}})->definition();
  definition.tasks[1].role = model::TaskRole::kOnCancel;
  definition.tasks[2].role = model::TaskRole::kFinally;
  const auto graph = GraphOf(**model::Workflow::Create(definition));
  for (const std::string& text : {Mermaid(*graph), Dot(*graph), Svg(*graph)}) {
    EXPECT_NE(text.find("undo (on_cancel)"), std::string::npos) << text;
    EXPECT_NE(text.find("last (finally)"), std::string::npos) << text;
    EXPECT_EQ(text.find("a ("), std::string::npos) << text;
  }
  // One box per level keeps them apart as well.
  while (definition.tasks.size() <= kMostDrawn) {
    model::Task task = definition.tasks[definition.tasks.size() % 3];
    task.id += std::to_string(definition.tasks.size());
    definition.tasks.push_back(std::move(task));
  }
  const auto large = GraphOf(**model::Workflow::Create(definition));
  ASSERT_EQ(large->nodes.size(), 3U);
  EXPECT_TRUE(large->nodes[0].label.starts_with("334 tasks: a"));
  EXPECT_TRUE(large->nodes[1].label.ends_with("tasks: undo … (on_cancel)"));
  EXPECT_TRUE(large->nodes[2].label.ends_with("tasks: last … (finally)"));
}

TEST(Graph, LabelsAreEscapedAsEachFormatWants) {
  Graph graph;
  graph.title = "t<&";
  graph.nodes = {{"a\"<b>&\\#\x01", 0, model::TaskRole::kMain}};
  EXPECT_NE(Mermaid(graph).find("[\"a#quot;#lt;b#gt;#amp;\\#35;"), std::string::npos);
  EXPECT_NE(Dot(graph).find(R"([label="a\"<b>&\\#)"), std::string::npos);
  const std::string svg = Svg(graph);
  EXPECT_NE(svg.find(">a&quot;&lt;b&gt;&amp;\\# </text>"), std::string::npos) << svg;
  EXPECT_NE(svg.find("<title>t&lt;&amp;</title>"), std::string::npos);
}

TEST(Graph, BoxesStandRightOfWhatTheyNeedAndNeverOverlap) {
  std::vector<std::pair<std::string, std::vector<std::string>>> needs{{"root", {}}};
  for (int i = 0; i < 60; ++i) {
    std::vector<std::string> before{needs[static_cast<std::size_t>(i * 7) % needs.size()].first};
    if (i % 3 == 0 && before[0] != "root") before.emplace_back("root");
    needs.emplace_back("task_" + std::to_string(i * 1'000), before);
  }
  const auto workflow = Make(needs);
  const auto graph = GraphOf(*workflow);
  const auto boxes = Boxes(Svg(*graph));
  ASSERT_EQ(boxes.size(), workflow->size());
  for (std::size_t i = 0; i < boxes.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      const auto& [ax, ay, aw, ah] = boxes[i];
      const auto& [bx, by, bw, bh] = boxes[j];
      EXPECT_FALSE(ax < bx + bw && bx < ax + aw && ay < by + bh && by < ay + ah) << i << " " << j;
    }
  for (const auto& [from, to] : graph->edges)
    EXPECT_GT(boxes[to][0], boxes[from][0] + boxes[from][2]);
}

TEST(Graph, LargeOnesShowABoxPerLevelAndTheDeepestNothing) {
  std::vector<std::pair<std::string, std::vector<std::string>>> wide{{"root", {}}};
  while (wide.size() < kMostDrawn)
    wide.emplace_back("t" + std::to_string(wide.size()), std::vector<std::string>{"root"});
  EXPECT_EQ(GraphOf(*Make(wide))->nodes.size(), kMostDrawn);
  wide.emplace_back("last", std::vector<std::string>{"root"});
  const auto graph = GraphOf(*Make(wide));
  ASSERT_EQ(graph->nodes.size(), 2U);
  EXPECT_EQ(graph->nodes[1].label, "1000 tasks: t1 …");
  EXPECT_EQ(graph->edges, (std::vector<std::pair<std::uint32_t, std::uint32_t>>{{0, 1}}));

  std::vector<std::pair<std::string, std::vector<std::string>>> deep{{"t0", {}}};
  while (deep.size() <= kMostDrawn) {
    const std::string before = deep.back().first;
    deep.emplace_back("t" + std::to_string(deep.size()), std::vector<std::string>{before});
  }
  const auto refused = GraphOf(*Make(deep));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kAtCapacity);
}

}  // namespace
}  // namespace headworks::cli
