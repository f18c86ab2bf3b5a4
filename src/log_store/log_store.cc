#include "headworks/log_store/log_store.h"

#include "headworks/base/text.h"

namespace headworks::log_store {

std::string DisplayText(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  while (true) {
    const std::size_t valid = ValidUtf8Prefix(bytes);
    text += bytes.substr(0, valid);
    if (valid == bytes.size()) return text;
    text += "\xEF\xBF\xBD";
    bytes.remove_prefix(valid + 1);
  }
}

}  // namespace headworks::log_store
