#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "headworks/spec/fault.h"

namespace headworks::spec {

/// A place in a source, as the YAML parser counts: 0-based line and byte in the line.
struct Place {
  std::uint32_t line = 0;
  std::uint32_t byte = 0;
};

/// A text with a name, and what was found wrong in it.  The text must outlive it.
class Source {
 public:
  /// More than these are counted, not kept.
  static constexpr std::size_t kMostFaults = 1'000;
  static constexpr std::size_t kMostWarnings = 20;

  Source(std::string name, std::string_view text) : name_(std::move(name)), text_(text) {}

  const std::string& name() const { return name_; }
  std::string_view text() const { return text_; }

  /// Without its line break; empty if there is no such line.
  std::string_view Line(std::uint32_t line);

  /// Byte of the text; its end if there is no such place.
  std::size_t OffsetOf(Place place);
  Place PlaceOf(std::size_t offset);

  void Add(std::string_view code, Place place, std::string message);
  /// Something that is taken, and may be meant otherwise; of very many the first are kept.
  void Warn(std::string_view code, Place place, std::string message);
  /// One that was found in a part of this text: its line shows it.
  void AddFault(Fault fault);
  /// A fault of the file as a whole.
  void AddWhole(std::string_view code, std::string message);
  bool good() const { return faults_.empty(); }
  /// How many were added so far.
  std::size_t fault_count() const { return faults_.size() + dropped_; }
  /// By position; the last one says how many more there were.
  std::vector<Fault> TakeFaults();
  std::vector<Fault> TakeWarnings() { return std::move(warnings_); }

 private:
  void FindLines();
  Fault MakeFault(std::string_view code, Place place, std::string message);

  std::string name_;
  std::string_view text_;
  std::vector<std::size_t> line_starts_;  // filled when they are first needed
  std::vector<Fault> faults_, warnings_;
  std::size_t dropped_ = 0;
};

}  // namespace headworks::spec
