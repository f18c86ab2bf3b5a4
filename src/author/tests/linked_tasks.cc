// A library of tasks that nobody calls by name, as an author would link it.
#include "headworks/author/author.h"

namespace {

struct Greeting {
  std::string text;
};
HEADWORKS_FIELDS(Greeting, text);

struct Person {
  std::string name;
};
HEADWORKS_FIELDS(Person, name);

Greeting Greet(const Person& person) { return {"Hello " + person.name}; }

HEADWORKS_TASK("greet", Greet);
HEADWORKS_TASK("party::greet", [](const Person& person, headworks::TaskContext&) {
  return Greeting{"Hi " + person.name};
});
HEADWORKS_WORKFLOW("party", [](headworks::WorkflowBuilder& w) {
  w.Param("name", "you");
  w.Task("say").Function("greet");
});

}  // namespace
