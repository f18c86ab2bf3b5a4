#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "headworks/base/result.h"

/// What HEADWORKS_FIELDS is made of; authors need only fields.h.
namespace headworks {

/// Walks through a JSON document, one value at a time, and collects what does not fit.
///
/// A Read that does not fit notes a fault ("files[2].size: expected an integer, found a string")
/// and leaves its argument alone, so that one pass names all faults.
class JsonReader {
 public:
  /// `what` names the document in faults.
  JsonReader(std::string_view text, std::string_view what);
  ~JsonReader();
  JsonReader(const JsonReader&) = delete;
  JsonReader& operator=(const JsonReader&) = delete;

  bool IsNull() const;
  void Read(bool& out);
  void Read(std::string& out);
  void Read(double& out);
  /// Whole numbers from `min` to `max`; 3.0 is one.
  void ReadSigned(std::int64_t& out, std::int64_t min, std::int64_t max);
  void ReadUnsigned(std::uint64_t& out, std::uint64_t max);
  /// The value as it stands, as text.
  void ReadText(std::string& out);

  /// False, and a fault, if the value is no object.
  bool IsObject();
  /// Goes to a member; false if there is none.  Leave() comes back.
  bool EnterMember(std::string_view name);
  /// A member that must be there is not.
  void Missing(std::string_view name);
  /// Number of elements (array) or members (object); 0, and a fault, if it is neither.
  std::size_t ArraySize();
  std::size_t ObjectSize();
  void EnterElement(std::size_t index);
  /// Goes to the member at `index`, in written order, and returns its name.
  std::string_view EnterMemberAt(std::size_t index);
  void Leave();

  /// kInvalidArgument with at most ten faults.
  Status status() const;

 private:
  struct State;
  void Expected(std::string_view what);
  std::unique_ptr<State> state_;
};

/// Writes one JSON document.  Calls must nest: BeginObject, then Key and a value, EndObject.
///
/// Refused, with the field's name: numbers that are not finite, text that is not UTF-8.
class JsonWriter {
 public:
  JsonWriter();
  ~JsonWriter();
  JsonWriter(const JsonWriter&) = delete;
  JsonWriter& operator=(const JsonWriter&) = delete;

  void Null();
  void Write(bool value);
  void Write(std::string_view value);
  void Write(double value);
  void WriteSigned(std::int64_t value);
  void WriteUnsigned(std::uint64_t value);
  /// JSON text, checked.
  void WriteText(std::string_view json);

  void BeginObject();
  /// `name` must stay alive until the next Key or EndObject.
  void Key(std::string_view name);
  void EndObject();
  void BeginArray();
  void EndArray();

  /// The text, or kInvalidArgument with at most ten faults.  Ends the writer.
  Result<std::string> Finish();

 private:
  struct State;
  std::string& Value();
  void Fault(std::string_view message);
  std::unique_ptr<State> state_;
};

}  // namespace headworks
