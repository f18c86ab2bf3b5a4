#include "headworks/executor/executor.h"

#include <utility>

namespace headworks::executor {

OfferResult NotTaken(DispatchError error, std::string cause) {
  return {DispositionOf(error), std::move(cause), error};
}

std::string Attempt::IdempotencyKey() const {
  std::string text = run_id.value + "/" + task().id;
  if (key.map_index >= 0) text += "/" + std::to_string(key.map_index);
  // A rerun means to do it again, so it must not be taken for the same work.
  if (generation > 0) text += "/g" + std::to_string(generation);
  return text;
}

}  // namespace headworks::executor
