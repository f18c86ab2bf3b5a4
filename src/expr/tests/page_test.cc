#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json/parse.hpp>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "functions.h"
#include "headworks/base/json.h"
#include "headworks/expr/program.h"
#include "headworks/expr/shell_template.h"
#include "headworks/expr/template.h"

// docs/expressions.md says what is true: every row of its tables is run.
namespace headworks::expr {
namespace {

struct Row {
  std::string section;
  std::vector<std::string> cells;
};

struct Page {
  boost::json::object variables;
  std::vector<Row> rows;
};

/// The cells of "| a | b |", a code span without its backticks and with `\|` as `|`.
std::vector<std::string> Cells(const std::string& line) {
  std::vector<std::string> cells;
  std::string cell;
  for (std::size_t i = 1; i < line.size(); ++i) {
    if (line[i] == '\\' && i + 1 < line.size() && line[i + 1] == '|') {
      cell += line[++i];
    } else if (line[i] == '|') {
      cell = cell.size() < 2 ? "" : cell.substr(1, cell.size() - 2);
      const bool code = cell.size() > 1 && cell.front() == '`' && cell.back() == '`';
      cells.push_back(code ? cell.substr(1, cell.size() - 2) : cell);
      cell.clear();
    } else {
      cell += line[i];
    }
  }
  return cells;
}

Page ReadPage() {
  Page page;
  std::ifstream file(EXPRESSIONS_PAGE);
  std::string section;
  std::string json;
  bool in_json = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("## ")) section = line.substr(3);
    if (line == "```" && in_json) {
      page.variables = boost::json::parse(json).as_object();
      in_json = false;
    }
    if (in_json) json += line;
    in_json |= line == "```json";
    if (line.starts_with("| `")) page.rows.push_back({section, Cells(line)});
  }
  return page;
}

Environment Declared() {
  using Kind = Type::Kind;
  const Type task = Type::Object({{"output", Kind::kObject}}, false);
  Environment environment;
  EXPECT_TRUE(
      environment.Declare("needs", Type::Object({{"build", task}, {"unit-test", task}}, false)));
  EXPECT_TRUE(environment.Declare("params", Type::Object({{"env", Kind::kString},
                                                          {"count", Kind::kInt},
                                                          {"rate", Kind::kDouble},
                                                          {"tags", Type::List(Kind::kString)},
                                                          {"note", Type::Nullable(Kind::kString)}},
                                                         false)));
  return environment;
}

/// The value as JSON, or the message of what went wrong first.
std::string Outcome(const Row& row, const boost::json::object& variables) {
  const std::string& text = row.cells[0];
  if (row.section == "Shell scripts") {
    const auto made = ShellTemplate::Parse(text, Shell::kBash, Declared(), nullptr);
    return made ? made->script() : made.error().message;
  }
  if (row.section == "Templates") {
    const auto made = Template::Parse(text, Declared(), nullptr);
    if (!made) return made.error().message;
    const auto value = made->Render(variables, {});
    return value ? CanonicalJson(*value) : value.error().message;
  }
  const auto program = Program::Compile(text, Declared(), nullptr);
  if (!program) return program.error().message;
  const auto value = program->Evaluate(variables, {});
  return value ? CanonicalJson(*value) : value.error().message;
}

TEST(Page, EveryExampleHolds) {
  const Page page = ReadPage();
  std::set<std::string> sections;
  for (const Row& row : page.rows) {
    ASSERT_GE(row.cells.size(), 2) << row.cells[0];
    sections.insert(row.section);
    const std::string outcome = Outcome(row, page.variables);
    if (row.section == "Errors" || outcome.find("put it into env") != std::string::npos) {
      EXPECT_NE(outcome.find(row.cells[1]), std::string::npos)
          << row.cells[0] << "\ngives " << outcome;
    } else {
      EXPECT_EQ(outcome, row.cells[1]) << row.cells[0];
    }
  }
  EXPECT_EQ(sections.size(), 7);
}

TEST(Page, NamesEveryFunction) {
  const Page page = ReadPage();
  for (const internal::Function& function : internal::Functions()) {
    const std::string call = std::string(function.name) + "(";
    const bool shown = std::any_of(page.rows.begin(), page.rows.end(), [&](const Row& row) {
      return row.cells[0].find(call) != std::string::npos;
    });
    EXPECT_TRUE(shown) << function.name;
  }
}

}  // namespace
}  // namespace headworks::expr
