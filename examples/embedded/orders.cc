// A program that runs its own functions durably: `orders DATABASE ITEMS`.
#include <cstdlib>
#include <iostream>
#include <string>

#include "headworks/author/author.h"
#include "headworks/runner/runner.h"

namespace {

struct Order {
  int items = 0;
};
HEADWORKS_FIELDS(Order, items);

struct Bill {
  int total = 0;
};
HEADWORKS_FIELDS(Bill, total);

Bill Price(const Order& order, headworks::TaskContext& context) {
  if (order.items <= 0) throw headworks::Fail("an order needs at least one item");
  context.Log(std::to_string(order.items) + " items");
  return {order.items * 7};
}
HEADWORKS_TASK("price", Price);

HEADWORKS_WORKFLOW("order", [](headworks::WorkflowBuilder& w) {
  w.Task("price").Function("price").Retry(3);
  w.Task("archive").Run("echo \"archived\"").Needs({"price"});
});

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: orders DATABASE ITEMS\n";
    return 2;
  }
  headworks::RunnerOptions options;
  options.database_url = std::string("sqlite:") + argv[1];
  auto runner = headworks::Runner::Open(options);
  if (!runner) {
    std::cerr << runner.error().message << '\n';
    return 1;
  }
  headworks::StartOptions start;
  start.input = std::string(R"({"items":)") + argv[2] + "}";
  const auto handle = (*runner)->Start("order", start);
  if (!handle) {
    std::cerr << handle.error().message << '\n';
    return 1;
  }
  const auto result = handle->Wait();
  if (!result) {
    std::cerr << result.error().message << '\n';
    return 1;
  }
  for (const auto& [task, error] : result->failures) std::cerr << task << ": " << error << '\n';
  std::cout << headworks::model::RunStateName(result->state) << ' '
            << handle->Output("price").value_or("") << '\n';
  return result->state == headworks::model::RunState::kSucceeded ? 0 : 1;
}
