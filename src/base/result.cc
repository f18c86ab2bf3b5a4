#include "headworks/base/result.h"

namespace headworks {

std::string_view CodeName(Code code) {
  switch (code) {
    case Code::kInvalidArgument:
      return "invalid_argument";
    case Code::kNotFound:
      return "not_found";
    case Code::kConflict:
      return "conflict";
    case Code::kLeaseLost:
      return "lease_lost";
    case Code::kAtCapacity:
      return "at_capacity";
    case Code::kDrainTimeout:
      return "drain_timeout";
    case Code::kUnavailable:
      return "unavailable";
    case Code::kCancelled:
      return "cancelled";
    case Code::kCorrupt:
      return "corrupt";
    case Code::kPermissionDenied:
      return "permission_denied";
    case Code::kInternal:
      return "internal";
  }
  return "unknown";
}

}  // namespace headworks
