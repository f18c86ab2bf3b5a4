#include "headworks/expr/shell_template.h"

#include <algorithm>
#include <boost/json/object.hpp>
#include <map>
#include <optional>

#include "ast.h"
#include "shell_scanner.h"
#include "template_scan.h"

namespace headworks::expr {
namespace {

// Linux passes no longer string to a program (MAX_ARG_STRLEN), its name, '=' and end included.
constexpr std::size_t kMaxVariableBytes = std::size_t{128} << 10;

/// Compiles the expressions of one script and names their variables, one for each text.
class Binder {
 public:
  /// Borrows all; `matrix` = nullptr: its values are not known.
  Binder(std::string_view text, const Environment& environment, const boost::json::object* matrix,
         std::vector<Fault>* faults)
      : text_(text), environment_(environment), matrix_(matrix), faults_(*faults) {}

  std::size_t End(std::size_t open) {
    const std::size_t before = faults_.size();
    const auto end = internal::FindEnd(text_, open, &faults_);
    broken_ = faults_.size() > before;
    end_ = end.value_or(std::string_view::npos);
    open_ = open;
    return end_;
  }

  /// Of the expression that End() found last.
  internal::ShellScanner::Bound Refer() {
    const std::string_view written = text_.substr(open_, end_ - open_);
    const auto [known, is_new] = numbers_.emplace(written, programs_.size());
    if (is_new) Compile();
    return {"${HEADWORKS_V" + std::to_string(known->second + 1) + "}",
            ReadsMatrixOnly(known->second), ValueOf(known->second)};
  }

  std::vector<std::pair<std::optional<Program>, std::size_t>>& programs() { return programs_; }

 private:
  void Compile() {
    programs_.push_back(
        {broken_ ? std::nullopt : internal::CompilePart(text_, open_, end_, environment_, &faults_),
         internal::ExpressionOffset(text_, open_)});
    const auto& [program, offset] = programs_.back();
    if (!program) return;
    const std::size_t before = faults_.size();
    internal::CheckIsText(*program, offset, &faults_);
    if (faults_.size() > before && program->type().kind() == Type::Kind::kList)
      faults_.back().message +=
          "; in a script that is one word: for several put the joined text into env (env: {LIST: "
          "\"...\"}) and write $LIST without quotes";
  }

  bool ReadsMatrixOnly(std::size_t number) const {
    const std::optional<Program>& program = programs_[number].first;
    return program && !program->references().empty() &&
           std::ranges::all_of(program->references(), [](const Reference& reference) {
             return reference.variable == "matrix";
           });
  }

  std::optional<std::string> ValueOf(std::size_t number) const {
    if (matrix_ == nullptr || !ReadsMatrixOnly(number)) return std::nullopt;
    auto value = programs_[number].first->EvaluateText({{"matrix", *matrix_}}, {});
    if (!value) return std::nullopt;
    return *std::move(value);
  }

  std::string_view text_;
  const Environment& environment_;
  const boost::json::object* matrix_;
  std::vector<Fault>& faults_;
  std::size_t open_ = 0;
  std::size_t end_ = 0;
  bool broken_ = false;
  /// Positions in `programs_`.
  std::map<std::string_view, std::size_t> numbers_;
  std::vector<std::pair<std::optional<Program>, std::size_t>> programs_;
};

Fault Refused(std::string_view text, const internal::ShellUse& use, std::string_view reason) {
  const std::string expression(text.substr(use.begin, use.end - use.begin));
  return {FaultKind::kShell, use.begin, use.end - use.begin,
          "'" + internal::Excerpt(expression) + "' " + std::string(reason) +
              " put it into env (env: {VALUE: \"...\"}) and read the variable VALUE here"};
}

/// Expressions in what no shell reads: found, checked, and refused.
std::string ScanOther(std::string_view text, Binder* binder,
                      std::vector<internal::ShellUse>* uses) {
  std::string script;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::string_view rest = text.substr(at);
    if (rest.starts_with(internal::kEscapedOpen)) {
      script += internal::kOpen;
      at += internal::kEscapedOpen.size();
    } else if (rest.starts_with(internal::kOpen)) {
      const std::size_t end = binder->End(at);
      if (end == std::string_view::npos) break;
      script += binder->Refer().reference;
      uses->push_back({at, end, "stands in a script that is not for sh or bash;"});
      at = end;
    } else {
      script += text[at++];
    }
  }
  return script;
}

}  // namespace

Shell ShellOf(std::string_view program) {
  const std::string_view name = program.substr(program.rfind('/') + 1);
  if (name == "bash") return Shell::kBash;
  return name == "sh" || name == "dash" ? Shell::kSh : Shell::kOther;
}

Result<ShellTemplate> ShellTemplate::Parse(std::string_view text, Shell shell,
                                           const Environment& environment,
                                           std::vector<Fault>* faults,
                                           const boost::json::object* matrix) {
  std::vector<Fault> found;
  ShellTemplate made;
  if (!internal::RefusedTemplate(text, &found)) {
    Binder binder(text, environment, matrix, &found);
    std::vector<internal::ShellUse> uses;
    if (shell == Shell::kOther) {
      made.script_ = ScanOther(text, &binder, &uses);
    } else {
      internal::ShellScanner scanner(
          text, shell, [&](std::size_t open) { return binder.End(open); },
          [&](std::size_t) { return binder.Refer(); });
      made.script_ = scanner.Run();
      uses = scanner.uses();
      made.depends_on_matrix_ = scanner.depends_on_matrix();
    }
    for (const internal::ShellUse& use : uses) {
      if (!use.refused.empty()) found.push_back(Refused(text, use, use.refused));
    }
    if (uses.size() > kMaxTemplateExpressions) {
      found.push_back(
          {FaultKind::kLimit, uses[kMaxTemplateExpressions].begin, internal::kOpen.size(),
           "more than " + std::to_string(kMaxTemplateExpressions) + " expressions in one script"});
    }
    std::size_t number = 0;
    for (auto& [program, offset] : binder.programs()) {
      ++number;
      if (!program) continue;
      made.bindings_.push_back(
          {"HEADWORKS_V" + std::to_string(number), *std::move(program), offset});
    }
  }
  if (found.empty()) return made;
  std::sort(found.begin(), found.end(),
            [](const Fault& a, const Fault& b) { return a.offset < b.offset; });
  const Error error = internal::FirstFault(found, 0);
  if (faults != nullptr) faults->insert(faults->end(), found.begin(), found.end());
  return error;
}

std::vector<Reference> ShellTemplate::references() const {
  std::vector<Reference> all;
  for (const Binding& binding : bindings_) {
    internal::AppendReferences(binding.program, binding.offset, &all);
  }
  return all;
}

Result<std::vector<std::pair<std::string, std::string>>> ShellTemplate::Bind(
    const boost::json::object& variables, const Limits& limits) const {
  std::vector<std::pair<std::string, std::string>> bound;
  bound.reserve(bindings_.size());
  for (const Binding& binding : bindings_) {
    HEADWORKS_ASSIGN(std::string value, binding.program.EvaluateText(variables, limits));
    if (value.find('\0') != std::string::npos) {
      return Error{Code::kInvalidArgument, "'" + internal::Excerpt(binding.program.text()) +
                                               "' has a NUL character, which no shell can hold"};
    }
    if (binding.name.size() + 1 + value.size() + 1 > kMaxVariableBytes) {
      return Error{Code::kAtCapacity,
                   "'" + internal::Excerpt(binding.program.text()) + "' has " +
                       std::to_string(value.size()) +
                       " bytes, and a shell's variable holds at most 128 KiB with its name; read "
                       "it from the file that HEADWORKS_INPUT names"};
    }
    bound.emplace_back(binding.name, std::move(value));
  }
  return bound;
}

}  // namespace headworks::expr
