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

/// Whether it is the path of a socket of this host: "unix:PATH".
bool IsUnixAddress(std::string_view text);

/// "HOST:PORT", "[IPV6]:PORT" or ":PORT".
Result<Address> ParseAddress(std::string_view text);

}  // namespace headworks::rpc
