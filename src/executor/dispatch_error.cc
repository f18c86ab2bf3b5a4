#include "headworks/executor/dispatch_error.h"

namespace headworks::executor {

using model::Disposition;

std::string_view DispatchErrorName(DispatchError error) {
  switch (error) {
    case DispatchError::kExecutorNotFound:
      return "executor_not_found";
    case DispatchError::kNoCapacity:
      return "no_capacity";
    case DispatchError::kTaskNotFound:
      return "task_not_found";
    case DispatchError::kContext:
      return "context";
    case DispatchError::kValidation:
      return "validation";
    case DispatchError::kStore:
      return "store";
    case DispatchError::kExecutionFailed:
      return "execution_failed";
  }
  return "unknown";
}

Disposition DispositionOf(DispatchError error) {
  switch (error) {
    case DispatchError::kNoCapacity:
      return Disposition::kDeferred;
    case DispatchError::kStore:
      return Disposition::kTransient;
    case DispatchError::kValidation:
      return Disposition::kRefused;
    case DispatchError::kExecutorNotFound:
    case DispatchError::kTaskNotFound:
    case DispatchError::kContext:
    case DispatchError::kExecutionFailed:
      break;
  }
  return Disposition::kRejected;
}

Code CodeOf(DispatchError error) {
  switch (error) {
    case DispatchError::kExecutorNotFound:
    case DispatchError::kTaskNotFound:
      return Code::kNotFound;
    case DispatchError::kNoCapacity:
      return Code::kAtCapacity;
    case DispatchError::kContext:
      return Code::kInvalidArgument;
    case DispatchError::kValidation:
      return Code::kPermissionDenied;
    case DispatchError::kStore:
      return Code::kUnavailable;
    case DispatchError::kExecutionFailed:
      break;
  }
  return Code::kInternal;
}

}  // namespace headworks::executor
