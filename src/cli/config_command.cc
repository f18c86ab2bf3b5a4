#include <fmt/format.h>

#include <boost/json.hpp>

#include "commands.h"
#include "output.h"

namespace headworks::cli {

Result<Exit> CheckConfiguration(const Context& context,
                                const std::vector<std::string>& environment) {
  // Bad values and keys were refused when the settings were loaded, before any command.
  const auto unknown = UnknownVariables(environment);
  if (!unknown.empty())
    return Error{Code::kInvalidArgument,
                 fmt::format("these environment variables mean nothing to Headworks: {}; "
                             "`headworks config show` lists those that do",
                             fmt::join(unknown, ", "))};
  if (context.wants_table())
    Print(fmt::format("the configuration is valid (file: {})\n",
                      context.loaded.file.empty() ? "none" : context.loaded.file));
  else
    PrintValue(context.settings().output,
               boost::json::object{{"valid", true}, {"file", context.loaded.file}});
  return Exit::kOk;
}

Result<Exit> ShowConfiguration(const Context& context) {
  Table table({"KEY", "VALUE", "FROM"});
  boost::json::object values;
  const auto settings = AllSettings();
  for (std::size_t i = 0; i < settings.size(); ++i) {
    const std::string value = settings[i].get(context.settings());
    table.AddRow(
        {std::string(settings[i].key), value.empty() ? "-" : value, context.loaded.origins[i]});
    values[settings[i].key] =
        boost::json::object{{"value", value}, {"from", context.loaded.origins[i]}};
  }
  if (context.wants_table())
    Print(table.Render());
  else
    PrintValue(context.settings().output, values);
  return Exit::kOk;
}

}  // namespace headworks::cli
