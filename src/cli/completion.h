#pragma once

#include <string>
#include <vector>

namespace headworks::cli {

/// An option as a shell needs to know it.
struct OptionNode {
  std::string name;  // "--store", "-o"
  std::string description;
  bool takes_value = false;
  /// What the value may be; empty = anything, such as a file.
  std::vector<std::string> values = {};
};

/// One command of the tree.
struct CommandNode {
  std::string name;
  std::string description;
  std::vector<OptionNode> options = {};
  /// What its arguments may be; empty = anything.
  std::vector<std::string> values = {};
  std::vector<CommandNode> commands = {};
};

/// Scripts that complete commands, options, their values and, where nothing is known, file names.
/// Sourced, or found by the shell in its folder of completions.
std::string BashCompletion(const CommandNode& root);
std::string ZshCompletion(const CommandNode& root);
std::string FishCompletion(const CommandNode& root);

}  // namespace headworks::cli
