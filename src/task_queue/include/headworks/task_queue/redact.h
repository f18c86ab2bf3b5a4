#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace headworks::task_queue {

/// Takes secrets out of a text that is stored and shown.
using Redactor = std::function<std::string(std::string_view)>;

/// Replaces what looks like a credential by "***": the value after a name that ends in password,
/// passwd, secret, token, api_key, apikey or authorization and `=` or `:` (quoted or not), what
/// follows "Bearer " or "Basic ", and the password of a URL.
std::string RedactCredentials(std::string_view text);

}  // namespace headworks::task_queue
