// What an author may get wrong, for the test that all of it is named.
#include "headworks/author/author.h"

namespace {

HEADWORKS_TASK("faulty::once::more::too::often", [] {});
HEADWORKS_TASK("twice", [] {});
HEADWORKS_TASK("public::embedded::*::twice", [] {});
HEADWORKS_WORKFLOW("circle", [](headworks::WorkflowBuilder& w) {
  w.Task("a").Run("true").Needs({"b"});
  w.Task("b").Run("true").Needs({"a"});
});

}  // namespace
