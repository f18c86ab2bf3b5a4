#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace headworks::task_queue {

/// Takes secrets out of a text that is stored and shown.
using Redactor = std::function<std::string(std::string_view)>;

/// Replaces what looks like a credential by "***": the value after `=`, `:` or `=>` of a name with
/// a part that ends in password, passwd, passphrase, pwd, secret, token, api_key, access_key,
/// secret_key or private_key (in any case, with "_", "-" or without, quoted or not, in JSON within
/// JSON too), the headers Authorization and Cookie, what follows "Bearer " or "Basic ", the
/// password or the token before the host of a URL, and private keys in PEM.  In time proportional
/// to the text.
std::string RedactCredentials(std::string_view text);

}  // namespace headworks::task_queue
