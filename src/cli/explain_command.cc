#include <fmt/format.h>

#include <boost/json.hpp>

#include "commands.h"
#include "headworks/base/text.h"
#include "headworks/spec/fault.h"
#include "output.h"

namespace headworks::cli {

Result<Exit> ExplainCode(const Context& context, const std::string& code) {
  const spec::Explanation* explanation = spec::Explain(code);
  if (explanation == nullptr) {
    std::vector<std::string_view> codes;
    for (const spec::Explanation* known : spec::Explanations()) codes.push_back(known->code);
    return Error{Code::kNotFound,
                 fmt::format("there is no code '{}'{}; codes read like {}", code,
                             DidYouMean(code, codes), codes.empty() ? "HW1001" : codes.front())};
  }
  if (context.wants_table())
    Print(fmt::format("{}: {}\n\n{}\n", explanation->code, explanation->title, explanation->text));
  else
    PrintValue(context.settings().output, boost::json::object{{"code", explanation->code},
                                                              {"title", explanation->title},
                                                              {"text", explanation->text}});
  return Exit::kOk;
}

}  // namespace headworks::cli
