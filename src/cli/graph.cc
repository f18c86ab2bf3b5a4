#include "graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "output.h"
#include "run_view.h"

namespace headworks::cli {
namespace {

/// On one line, as long as a box can be.
std::string Label(const std::string& text, model::TaskRole role) {
  return FitToWidth(text, 48) + std::string(RoleMark(role));
}

/// One box per level of each section: "3 tasks: a … c".
Graph ByLevel(const model::Workflow& workflow, const std::vector<std::uint32_t>& levels) {
  struct Box {
    std::uint32_t no = 0, tasks = 0, first = 0;
  };
  std::map<std::pair<model::TaskRole, std::uint32_t>, Box> boxes;
  const auto box_of = [&](TaskNo no) -> Box& {
    return boxes[{workflow.task(no).role, levels[no.value]}];
  };
  for (std::uint32_t no = 0; no < workflow.size(); ++no)
    if (Box& box = box_of(TaskNo(no)); box.tasks++ == 0) box.first = no;
  Graph graph;
  for (auto& [key, box] : boxes) {
    const auto& [role, level] = key;
    box.no = static_cast<std::uint32_t>(graph.nodes.size());
    const std::string& id = workflow.task(TaskNo(box.first)).id;
    graph.nodes.push_back(
        {Label(box.tasks == 1 ? id : fmt::format("{} tasks: {} …", box.tasks, id), role), level,
         role});
  }
  std::set<std::pair<std::uint32_t, std::uint32_t>> edges;
  for (std::uint32_t no = 0; no < workflow.size(); ++no)
    for (const TaskNo up : workflow.upstreams(TaskNo(no)))
      edges.insert({box_of(up).no, box_of(TaskNo(no)).no});
  graph.edges.assign(edges.begin(), edges.end());
  return graph;
}

std::string Escaped(std::string_view text, const std::map<char, std::string_view>& names) {
  std::string escaped;
  escaped.reserve(text.size());
  for (const char c : text) {
    const auto name = names.find(c);
    if (name == names.end())
      escaped += c;
    else
      escaped += name->second;
  }
  return escaped;
}

}  // namespace

std::string_view RoleMark(model::TaskRole role) {
  switch (role) {
    case model::TaskRole::kOnCancel:
      return " (on_cancel)";
    case model::TaskRole::kFinally:
      return " (finally)";
    case model::TaskRole::kMain:
      break;
  }
  return "";
}

Result<Graph> GraphOf(const model::Workflow& workflow) {
  const auto levels = Levels(workflow);
  Graph graph;
  if (workflow.size() > kMostDrawn) {
    const std::size_t count = 1 + *std::ranges::max_element(levels);
    if (count > kMostDrawn)
      return Error{Code::kAtCapacity,
                   fmt::format("{} tasks on {} levels are too many for a picture (at most {}); "
                               "`headworks workflow show -o json` lists them",
                               workflow.size(), count, kMostDrawn)};
    graph = ByLevel(workflow, levels);
  } else {
    for (std::uint32_t no = 0; no < workflow.size(); ++no) {
      const model::Task& task = workflow.task(TaskNo(no));
      graph.nodes.push_back({Label(task.id, task.role), levels[no], task.role});
      for (const TaskNo up : workflow.upstreams(TaskNo(no))) graph.edges.emplace_back(up.value, no);
    }
  }
  graph.title = workflow.name().workflow;
  return graph;
}

std::string Mermaid(const Graph& graph) {
  static const std::map<char, std::string_view> kNames{
      {'"', "#quot;"}, {'#', "#35;"}, {'<', "#lt;"}, {'>', "#gt;"}, {'&', "#amp;"}};
  std::string text = "flowchart LR\n";
  for (std::size_t no = 0; no < graph.nodes.size(); ++no)
    text += fmt::format(
        fmt::runtime(graph.nodes[no].role == model::TaskRole::kMain ? "  t{}[\"{}\"]\n"
                                                                    : "  t{}([\"{}\"])\n"),
        no, Escaped(graph.nodes[no].label, kNames));
  for (const auto& [from, to] : graph.edges) text += fmt::format("  t{} --> t{}\n", from, to);
  return text;
}

std::string Dot(const Graph& graph) {
  static const std::map<char, std::string_view> kNames{{'"', "\\\""}, {'\\', "\\\\"}};
  std::string text = fmt::format("digraph \"{}\" {{\n  rankdir=LR;\n  node [shape=box];\n",
                                 Escaped(graph.title, kNames));
  for (std::size_t no = 0; no < graph.nodes.size(); ++no)
    text += fmt::format("  t{} [label=\"{}\"{}];\n", no, Escaped(graph.nodes[no].label, kNames),
                        graph.nodes[no].role == model::TaskRole::kMain ? "" : ", style=rounded");
  for (const auto& [from, to] : graph.edges) text += fmt::format("  t{} -> t{};\n", from, to);
  return text + "}\n";
}

}  // namespace headworks::cli
