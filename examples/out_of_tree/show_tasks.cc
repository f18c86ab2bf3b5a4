// Shows what is linked in, and calls one task the way a test of it would.
#include <iostream>

#include "headworks/author/author.h"

namespace {

class Console final : public headworks::TaskHost {
 public:
  void Log(std::string_view line) override { std::cout << "log: " << line << '\n'; }
  void Heartbeat() override {}
};

}  // namespace

int main() {
  headworks::TaskRegistry registry;
  if (const auto status = registry.RegisterLinked(); !status) {
    std::cerr << status.error().message << '\n';
    return 1;
  }
  for (const auto& function : registry.Functions())
    std::cout << "task " << function.ToString() << '\n';
  for (const auto& workflow : registry.Workflows())
    std::cout << "workflow " << workflow->name().ToString() << ", " << workflow->size()
              << " tasks\n";

  const auto count = registry.Find({.workflow = "words"}, "count");
  if (!count) {
    std::cerr << count.error().message << '\n';
    return 1;
  }
  Console console;
  const headworks::TaskInfo info;
  headworks::TaskContext context(info, R"({"text": "to be or not to be"})", "{}", std::stop_token(),
                                 console);
  auto counted = (**count)(context);
  if (counted.value() == nullptr) return 1;
  std::cout << "output: " << counted.value()->text << '\n';
  return 0;
}
