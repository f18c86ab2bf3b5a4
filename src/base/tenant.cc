#include "headworks/base/tenant.h"

#include <fmt/format.h>

#include "headworks/base/json.h"

namespace headworks {
namespace {

constexpr std::size_t kLongest = 100;

}  // namespace

Status CheckTenantName(std::string_view name) {
  constexpr std::string_view kAllowed =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
  if (!name.empty() && name.size() <= kLongest &&
      name.find_first_not_of(kAllowed) == std::string_view::npos)
    return {};
  return Error{Code::kInvalidArgument,
               fmt::format("{} is no name of a tenant; use 1 to {} letters, digits, _ . and -",
                           QuoteJson(name.substr(0, 2 * kLongest)), kLongest)};
}

}  // namespace headworks
