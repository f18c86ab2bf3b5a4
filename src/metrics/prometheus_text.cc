#include <fmt/format.h>

#include <cmath>
#include <iterator>

#include "headworks/metrics/family.h"

namespace headworks::metrics {
namespace {

/// In help texts a quote stands for itself.
void AppendEscaped(std::string& text, std::string_view value, bool quoted) {
  for (const char c : value) {
    if (c == '\n')
      text += "\\n";
    else if (c == '\\' || (quoted && c == '"'))
      (text += '\\') += c;
    else
      text += c;
  }
}

std::string Number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

/// `bound` is the label `le` of a bucket; empty = none.
void AppendSample(std::string& text, std::string_view name, std::string_view suffix,
                  const Labels& labels, std::string_view bound, std::string_view value) {
  (text += name) += suffix;
  char separator = '{';
  const auto label = [&](std::string_view key, std::string_view of) {
    ((text += std::exchange(separator, ',')) += key) += "=\"";
    AppendEscaped(text, of, true);
    text += '"';
  };
  for (const auto& [key, of] : labels) label(key, of);
  if (!bound.empty()) label("le", bound);
  if (separator == ',') text += '}';
  ((text += ' ') += value) += '\n';
}

void AppendHistogram(std::string& text, std::string_view name, const Labels& labels,
                     const Histogram& histogram) {
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < histogram.buckets().size(); ++i) {
    below += histogram.buckets()[i];
    const bool last = i == histogram.bounds().size();
    AppendSample(text, name, "_bucket", labels, last ? "+Inf" : Number(histogram.bounds()[i]),
                 fmt::to_string(below));
  }
  AppendSample(text, name, "_sum", labels, {}, Number(histogram.sum()));
  AppendSample(text, name, "_count", labels, {}, fmt::to_string(histogram.count()));
}

}  // namespace

std::string_view TypeName(Type type) {
  switch (type) {
    case Type::kCounter:
      return "counter";
    case Type::kGauge:
      return "gauge";
    case Type::kHistogram:
      return "histogram";
  }
  return "untyped";
}

std::string PrometheusText(std::span<const Family> families) {
  std::string text;
  for (const Family& family : families) {
    fmt::format_to(std::back_inserter(text), "# HELP {} ", family.name);
    AppendEscaped(text, family.help, false);
    fmt::format_to(std::back_inserter(text), "\n# TYPE {} {}\n", family.name,
                   TypeName(family.type));
    for (const Sample& sample : family.samples) {
      if (sample.histogram)
        AppendHistogram(text, family.name, sample.labels, *sample.histogram);
      else
        AppendSample(text, family.name, {}, sample.labels, {}, Number(sample.value));
    }
  }
  return text;
}

}  // namespace headworks::metrics
