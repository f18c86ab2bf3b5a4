#include "headworks/expr/command.h"

#include <gtest/gtest.h>

#include <boost/json/object.hpp>
#include <string>

#include "expressions.h"

namespace headworks::expr {
namespace {

/// "argument: message" of each fault, or "depends".
std::string Judged(const std::vector<std::string>& words,
                   const boost::json::object* matrix = nullptr) {
  Environment environment = TestEnvironment();
  EXPECT_TRUE(environment.Declare("matrix", {}));
  std::vector<Template> arguments;
  for (const std::string& word : words) {
    auto argument = Template::ParseArgument(word, environment, nullptr);
    EXPECT_TRUE(argument) << word;
    arguments.push_back(*std::move(argument));
  }
  const CommandReading reading = ReadCommand(arguments, matrix);
  std::string all = reading.depends_on_matrix ? "depends" : "";
  for (const auto& [argument, fault] : reading.faults) {
    EXPECT_EQ(fault.kind, FaultKind::kShell);
    EXPECT_EQ(words[argument].substr(fault.offset, fault.length), "params.env");
    all += std::to_string(argument) + ": " + fault.message + "\n";
  }
  return all;
}

TEST(Command, WhatIsReadAsCodeIsRefused) {
  const std::string value = "${{ params.env }}";
  EXPECT_TRUE(Judged({value}).starts_with("0: '${{ params.env }}' names the program to run;"));
  EXPECT_TRUE(Judged({"nice", "-n", "5", value}).starts_with("3: "));
  EXPECT_TRUE(Judged({"sh", "-c", "echo " + value}).starts_with("2: "));
  EXPECT_TRUE(Judged({"/usr/bin/python3.11", "-c", "print('" + value + "')"}).starts_with("2: "));
  EXPECT_TRUE(Judged({"env", "A=b", "perl", "-e", value}).starts_with("4: "));
  EXPECT_TRUE(Judged({"sed", "s/a/b/", value}).find("could be an option") != std::string::npos);
  EXPECT_EQ(Judged({"sh", "-c", "echo \"$1\"", "sh", value}), "");
  EXPECT_EQ(Judged({"awk", "-v", "x=" + value, "{ print x }"}), "");
  EXPECT_EQ(Judged({"sed", "s/a/b/", "--", value}), "");
  EXPECT_EQ(Judged({"./tool", value, "--x=" + value}), "");
  EXPECT_EQ(Judged({}), "");
}

TEST(Command, WordsOfTheShellAreNone) {
  // Each would begin another command in a script.
  for (const char* word : {"if", "!", "{", "function", "while"})
    EXPECT_EQ(Judged({word, "${{ params.env }}"}), "") << word;
  EXPECT_EQ(Judged({"echo", "'$(${{ params.env }})'"}), "") << "nothing is expanded";
}

TEST(Command, ValuesOfTheMatrixCountAsText) {
  const std::vector<std::string> words{"${{ matrix.cc }}", "-c", "${{ params.env }}"};
  EXPECT_EQ(Judged(words), "depends");
  const boost::json::object gcc{{"cc", "gcc"}}, sh{{"cc", "sh"}};
  EXPECT_EQ(Judged(words, &gcc), "");
  EXPECT_TRUE(Judged(words, &sh).starts_with("2: "));
  EXPECT_EQ(Judged({"${{ matrix.cc }}", "-c", "x"}), "depends");
}

TEST(Command, ControlCharactersAreNoMarks) {
  EXPECT_EQ(Judged({"\x02\x03", "\x01"}), "");
  EXPECT_TRUE(Judged({"sh", "-c", "\x03 ${{ params.env }}"}).starts_with("2: "));
}

}  // namespace
}  // namespace headworks::expr
