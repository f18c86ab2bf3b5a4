#pragma once

#include "headworks/base/time.h"

namespace headworks {

/// The wall time of when it was made, and from then on as time passes: for what must neither end
/// nor begin because somebody sets the clock.  Borrows the clock that it goes by.
class SteadyClock final : public Clock {
 public:
  explicit SteadyClock(Clock& clock) : clock_(clock), offset_(clock.Now() - clock.Monotonic()) {}
  Instant Now() override { return offset_ + clock_.Monotonic(); }
  Duration Monotonic() override { return clock_.Monotonic(); }

 private:
  Clock& clock_;
  const Instant offset_;
};

}  // namespace headworks
