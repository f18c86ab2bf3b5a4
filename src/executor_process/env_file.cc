#include "env_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "headworks/base/fd.h"

namespace headworks::executor_process {
namespace {

constexpr std::string_view kBlank = " \t";
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

std::string_view Trim(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

bool IsName(std::string_view name) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
  return !name.empty() && kLetters.find(name.front()) != std::string_view::npos &&
         std::ranges::all_of(name, [&](char c) {
           return kLetters.find(c) != std::string_view::npos || (c >= '0' && c <= '9');
         });
}

/// The character that \`c` stands for in double quotes; 0 = none.
char Escaped(char c) {
  switch (c) {
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    case '"':
    case '\\':
    case '$':
      return c;
    default:
      return 0;
  }
}

/// A value that begins with a quote.  An error is what is wrong with it.
Result<std::string> Quoted(std::string_view text) {
  const auto bad = [](const char* what) { return Error{Code::kInvalidArgument, what}; };
  const char quote = text.front();
  std::string value;
  std::size_t at = 1;
  for (; at < text.size() && text[at] != quote; ++at) {
    if (quote == '"' && text[at] == '\\' && at + 1 < text.size()) {
      const char c = Escaped(text[at + 1]);
      if (c == 0) value += '\\';
      value += c == 0 ? text[at + 1] : c;
      ++at;
    } else {
      value += text[at];
    }
  }
  if (at >= text.size()) return bad("the quote is not closed on its line");
  const std::string_view rest = text.substr(at + 1);
  const std::string_view after = Trim(rest);
  if (!after.empty() && (after.front() != '#' || after.size() == rest.size())) {
    return bad("something follows the closing quote; put all of the value into the quotes");
  }
  return value;
}

Status ParseLine(std::string_view line, Environment& into) {
  line = Trim(line);
  if (line.empty() || line.front() == '#') return {};
  constexpr std::string_view kExport = "export";
  if (line.starts_with(kExport) && line.size() > kExport.size() &&
      kBlank.find(line[kExport.size()]) != std::string_view::npos) {
    line = Trim(line.substr(kExport.size()));
  }
  const std::size_t equals = line.find('=');
  const std::string_view name = line.substr(0, equals);
  if (equals == std::string_view::npos) {
    return Error{Code::kInvalidArgument, "no NAME=value; a comment begins with #"};
  }
  if (!IsName(name)) {
    return Error{Code::kInvalidArgument,
                 fmt::format("'{}' is no name of a variable; letters, digits and _, without blanks "
                             "before the =",
                             name)};
  }
  std::string_view value = Trim(line.substr(equals + 1));
  if (!value.empty() && (value.front() == '"' || value.front() == '\'')) {
    HEADWORKS_ASSIGN(into[std::string(name)], Quoted(value));
    return {};
  }
  for (const std::string_view comment : {" #", "\t#"}) value = value.substr(0, value.find(comment));
  into[std::string(name)] = Trim(value);
  return {};
}

}  // namespace

Status ParseEnvFile(std::string_view text, std::string_view name, Environment& into) {
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    Status parsed = line.find('\0') == std::string_view::npos
                        ? ParseLine(line, into)
                        : Error{Code::kInvalidArgument, "holds a NUL byte"};
    if (!parsed) {
      return Error{Code::kInvalidArgument,
                   fmt::format("env_file {}:{}: {}", name, number, parsed.error().message)};
    }
  }
  return {};
}

Status ReadEnvFile(const std::string& path, Environment& into) {
  const Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file) {
    const Code code = errno == ENOENT ? Code::kNotFound : Code::kInvalidArgument;
    return Error{code, fmt::format("env_file {} cannot be read: {}; make it, or correct its path",
                                   path, std::strerror(errno))};
  }
  struct stat status{};
  if (fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return Error{Code::kInvalidArgument, fmt::format("env_file {} is no regular file", path)};
  }
  std::string text(kMaxEnvFileBytes + 1, '\0');
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = read(file.get(), text.data() + done, text.size() - done);
    if (n < 0) {
      return Error{Code::kInvalidArgument,
                   fmt::format("env_file {} cannot be read: {}", path, std::strerror(errno))};
    }
    if (n == 0) break;
    done += static_cast<std::size_t>(n);
  }
  if (done > kMaxEnvFileBytes) {
    return Error{Code::kInvalidArgument,
                 fmt::format("env_file {} has more than {} bytes", path, kMaxEnvFileBytes)};
  }
  return ParseEnvFile(std::string_view(text).substr(0, done), path, into);
}

}  // namespace headworks::executor_process
