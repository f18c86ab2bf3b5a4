#include "output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/string.hpp>
#include <cerrno>
#include <cstring>

#include "headworks/base/fd.h"
#include "headworks/base/json.h"
#include "headworks/base/text.h"
#include "headworks/model/declared_type.h"

namespace headworks::executor_process {
namespace {

constexpr std::string_view kBlank = " \t\r\n";
constexpr std::string_view kWhat = "the task's output (HEADWORKS_OUTPUT)";

Error Bad(std::string_view what) {
  return {Code::kInvalidArgument,
          fmt::format("{} {}; write a JSON object, or key=value lines", kWhat, what)};
}

bool IsName(std::string_view name) {
  return !name.empty() && name.find_first_not_of(
                              "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUV"
                              "WXYZ0123456789_-.") == std::string_view::npos;
}

/// The text of an output, if it is as declared.
Result<std::string> Declared(const model::OutputSpec& spec, const boost::json::object& output) {
  HEADWORKS_TRY(model::CheckOutput(spec, output));
  return CanonicalJson(output);
}

/// The text of none.
Result<std::string> NoOutput(const model::OutputSpec& spec) {
  HEADWORKS_TRY(model::CheckOutput(spec, {}));
  return std::string();
}

Result<std::string> ParseLines(const model::OutputSpec& spec, std::string_view text) {
  boost::json::object object;
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.find_first_not_of(kBlank) == std::string_view::npos) continue;
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos || !IsName(line.substr(0, equals))) {
      return Bad(fmt::format("is no JSON, and its line {} is not key=value", number));
    }
    object[line.substr(0, equals)] = line.substr(equals + 1);
  }
  model::ReadTextFields(spec, object);
  std::string json = CanonicalJson(object);
  // Values are any bytes; JSON takes only UTF-8.
  HEADWORKS_TRY(ParseJsonObject(json, kWhat, {.max_bytes = 2 * kMaxOutputBytes}));
  HEADWORKS_TRY(model::CheckOutput(spec, object));
  return json;
}

/// What to add where `text` is no JSON: whether it has a number that JSON does not have.
std::string_view NotFinite(std::string_view text) {
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') in_string = !in_string;
    if (in_string && text[i] == '\\') ++i;
    if (in_string) continue;
    const std::string_view rest = text.substr(i);
    if (rest.starts_with("NaN") || rest.starts_with("Infinity")) {
      return "; JSON has no NaN or Infinity: write null, or leave the field out";
    }
  }
  return "";
}

}  // namespace

Result<std::string> ParseOutput(const model::OutputSpec& spec, std::string_view text) {
  if (text.size() > kMaxOutputBytes) {
    return Error{Code::kInvalidArgument,
                 fmt::format("{} has more than {} bytes; write large data to a file where "
                             "later tasks find it, and output its name",
                             kWhat, kMaxOutputBytes)};
  }
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return NoOutput(spec);
  if (text.find('\0') != std::string_view::npos) return Bad("holds a NUL byte");
  if (text[first] == '{') {
    auto object = ParseJsonObject(text, kWhat, {.max_bytes = kMaxOutputBytes});
    if (!object) {
      return Error{object.error().code,
                   fmt::format("{}{}", object.error().message, NotFinite(text))};
    }
    return Declared(spec, *object);
  }
  if (ParseJson(text, {.max_bytes = kMaxOutputBytes})) return Bad("is JSON, but no object");
  return ParseLines(spec, text);
}

Result<std::string> OutputOfStdout(const model::OutputSpec& spec, std::string_view text) {
  const auto bad = [](std::string_view what) {
    return Error{Code::kInvalidArgument,
                 fmt::format("the task's output is what it writes to stdout, and that {}", what)};
  };
  if (text.size() > kMaxOutputBytes) {
    return bad(
        fmt::format("has more than {} bytes; write large data to a file where later tasks "
                    "find it, and its name to stdout",
                    kMaxOutputBytes));
  }
  const std::size_t valid = ValidUtf8Prefix(text);
  if (valid < text.size()) return bad(fmt::format("is not UTF-8 at byte {}", valid));
  if (spec.mode == model::OutputMode::kStdoutJson) {
    auto value = ParseJson(text, {.max_bytes = kMaxOutputBytes});
    if (!value) {
      return bad(fmt::format("is not one JSON value: {}{}; messages for people go to stderr",
                             value.error().message, NotFinite(text)));
    }
    if (value->is_object()) return Declared(spec, value->get_object());
    return Declared(spec, {{"result", *std::move(value)}});
  }
  if (spec.mode == model::OutputMode::kStdout) {
    if (text.ends_with('\n')) text.remove_suffix(1);
    return Declared(spec, {{"text", text}});
  }
  boost::json::array lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return Declared(spec, {{"lines", std::move(lines)}});
}

Result<std::string> ReadOutputFile(const model::OutputSpec& spec, const std::string& path) {
  // The task may have put anything there: a pipe must not block, a device must not be read.
  const Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file && errno == ENOENT) return NoOutput(spec);
  if (!file) return Bad(fmt::format("cannot be opened ({})", std::strerror(errno)));
  struct stat status{};
  if (fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return Bad("is no regular file");
  std::string text(
      static_cast<std::size_t>(std::min<off_t>(status.st_size, off_t{kMaxOutputBytes} + 1)), '\0');
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = read(file.get(), text.data() + done, text.size() - done);
    if (n < 0) return Bad(fmt::format("cannot be read ({})", std::strerror(errno)));
    if (n == 0) break;
    done += static_cast<std::size_t>(n);
  }
  text.resize(done);
  return ParseOutput(spec, text);
}

}  // namespace headworks::executor_process
