#include "pem.h"

#include <fmt/format.h>

#include <fstream>
#include <iterator>

namespace headworks::rpc {

Result<std::string> ReadPem(const std::string& path, std::string_view what) {
  std::ifstream file(path, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (!file.is_open() || text.find("-----BEGIN ") == std::string::npos)
    return Error{Code::kInvalidArgument,
                 fmt::format("the {} {} cannot be read as a PEM file; check the path, and who may "
                             "read it",
                             what, path)};
  return text;
}

}  // namespace headworks::rpc
