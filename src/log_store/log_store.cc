#include "headworks/log_store/log_store.h"

#include "headworks/base/text.h"

namespace headworks::log_store {

std::string DisplayText(std::string_view bytes) { return ReplaceInvalidUtf8(bytes); }

}  // namespace headworks::log_store
