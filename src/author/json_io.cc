#include "headworks/author/json_io.h"

#include <fmt/format.h>

#include <array>
#include <boost/json.hpp>
#include <charconv>
#include <cmath>
#include <vector>

#include "headworks/base/check.h"
#include "headworks/base/json.h"
#include "headworks/base/text.h"

namespace headworks {
namespace json = boost::json;
namespace {

constexpr std::size_t kMaxFaults = 10;
/// A merged context holds the outputs of many tasks, each of which may be 1 MiB.
constexpr JsonLimits kReadLimits{.max_bytes = std::size_t{256} << 20, .max_depth = 128};

/// What went wrong in one document, with where.
class FaultList {
 public:
  void Add(std::string_view path, std::string_view message) {
    if (++count_ > kMaxFaults) return;
    if (!text_.empty()) text_ += "; ";
    text_ += path.empty() ? std::string(message) : fmt::format("{}: {}", path, message);
  }
  bool empty() const { return count_ == 0; }
  Error ToError() const {
    const std::string more =
        count_ > kMaxFaults ? fmt::format("; and {} more", count_ - kMaxFaults) : "";
    return {Code::kInvalidArgument, text_ + more};
  }

 private:
  std::string text_;
  std::size_t count_ = 0;
};

std::string_view Article(json::kind kind) {
  switch (kind) {
    case json::kind::null:
      return "null";
    case json::kind::bool_:
      return "a boolean";
    case json::kind::int64:
    case json::kind::uint64:
      return "an integer";
    case json::kind::double_:
      return "a number";
    case json::kind::string:
      return "a string";
    case json::kind::array:
      return "an array";
    case json::kind::object:
      return "an object";
  }
  return "something else";
}

/// The value as users wrote it, cut to what fits into a message.
std::string Shown(const json::value& value) {
  if (value.is_object() || value.is_array() || value.is_null())
    return std::string(Article(value.kind()));
  constexpr std::size_t kShown = 40;
  std::string text = json::serialize(value);
  if (text.size() > kShown) text = text.substr(0, kShown) + "...";
  return fmt::format("{} {}", Article(value.kind()), text);
}

}  // namespace

struct JsonReader::State {
  struct Step {
    const json::value* value;
    std::string_view name;  // of a member, else
    std::size_t index = 0;  // of an element
  };

  json::value document;
  std::string what;
  std::vector<Step> path;  // from the document to where the reader stands
  FaultList faults;

  const json::value& here() const { return *path.back().value; }
  std::string PathText() const {
    std::string text;
    for (const Step& step : path) {
      if (&step == &path.front()) continue;
      if (step.name.data() == nullptr)
        text += fmt::format("[{}]", step.index);
      else
        text += fmt::format("{}{}", text.empty() ? "" : ".", step.name);
    }
    return text.empty() ? what : fmt::format("{} of {}", text, what);
  }
};

JsonReader::JsonReader(std::string_view text, std::string_view what)
    : state_(std::make_unique<State>()) {
  state_->what = what;
  if (auto value = ParseJson(text, kReadLimits))
    state_->document = *std::move(value);
  else
    state_->faults.Add(what, value.error().message);
  state_->path.push_back({&state_->document, {}});
}
JsonReader::~JsonReader() = default;

bool JsonReader::IsNull() const { return state_->here().is_null(); }

void JsonReader::Expected(std::string_view what) {
  state_->faults.Add(state_->PathText(),
                     fmt::format("expected {}, found {}", what, Shown(state_->here())));
}

void JsonReader::Read(bool& out) {
  if (const bool* value = state_->here().if_bool())
    out = *value;
  else
    Expected("a boolean");
}

void JsonReader::Read(std::string& out) {
  if (const json::string* value = state_->here().if_string())
    out.assign(value->data(), value->size());
  else
    Expected("a string");
}

void JsonReader::Read(double& out) {
  if (state_->here().is_number())
    out = state_->here().to_number<double>();
  else
    Expected("a number");
}

void JsonReader::ReadSigned(std::int64_t& out, std::int64_t min, std::int64_t max) {
  json::error_code ec;
  const auto value = state_->here().to_number<std::int64_t>(ec);
  if (ec || value < min || value > max)
    Expected(fmt::format("an integer from {} to {}", min, max));
  else
    out = value;
}

void JsonReader::ReadUnsigned(std::uint64_t& out, std::uint64_t max) {
  json::error_code ec;
  const auto value = state_->here().to_number<std::uint64_t>(ec);
  if (ec || value > max)
    Expected(fmt::format("an integer from 0 to {}", max));
  else
    out = value;
}

void JsonReader::ReadText(std::string& out) { out = json::serialize(state_->here()); }

bool JsonReader::IsObject() {
  if (state_->here().is_object()) return true;
  Expected("an object");
  return false;
}

bool JsonReader::EnterMember(std::string_view name) {
  const json::value* member = state_->here().get_object().if_contains(name);
  if (member != nullptr) state_->path.push_back({member, name});
  return member != nullptr;
}

void JsonReader::Missing(std::string_view name) {
  state_->faults.Add(state_->PathText(), fmt::format("field \"{}\" is missing", name));
}

std::size_t JsonReader::ArraySize() {
  if (const json::array* array = state_->here().if_array()) return array->size();
  Expected("an array");
  return 0;
}

std::size_t JsonReader::ObjectSize() {
  if (const json::object* object = state_->here().if_object()) return object->size();
  Expected("an object");
  return 0;
}

void JsonReader::EnterElement(std::size_t index) {
  state_->path.push_back({&state_->here().get_array()[index], {}, index});
}

std::string_view JsonReader::EnterMemberAt(std::size_t index) {
  const auto& member = *(state_->here().get_object().begin() + static_cast<std::ptrdiff_t>(index));
  state_->path.push_back({&member.value(), member.key()});
  return member.key();
}

void JsonReader::Leave() { state_->path.pop_back(); }

Status JsonReader::status() const {
  if (state_->faults.empty()) return {};
  return state_->faults.ToError();
}

struct JsonWriter::State {
  struct Level {
    bool array;
    std::size_t count = 0;
    std::string_view name{};
  };

  std::string text;
  std::vector<Level> levels;
  FaultList faults;
};

JsonWriter::JsonWriter() : state_(std::make_unique<State>()) {}
JsonWriter::~JsonWriter() = default;

void JsonWriter::Fault(std::string_view message) {
  std::string path;
  for (const State::Level& level : state_->levels) {
    if (level.array)
      path += fmt::format("[{}]", level.count - 1);
    else
      path += fmt::format("{}{}", path.empty() ? "" : ".", level.name);
  }
  state_->faults.Add(path, message);
}

/// Where the next value goes.
std::string& JsonWriter::Value() {
  if (!state_->levels.empty() && state_->levels.back().array && state_->levels.back().count++ > 0)
    state_->text += ',';
  return state_->text;
}

void JsonWriter::Null() { Value() += "null"; }
void JsonWriter::Write(bool value) { Value() += value ? "true" : "false"; }
void JsonWriter::WriteSigned(std::int64_t value) { Value() += std::to_string(value); }
void JsonWriter::WriteUnsigned(std::uint64_t value) { Value() += std::to_string(value); }

void JsonWriter::Write(double value) {
  std::string& out = Value();
  if (!std::isfinite(value)) {
    Fault(fmt::format("{} has no JSON form", value));
    return;
  }
  std::array<char, 32> buffer;
  out.append(buffer.data(), std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr);
}

void JsonWriter::Write(std::string_view value) {
  std::string& out = Value();
  out += json::serialize(json::string_view(value));
  if (const std::size_t valid = ValidUtf8Prefix(value); valid < value.size())
    Fault(fmt::format("text is not UTF-8 from byte {} on", valid));
}

void JsonWriter::WriteText(std::string_view text) {
  std::string& out = Value();
  if (auto value = ParseJson(text, kReadLimits); !value) Fault(value.error().message);
  out += text;
}

void JsonWriter::BeginObject() {
  Value() += '{';
  state_->levels.push_back({.array = false});
}

void JsonWriter::Key(std::string_view name) {
  State::Level& level = state_->levels.back();
  if (level.count++ > 0) state_->text += ',';
  level.name = name;
  Write(name);
  state_->text += ':';
}

void JsonWriter::EndObject() {
  state_->levels.pop_back();
  state_->text += '}';
}

void JsonWriter::BeginArray() {
  Value() += '[';
  state_->levels.push_back({.array = true});
}

void JsonWriter::EndArray() {
  state_->levels.pop_back();
  state_->text += ']';
}

Result<std::string> JsonWriter::Finish() {
  HEADWORKS_CHECK(state_->levels.empty());
  if (!state_->faults.empty()) return state_->faults.ToError();
  return std::move(state_->text);
}

}  // namespace headworks
