#pragma once

#include <boost/json/object.hpp>

#include "run_view.h"

/// Runs and tasks as JSON, for `-o json` and `-o yaml`.  Times are RFC 3339, durations are seconds;
/// what is not known (yet) is null.
namespace headworks::cli {

boost::json::value JsonTime(Instant instant);
boost::json::object RunJson(const model::RunHeader& header);
/// With its last attempt; without its output.
boost::json::object TaskJson(const RunView& view, TaskNo task);
boost::json::object AttemptJson(const RunView& view, const model::AttemptRecord& attempt);
/// Stored JSON text as a value; null if it is empty.
boost::json::value ParsedJson(std::string_view text);

}  // namespace headworks::cli
