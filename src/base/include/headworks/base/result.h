#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace headworks {

/// What went wrong, split by what the caller does next.
/// Values are stored and sent on the wire: append, never renumber.
enum class Code : unsigned char {
  /// The caller's input is wrong; the same call fails again.  Message says what, where, what to do.
  kInvalidArgument = 1,
  /// The named thing does not exist (or belongs to another tenant).
  kNotFound = 2,
  /// The state of the thing forbids it now (already exists, still live, already finished).
  kConflict = 3,
  /// Somebody else owns it by now: drop what is held in memory and stop.
  kLeaseLost = 4,
  /// A bound is reached; the same call may succeed later.
  kAtCapacity = 5,
  /// A drain ended before all work did; the message names what was abandoned.
  kDrainTimeout = 6,
  /// Could not be reached, or the answer is unknown: find out, then repeat.
  kUnavailable = 7,
  /// Stopped on request.
  kCancelled = 8,
  /// Stored bytes are not what was written.  Nothing was changed; restore or repair.
  kCorrupt = 9,
  /// Known, but not allowed.
  kPermissionDenied = 10,
  /// A bug in Headworks, or in code it called.
  kInternal = 11,
};

/// Lower-case name of `code` as users see it, e.g. "not_found".
std::string_view CodeName(Code code);

struct Error {
  Code code = Code::kInternal;
  std::string message;

  bool operator==(const Error&) const = default;
};

/// Either a `T` or an `Error`; must be looked at.  `return value;` and `return Error{...};` both
/// convert.  No exception crosses a module border: this does.
template <typename T>
class [[nodiscard]] Result : public tl::expected<T, Error> {
 public:
  using Base = tl::expected<T, Error>;
  using Base::Base;
  Result() = default;
  Result(Error error) : Base(tl::unexpect, std::move(error)) {}  // NOLINT(*-explicit-*)
  Result(Base base) : Base(std::move(base)) {}                   // NOLINT(*-explicit-*)
};

/// A call without a value: `return {};` is success.
using Status = Result<void>;

}  // namespace headworks

/// Returns the error of `expression` from the enclosing function, or goes on.
#define HEADWORKS_TRY(expression)                                         \
  do {                                                                    \
    if (auto headworks_try_result = (expression); !headworks_try_result)  \
      return ::headworks::Error(std::move(headworks_try_result).error()); \
  } while (false)

/// `HEADWORKS_ASSIGN(auto x, F());` declares x as F's value, or returns F's error.
#define HEADWORKS_ASSIGN(declaration, expression) \
  HEADWORKS_ASSIGN_(HEADWORKS_CONCAT_(headworks_result_, __LINE__), declaration, expression)
#define HEADWORKS_ASSIGN_(temporary, declaration, expression)                \
  auto temporary = (expression);                                             \
  if (!(temporary)) return ::headworks::Error(std::move(temporary).error()); \
  declaration = *std::move(temporary)
#define HEADWORKS_CONCAT_(a, b) HEADWORKS_CONCAT2_(a, b)
#define HEADWORKS_CONCAT2_(a, b) a##b
