#pragma once

#include <string>
#include <string_view>

#include "headworks/base/result.h"

namespace headworks::rpc {

struct Address {
  /// "[::1]" with its brackets; empty = not said.
  std::string host;
  int port = 0;
  std::string ToString() const;
};

/// "HOST:PORT", "[IPV6]:PORT" or ":PORT".
Result<Address> ParseAddress(std::string_view text);

}  // namespace headworks::rpc
