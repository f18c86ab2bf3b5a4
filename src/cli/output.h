#pragma once

#include <boost/json/value.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "outlet.h"
#include "settings.h"

namespace headworks::cli {

/// Rows under headings, columns as wide as they need to be.
class Table {
 public:
  explicit Table(std::vector<std::string> headings) : headings_(std::move(headings)) {}
  /// As many cells as there are headings.
  void AddRow(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }
  std::string Render() const;

 private:
  std::vector<std::string> headings_;
  std::vector<std::vector<std::string>> rows_;
};

/// JSON in one line, or YAML; with a newline.  `format` is not kTable.
std::string FormatValue(OutputFormat format, const boost::json::value& value);
void PrintValue(OutputFormat format, const boost::json::value& value);
/// To standard error, with a newline.
void Note(std::string_view text);

/// Characters that `text` takes on a screen: code points, which is right for all but combining
/// and double-width ones.
std::size_t DisplayWidth(std::string_view text);
/// `text` cut to `width` characters, with "…" at the end if something is missing; control
/// characters become spaces.
std::string FitToWidth(std::string_view text, std::size_t width);

}  // namespace headworks::cli
