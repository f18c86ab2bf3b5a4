#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>

#include "commands.h"
#include "headworks/base/text.h"
#include "headworks/spec/fault.h"
#include "output.h"
#include "words.h"

namespace headworks::cli {

Result<Exit> ExplainCode(const Context& context, const std::string& code) {
  if (const auto word = std::ranges::find(Words(), code, &Word::word); word != Words().end()) {
    if (context.wants_table())
      Print(fmt::format("{}\n\n{}\n", word->word, word->text));
    else
      PrintValue(
          context.settings().output,
          boost::json::object{{"code", word->word}, {"title", nullptr}, {"text", word->text}});
    return Exit::kOk;
  }
  const spec::Explanation* explanation = spec::Explain(code);
  if (explanation == nullptr) {
    std::vector<std::string_view> known;
    for (const Word& word : Words()) known.push_back(word.word);
    for (const spec::Explanation* each : spec::Explanations()) known.push_back(each->code);
    return Error{Code::kNotFound,
                 fmt::format("there is no code, reason or state '{}'{}; codes read like HW1001, "
                             "reasons and states as `headworks runs show` has them, like lost",
                             code, DidYouMean(code, known))};
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
