#include "headworks/executor/executor.h"

namespace headworks::executor {

std::string Attempt::IdempotencyKey() const {
  std::string text = run_id.value + "/" + task().id;
  if (key.map_index >= 0) text += "/" + std::to_string(key.map_index);
  // A rerun means to do it again, so it must not be taken for the same work.
  if (generation > 0) text += "/g" + std::to_string(generation);
  return text;
}

}  // namespace headworks::executor
