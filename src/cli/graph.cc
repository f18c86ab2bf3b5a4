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
std::string Label(const std::string& text) { return FitToWidth(text, 48); }

/// One box per level: "3 tasks: a … c".
Graph ByLevel(const model::Workflow& workflow, const std::vector<std::uint32_t>& levels,
              std::size_t count) {
  Graph graph;
  std::vector<std::uint32_t> tasks(count);
  std::vector<std::uint32_t> first(count, workflow.size());
  std::set<std::pair<std::uint32_t, std::uint32_t>> edges;
  for (std::uint32_t no = 0; no < workflow.size(); ++no) {
    const std::uint32_t level = levels[no];
    ++tasks[level];
    first[level] = std::min(first[level], no);
    for (const TaskNo up : workflow.upstreams(TaskNo(no))) edges.insert({levels[up.value], level});
  }
  for (std::uint32_t level = 0; level < count; ++level) {
    const std::string& id = workflow.task(TaskNo(first[level])).id;
    graph.nodes.push_back(
        {tasks[level] == 1 ? Label(id) : Label(fmt::format("{} tasks: {} …", tasks[level], id)),
         level, model::TaskRole::kMain});
  }
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
    graph = ByLevel(workflow, levels, count);
  } else {
    for (std::uint32_t no = 0; no < workflow.size(); ++no) {
      const model::Task& task = workflow.task(TaskNo(no));
      graph.nodes.push_back({Label(task.id), levels[no], task.role});
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
