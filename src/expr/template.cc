#include "headworks/expr/template.h"

#include <boost/json/object.hpp>
#include <boost/json/string.hpp>
#include <utility>

#include "template_scan.h"

namespace headworks::expr {

using internal::kEscapedOpen;
using internal::kOpen;

Result<Template> Template::Parse(std::string_view text, const Environment& environment,
                                 std::vector<Fault>* faults) {
  std::vector<Fault> own;
  if (faults == nullptr) faults = &own;
  const std::size_t first = faults->size();
  Template made;
  std::string literal;
  std::size_t literal_begin = 0;
  const auto end_literal = [&](std::size_t next) {
    if (!literal.empty()) made.parts_.push_back({.literal = literal, .offset = literal_begin});
    literal.clear();
    literal_begin = next;
  };
  std::size_t at = internal::RefusedTemplate(text, faults) ? text.size() : 0;
  std::size_t expressions = 0;
  while (at < text.size()) {
    const std::string_view rest = text.substr(at);
    if (rest.starts_with(kEscapedOpen)) {
      literal += kOpen;
      at += kEscapedOpen.size();
      continue;
    }
    if (!rest.starts_with(kOpen)) {
      literal += text[at++];
      continue;
    }
    if (++expressions > kMaxTemplateExpressions) {
      faults->push_back(
          {FaultKind::kLimit, at, kOpen.size(),
           "more than " + std::to_string(kMaxTemplateExpressions) + " expressions in one text"});
      break;
    }
    const std::size_t faults_before = faults->size();
    const auto end = internal::FindEnd(text, at, faults);
    if (!end) break;
    end_literal(*end);
    if (faults->size() == faults_before) {
      auto program = internal::CompilePart(text, at, *end, environment, faults);
      if (program) {
        made.parts_.push_back(
            {.program = std::move(program), .offset = internal::ExpressionOffset(text, at)});
      }
    }
    at = *end;
  }
  end_literal(text.size());
  if (!made.is_whole()) made.CheckText(faults);
  if (faults->size() > first) return internal::FirstFault(*faults, first);
  return made;
}

Result<Template> Template::ParseArgument(std::string_view text, const Environment& environment,
                                         std::vector<Fault>* faults) {
  std::vector<Fault> own;
  if (faults == nullptr) faults = &own;
  const std::size_t first = faults->size();
  HEADWORKS_ASSIGN(Template made, Parse(text, environment, faults));
  if (made.is_whole()) made.CheckText(faults);
  if (faults->size() > first) return internal::FirstFault(*faults, first);
  return made;
}

void Template::CheckText(std::vector<Fault>* faults) const {
  for (const Part& part : parts_) {
    if (part.program) internal::CheckIsText(*part.program, part.offset, faults);
  }
}

bool Template::has_expressions() const {
  for (const Part& part : parts_) {
    if (part.program) return true;
  }
  return false;
}

bool Template::is_whole() const { return parts_.size() == 1 && parts_.front().program; }

Type Template::type() const {
  return is_whole() ? parts_.front().program->type() : Type::Kind::kString;
}

std::vector<Reference> Template::references() const {
  std::vector<Reference> all;
  for (const Part& part : parts_) {
    if (part.program) internal::AppendReferences(*part.program, part.offset, &all);
  }
  return all;
}

Result<boost::json::value> Template::Render(const boost::json::object& variables,
                                            const Limits& limits) const {
  if (is_whole()) return parts_.front().program->Evaluate(variables, limits);
  HEADWORKS_ASSIGN(const std::string text, RenderText(variables, limits));
  return boost::json::value(boost::json::string(text));
}

Result<std::string> Template::RenderArgument(const boost::json::object& variables,
                                             const Limits& limits) const {
  HEADWORKS_ASSIGN(std::string text, RenderText(variables, limits));
  if (text.find('\0') != std::string::npos) {
    return Error{Code::kInvalidArgument,
                 "the argument has a NUL character, which no command can be given"};
  }
  return text;
}

Result<std::string> Template::RenderText(const boost::json::object& variables,
                                         const Limits& limits) const {
  std::string text;
  for (const Part& part : parts_) {
    if (!part.program) {
      text += part.literal;
      continue;
    }
    HEADWORKS_ASSIGN(const std::string value, part.program->EvaluateText(variables, limits));
    text += value;
    if (text.size() > limits.max_bytes) {
      return Error{Code::kAtCapacity,
                   "the text has more than " + std::to_string(limits.max_bytes) + " bytes"};
    }
  }
  return text;
}

}  // namespace headworks::expr
