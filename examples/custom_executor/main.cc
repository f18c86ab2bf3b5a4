// Runs a workflow whose commands go to a printer: `print DATABASE PAPER`.
#include <iostream>
#include <string>

#include "headworks/author/author.h"
#include "headworks/runner/runner.h"
#include "printer.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: print DATABASE PAPER\n";
    return 2;
  }
  headworks::WorkflowBuilder w("letter");
  w.Task("greeting").Exec({"print", "Dear reader,"});
  w.Task("body").Exec({"print", "this was printed once."}).Needs({"greeting"});
  const auto workflow = w.Build();
  if (!workflow) {
    std::cerr << workflow.error().message << '\n';
    return 1;
  }

  Printer printer(argv[2]);  // outlives the runner
  headworks::RunnerOptions options;
  options.database_url = std::string("sqlite:") + argv[1];
  options.executors["printer"] = &printer;
  options.command_executor = "printer";
  // A printer answers slowly: the engine does not wait for it.
  options.dispatch_buffer_size = 100;
  auto runner = headworks::Runner::Open(options);
  if (!runner) {
    std::cerr << runner.error().message << '\n';
    return 1;
  }
  if (const auto known = (*runner)->Register(*workflow); !known) {
    std::cerr << known.error().message << '\n';
    return 1;
  }
  const auto result = (*runner)->Execute("letter");
  if (!result) {
    std::cerr << result.error().message << '\n';
    return 1;
  }
  for (const auto& [task, error] : result->failures) std::cerr << task << ": " << error << '\n';
  std::cout << headworks::model::RunStateName(result->state) << '\n';
  return result->state == headworks::model::RunState::kSucceeded ? 0 : 1;
}
