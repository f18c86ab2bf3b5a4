#include "workflow_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <limits>

#include "headworks/base/json.h"

namespace headworks::model {
namespace json = boost::json;
namespace {

constexpr int kFormat = 1;
constexpr std::array<std::string_view, 3> kRoleNames = {"main", "on_cancel", "finally"};
constexpr std::array<std::string_view, 3> kOnConflictNames = {"queue", "skip", "cancel_previous"};
constexpr std::array<std::string_view, 3> kBackoffNames = {"fixed", "linear", "exponential"};

constexpr std::array<std::pair<std::string_view, Gap>, 6> kRetryFields = {
    {{"max_attempts", Gap::kMaxAttempts},
     {"backoff", Gap::kBackoff},
     {"initial_us", Gap::kInitial},
     {"max_us", Gap::kMax},
     {"jitter", Gap::kJitter},
     {"max_losses", Gap::kMaxLosses}}};

bool IsPlain(const Param& param) { return param == Param::Plain(param.default_json); }

/// Appends fields to one JSON text; knows where a comma is due.
class Writer {
 public:
  explicit Writer(std::string& out) : out_(out) {}

  void Begin(char bracket) {
    out_ += bracket;
    first_ = true;
  }
  void End(char bracket) {
    out_ += bracket;
    first_ = false;
  }
  void Next() {
    if (!std::exchange(first_, false)) out_ += ',';
  }
  void Key(std::string_view key) {
    Next();
    Quote(key);
    out_ += ':';
  }
  void Quote(std::string_view text) {
    out_ += '"';
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = std::min(text.find_first_of(kEscaped, begin), text.size());
      out_.append(text.substr(begin, end - begin));
      if (end < text.size()) Escape(text[end]);
      begin = end + 1;
    }
    out_ += '"';
  }
  void Raw(std::string_view text) { out_ += text; }

  void Text(std::string_view key, std::string_view value, std::string_view usual = "",
            bool said = false) {
    if (value == usual && !said) return;
    Key(key);
    Quote(value);
  }
  void Number(std::string_view key, auto value, decltype(value) usual, bool said = false) {
    if (value == usual && !said) return;
    Key(key);
    fmt::format_to(std::back_inserter(out_), "{}", value);
  }
  void Bool(std::string_view key, bool value) {
    if (!value) return;
    Key(key);
    out_ += "true";
  }
  /// JSON text; empty = none.
  void Json(std::string_view key, std::string_view text) {
    if (text.empty()) return;
    Key(key);
    out_ += text;
  }
  void Time(std::string_view key, Duration value, Duration usual, bool said = false) {
    Number(key, value.count(), usual.count(), said);
  }
  void List(std::string_view key, const std::vector<std::string>& values) {
    if (values.empty()) return;
    Key(key);
    Begin('[');
    for (const std::string& value : values) {
      Next();
      Quote(value);
    }
    End(']');
  }
  void Map(std::string_view key, const std::map<std::string, std::string>& values) {
    if (values.empty()) return;
    Key(key);
    Begin('{');
    for (const auto& [name, value] : values) {
      Key(name);
      Quote(value);
    }
    End('}');
  }

 private:
  static constexpr std::string_view kEscaped{
      "\"\\\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10\x11\x12\x13\x14\x15"
      "\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f",
      34};

  void Escape(char c) {
    if (c == '"' || c == '\\')
      (out_ += '\\') += c;
    else if (c == '\n')
      out_ += "\\n";
    else
      fmt::format_to(std::back_inserter(out_), "\\u{:04x}", static_cast<unsigned char>(c));
  }

  std::string& out_;
  bool first_ = true;
};

void WriteCondition(Writer& w, std::string_view key,
                    const std::optional<RetryCondition>& condition) {
  if (!condition) return;
  w.Key(key);
  w.Begin('{');
  if (!condition->exit_codes.empty()) {
    w.Key("exit_codes");
    w.Raw(fmt::format("[{}]", fmt::join(condition->exit_codes, ",")));
  }
  w.Text("output_matches", condition->output_matches);
  w.End('}');
}

/// The defaults of all parameters, and beside them what else is declared of some.
void WriteParams(Writer& w, const std::map<std::string, Param>& params) {
  if (params.empty()) return;
  w.Key("params");
  w.Begin('{');
  for (const auto& [name, param] : params) {
    w.Key(name);
    w.Raw(param.default_json);
  }
  w.End('}');
  if (std::ranges::all_of(params, [](const auto& p) { return IsPlain(p.second); })) return;
  w.Key("declared");
  w.Begin('{');
  for (const auto& [name, param] : params) {
    if (IsPlain(param)) continue;
    w.Key(name);
    w.Begin('{');
    w.Text("type", kParamTypeNames[static_cast<std::size_t>(param.type)], kParamTypeNames[0]);
    w.Bool("required", param.required);
    w.Text("description", param.description);
    if (!param.allowed.empty()) {
      w.Key("enum");
      w.Raw(fmt::format("[{}]", fmt::join(param.allowed, ",")));
    }
    if (param.min) w.Number("min", *param.min, std::numeric_limits<double>::quiet_NaN());
    if (param.max) w.Number("max", *param.max, std::numeric_limits<double>::quiet_NaN());
    w.Text("pattern", param.pattern);
    w.End('}');
  }
  w.End('}');
}

void WriteRetry(Writer& w, const Task& task) {
  const RetryPolicy usual;
  const RetryPolicy& retry = task.retry;
  const auto said = [&](const auto& field) { return task.Says(field.second); };
  if (retry == usual && std::ranges::none_of(kRetryFields, said)) return;
  w.Key("retry");
  w.Begin('{');
  w.Number("max_attempts", retry.max_attempts, usual.max_attempts, task.Says(Gap::kMaxAttempts));
  w.Text("backoff", kBackoffNames[static_cast<std::size_t>(retry.backoff)],
         kBackoffNames[static_cast<std::size_t>(usual.backoff)], task.Says(Gap::kBackoff));
  w.Time("initial_us", retry.initial, usual.initial, task.Says(Gap::kInitial));
  w.Time("max_us", retry.max, usual.max, task.Says(Gap::kMax));
  w.Number("jitter", retry.jitter, usual.jitter, task.Says(Gap::kJitter));
  w.Number("max_losses", retry.max_losses, usual.max_losses, task.Says(Gap::kMaxLosses));
  WriteCondition(w, "when", retry.when);
  WriteCondition(w, "unless", retry.unless);
  w.End('}');
}

void WriteTask(Writer& w, const Task& task) {
  const Task usual;
  w.Begin('{');
  w.Text("id", task.id);
  w.Text("role", kRoleNames[static_cast<std::size_t>(task.role)], kRoleNames[0]);
  w.Text("group", task.group);
  w.Json("matrix", task.matrix);
  w.List("axes", task.axes);
  w.List("needs", task.needs);
  if (const auto* shell = std::get_if<ShellAction>(&task.action)) {
    w.Text("run", shell->script);
    w.List("shell", shell->shell);
  }
  if (const auto* exec = std::get_if<ExecAction>(&task.action)) w.List("exec", exec->argv);
  if (const auto* f = std::get_if<FunctionAction>(&task.action)) w.Text("function", f->function);
  w.Map("env", task.env);
  w.List("inherit_env", task.inherit_env);
  w.List("env_file", task.env_file);
  w.Text("cwd", task.cwd);
  WriteRetry(w, task);
  w.List("when", task.when);
  w.Time("timeout_us", task.timeout, usual.timeout, task.Says(Gap::kTimeout));
  w.Time("start_timeout_us", task.start_timeout, usual.start_timeout);
  w.Number("cpu", task.resources.cpu, usual.resources.cpu);
  w.Number("memory", task.resources.memory, usual.resources.memory);
  w.Time("deadline_us", task.deadline, usual.deadline);
  w.Time("grace_us", task.grace, usual.grace);
  w.Number("priority", task.priority, usual.priority);
  w.Text("pool", task.pool);
  w.Number("weight", task.weight, usual.weight);
  w.Text("queue", task.queue);
  w.List("requires", task.required);
  w.Text("trigger_rule", TriggerRuleName(task.trigger_rule), TriggerRuleName(usual.trigger_rule));
  w.Bool("allow_failure", task.allow_failure);
  w.Text("idempotency_key", task.idempotency_key);
  w.Text("output", OutputModeName(task.output.mode), OutputModeName(usual.output.mode));
  w.Json("output_type", task.output.type_json);
  w.Map("artifacts", task.artifacts);
  w.Text("description", task.description);
  w.Map("labels", task.labels);
  w.End('}');
}

/// Reads one object of format 1.  What is missing or of another type is noted, not thrown.
class Reader {
 public:
  Reader(const json::object& object, bool& good) : object_(object), good_(good) {}

  const json::value* Find(std::string_view key) const { return object_.if_contains(key); }
  void Text(std::string_view key, std::string& out) const {
    if (const json::value* value = Find(key)) Assign(*value, out);
  }
  template <typename T>
  void Number(std::string_view key, T& out) const {
    const json::value* value = Find(key);
    if (value == nullptr) return;
    json::error_code ec;
    const T number = value->to_number<T>(ec);
    good_ = good_ && !ec;
    if (!ec) out = number;
  }
  void Time(std::string_view key, Duration& out) const {
    std::int64_t count = out.count();
    Number(key, count);
    out = Duration(count);
  }
  void List(std::string_view key, std::vector<std::string>& out) const {
    const json::value* value = Find(key);
    if (value == nullptr) return;
    good_ = good_ && value->is_array();
    if (!value->is_array()) return;
    for (const json::value& element : value->get_array()) Assign(element, out.emplace_back());
  }
  void Map(std::string_view key, std::map<std::string, std::string>& out) const {
    if (const json::object* members = Object(key))
      for (const auto& member : *members) Assign(member.value(), out[std::string(member.key())]);
  }
  void Bool(std::string_view key, bool& out) const { out = Find(key) != nullptr; }
  /// Any value, as JSON text.
  void Json(std::string_view key, std::string& out) const {
    if (const json::value* value = Find(key)) out = CanonicalJson(*value);
  }
  const json::object* Object(std::string_view key) const {
    const json::value* value = Find(key);
    if (value == nullptr) return nullptr;
    good_ = good_ && value->is_object();
    return value->if_object();
  }
  /// The position of the name in `names`.
  template <std::size_t N, typename E>
  void Name(std::string_view key, const std::array<std::string_view, N>& names, E& out) const {
    std::string text;
    if (Find(key) == nullptr) return;
    Text(key, text);
    const auto found = std::ranges::find(names, text);
    good_ = good_ && found != names.end();
    if (found != names.end()) out = static_cast<E>(found - names.begin());
  }

 private:
  void Assign(const json::value& value, std::string& out) const {
    good_ = good_ && value.is_string();
    if (value.is_string()) out = std::string_view(value.get_string());
  }

  const json::object& object_;
  bool& good_;
};

void ReadCondition(const Reader& parent, std::string_view key,
                   std::optional<RetryCondition>& condition, bool& good) {
  const json::object* object = parent.Object(key);
  if (object == nullptr) return;
  const Reader r(*object, good);
  r.Text("output_matches", condition.emplace().output_matches);
  const json::value* codes = r.Find("exit_codes");
  if (codes == nullptr) return;
  good = good && codes->is_array();
  if (!codes->is_array()) return;
  condition->exit_codes.reserve(codes->get_array().size());
  for (const json::value& code : codes->get_array()) {
    json::error_code ec;
    condition->exit_codes.push_back(code.to_number<int>(ec));
    good = good && !ec;
  }
}

void ReadParams(const Reader& r, std::map<std::string, Param>& params, bool& good) {
  if (const json::object* defaults = r.Object("params"))
    for (const auto& member : *defaults)
      params[std::string(member.key())] = Param::Plain(CanonicalJson(member.value()));
  const json::object* declared = r.Object("declared");
  if (declared == nullptr) return;
  for (const auto& member : *declared) {
    good = good && member.value().is_object();
    if (!member.value().is_object()) continue;
    Param& param = params[std::string(member.key())];
    param.required = false;
    const Reader p(member.value().get_object(), good);
    p.Name("type", kParamTypeNames, param.type);
    p.Bool("required", param.required);
    p.Text("description", param.description);
    if (const json::value* allowed = p.Find("enum"); allowed != nullptr && allowed->is_array())
      for (const json::value& value : allowed->get_array())
        param.allowed.push_back(CanonicalJson(value));
    if (p.Find("min") != nullptr) p.Number("min", param.min.emplace());
    if (p.Find("max") != nullptr) p.Number("max", param.max.emplace());
    p.Text("pattern", param.pattern);
  }
}

Task ReadTask(const json::object& object, bool& good) {
  Task task;
  const Reader r(object, good);
  r.Text("id", task.id);
  r.Name("role", kRoleNames, task.role);
  r.Text("group", task.group);
  r.Json("matrix", task.matrix);
  r.List("axes", task.axes);
  r.List("needs", task.needs);
  if (r.Find("exec") != nullptr) {
    r.List("exec", task.action.emplace<ExecAction>().argv);
  } else if (r.Find("function") != nullptr) {
    r.Text("function", task.action.emplace<FunctionAction>().function);
  } else {
    auto& shell = task.action.emplace<ShellAction>();
    r.Text("run", shell.script);
    r.List("shell", shell.shell);
  }
  r.Map("env", task.env);
  r.List("inherit_env", task.inherit_env);
  r.List("env_file", task.env_file);
  r.Text("cwd", task.cwd);
  if (const json::object* object_of_retry = r.Object("retry")) {
    const Reader retry(*object_of_retry, good);
    retry.Number("max_attempts", task.retry.max_attempts);
    retry.Name("backoff", kBackoffNames, task.retry.backoff);
    retry.Time("initial_us", task.retry.initial);
    retry.Time("max_us", task.retry.max);
    retry.Number("jitter", task.retry.jitter);
    retry.Number("max_losses", task.retry.max_losses);
    for (const auto& [key, field] : kRetryFields)
      if (retry.Find(key) != nullptr) task.Say(field);
    ReadCondition(retry, "when", task.retry.when, good);
    ReadCondition(retry, "unless", task.retry.unless, good);
  }
  r.List("when", task.when);
  r.Time("timeout_us", task.timeout);
  if (r.Find("timeout_us") != nullptr) task.Say(Gap::kTimeout);
  r.Time("start_timeout_us", task.start_timeout);
  r.Number("cpu", task.resources.cpu);
  r.Number("memory", task.resources.memory);
  r.Time("deadline_us", task.deadline);
  r.Time("grace_us", task.grace);
  r.Number("priority", task.priority);
  r.Text("pool", task.pool);
  r.Number("weight", task.weight);
  r.Text("queue", task.queue);
  r.List("requires", task.required);
  if (r.Find("trigger_rule") != nullptr) {
    std::string name;
    r.Text("trigger_rule", name);
    const auto rule = TriggerRuleFromName(name);
    good = good && rule.has_value();
    task.trigger_rule = rule.value_or(task.trigger_rule);
  }
  r.Bool("allow_failure", task.allow_failure);
  r.Text("idempotency_key", task.idempotency_key);
  r.Name("output", kOutputModeNames, task.output.mode);
  r.Json("output_type", task.output.type_json);
  r.Map("artifacts", task.artifacts);
  r.Text("description", task.description);
  r.Map("labels", task.labels);
  return task;
}

WorkflowDefinition ReadDefinition(const json::object& object, bool& good) {
  WorkflowDefinition d;
  const Reader r(object, good);
  r.Text("tenant", d.name.tenant);
  r.Text("package", d.name.package);
  r.Text("name", d.name.workflow);
  r.Text("description", d.description);
  r.List("tags", d.tags);
  ReadParams(r, d.params, good);
  r.Map("env", d.env);
  r.Text("base_dir", d.base_dir);
  r.Time("timeout_us", d.timeout);
  r.Time("finally_timeout_us", d.finally_timeout);
  r.Time("cancel_timeout_us", d.cancel_timeout);
  if (r.Find("on_failure") != nullptr) d.on_failure = OnFailure::kCancelRest;
  r.Number("max_parallel", d.max_parallel);
  r.Number("max_active_runs", d.max_active_runs);
  if (const json::object* concurrency = r.Object("concurrency")) {
    Concurrency& c = d.concurrency.emplace();
    const Reader of(*concurrency, good);
    of.Text("key", c.key);
    of.Number("limit", c.limit);
    of.Name("on_conflict", kOnConflictNames, c.on_conflict);
    of.Number("rate", c.rate);
    of.Time("rate_per_us", c.rate_per);
  }
  if (const json::value* tasks = r.Find("tasks"); tasks != nullptr && tasks->is_array())
    for (const json::value& task : tasks->get_array())
      if (task.is_object()) d.tasks.push_back(ReadTask(task.get_object(), good));
  return d;
}

}  // namespace

std::string ToCanonicalJson(const WorkflowDefinition& d) {
  const WorkflowDefinition usual;
  std::string text;
  Writer w(text);
  w.Begin('{');
  w.Number("format", kFormat, 0);
  w.Text("tenant", d.name.tenant, usual.name.tenant);
  w.Text("package", d.name.package, usual.name.package);
  w.Text("name", d.name.workflow);
  w.Text("description", d.description);
  w.List("tags", d.tags);
  WriteParams(w, d.params);
  w.Map("env", d.env);
  w.Text("base_dir", d.base_dir);
  w.Time("timeout_us", d.timeout, usual.timeout);
  w.Time("finally_timeout_us", d.finally_timeout, usual.finally_timeout);
  w.Time("cancel_timeout_us", d.cancel_timeout, usual.cancel_timeout);
  if (d.on_failure == OnFailure::kCancelRest) w.Text("on_failure", "cancel_rest");
  w.Number("max_parallel", d.max_parallel, usual.max_parallel);
  w.Number("max_active_runs", d.max_active_runs, usual.max_active_runs);
  if (const auto& c = d.concurrency) {
    w.Key("concurrency");
    w.Begin('{');
    w.Text("key", c->key);
    w.Number("limit", c->limit, 0);
    w.Text("on_conflict", kOnConflictNames[static_cast<std::size_t>(c->on_conflict)],
           kOnConflictNames[0]);
    w.Number("rate", c->rate, 0);
    w.Time("rate_per_us", c->rate_per, Duration(0));
    w.End('}');
  }
  w.Key("tasks");
  w.Begin('[');
  for (const Task& task : d.tasks) {
    w.Next();
    WriteTask(w, task);
  }
  w.End(']');
  w.End('}');
  return text;
}

Result<std::shared_ptr<Workflow>> Workflow::Read(std::string_view text) {
  const auto corrupt = [](std::string_view why) {
    return Error{Code::kCorrupt,
                 fmt::format("this is not a stored workflow of format {}: {}", kFormat, why)};
  };
  json::monotonic_resource memory;
  json::error_code ec;
  json::parse_options options;
  options.max_depth = 68;  // a parameter's own 64, and what stands around it
  const json::value value = json::parse(text, ec, &memory, options);
  if (ec) return corrupt(ec.message());
  if (!value.is_object()) return corrupt("it is no object");
  const json::value* format = value.get_object().if_contains("format");
  if (format == nullptr || *format != kFormat)
    return corrupt("its format is missing or newer than this program; update it");
  bool good = true;
  auto workflow = Make(ReadDefinition(value.get_object(), good), nullptr);
  if (!workflow) return corrupt(workflow.error().message);
  // What the reader passed over (unknown or repeated fields, white space) shows here.
  if (!good || (*workflow)->canonical_json() != text)
    return corrupt("a field is unknown, of the wrong type, or not written as it should be");
  return workflow;
}

}  // namespace headworks::model
