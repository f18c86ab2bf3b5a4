#pragma once

#include <string>
#include <vector>

namespace headworks::cli {

/// One command of the tree, as a shell needs to know it.
struct CommandNode {
  std::string name;
  std::string description;
  std::vector<std::string> options = {};  // "--store", "-o"
  std::vector<CommandNode> commands = {};
};

/// Scripts that complete commands, options and, where neither fits, file names.
std::string BashCompletion(const CommandNode& root);
/// Through zsh's own bashcompinit.
std::string ZshCompletion(const CommandNode& root);
std::string FishCompletion(const CommandNode& root);

}  // namespace headworks::cli
