/// Writes a workflow file of a given shape: dag_gen SHAPE SIZE [--seed N] [--run S | --function F]

#include <charconv>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "headworks/dag_gen/dag_gen.h"

namespace headworks::dag_gen {
namespace {

template <typename T>
Result<T> ParseNumber(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    return Error{Code::kInvalidArgument, "not a whole number: " + std::string(text)};
  return value;
}

Result<DagOptions> ParseArguments(std::span<const std::string_view> arguments) {
  if (arguments.size() < 2)
    return Error{Code::kInvalidArgument,
                 "usage: dag_gen SHAPE SIZE [--seed N] [--run SCRIPT | --function NAME]"};
  DagOptions options;
  HEADWORKS_ASSIGN(options.shape, ShapeFromName(arguments[0]));
  HEADWORKS_ASSIGN(options.size, ParseNumber<std::uint32_t>(arguments[1]));
  for (std::size_t i = 2; i < arguments.size(); i += 2) {
    if (i + 1 == arguments.size())
      return Error{Code::kInvalidArgument, std::string(arguments[i]) + " needs a value"};
    const std::string value(arguments[i + 1]);
    if (arguments[i] == "--seed") {
      HEADWORKS_ASSIGN(options.seed, ParseNumber<std::uint64_t>(value));
    } else if (arguments[i] == "--run") {
      options.action = model::ShellAction{.script = value};
    } else if (arguments[i] == "--function") {
      options.action = model::FunctionAction{value};
    } else {
      return Error{Code::kInvalidArgument, "unknown option " + std::string(arguments[i])};
    }
  }
  return options;
}

int Main(std::span<const std::string_view> arguments) {
  const auto options = ParseArguments(arguments);
  const Result<model::WorkflowDefinition> definition =
      options ? Generate(*options) : options.error();
  if (!definition) {
    std::fprintf(stderr, "dag_gen: %s\n", definition.error().message.c_str());
    return 2;
  }
  const std::string text = ToWorkflowFile(*definition);
  const bool written =
      std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  if (!written) std::perror("dag_gen: cannot write");
  return written ? 0 : 1;
}

}  // namespace
}  // namespace headworks::dag_gen

int main(int argc, char** argv) {
  const std::vector<std::string_view> arguments(argv + 1, argv + argc);
  return headworks::dag_gen::Main(arguments);
}
