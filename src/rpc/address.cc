#include "address.h"

#include <fmt/format.h>

#include <charconv>

#include "headworks/rpc/rpc_server.h"

namespace headworks::rpc {

std::string Address::ToString() const { return fmt::format("{}:{}", host, port); }

bool IsUnixAddress(std::string_view text) { return text.starts_with("unix:"); }

Result<Address> ParseAddress(std::string_view text) {
  const Error bad{Code::kInvalidArgument,
                  fmt::format("'{}' is no address; write HOST:PORT, such as 127.0.0.1:7070 or "
                              "[::1]:7070",
                              text)};
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos) return bad;
  Address address{.host = std::string(text.substr(0, colon))};
  const std::string_view host = address.host;
  const bool bracketed = host.starts_with('[') && host.ends_with(']') && host.size() > 2;
  if (!bracketed && host.find_first_of(":[]/ ") != std::string_view::npos) return bad;
  const std::string_view port = text.substr(colon + 1);
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), address.port);
  if (error != std::errc() || end != port.data() + port.size() || address.port < 0 ||
      address.port > 65'535 || port.starts_with('-'))
    return bad;
  return address;
}

Status CheckAddress(std::string_view address) {
  HEADWORKS_TRY(ParseAddress(address));
  return {};
}

}  // namespace headworks::rpc
