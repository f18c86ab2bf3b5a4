#include "commands.h"
#include "headworks/spec/schema.h"
#include "output.h"

namespace headworks::cli {

Result<Exit> PrintSchema() {
  Print(spec::JsonSchema() + "\n");
  return Exit::kOk;
}

}  // namespace headworks::cli
