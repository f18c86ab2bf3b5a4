#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "headworks/executor/executor.h"
#include "headworks/sim/dice.h"
#include "headworks/sim/journal.h"

namespace headworks::sim {

/// One life of an engine process, as the things around it see it.
struct Incarnation {
  int number = 0;
  /// The process is gone: from here on nothing that it does has an effect.
  bool crashed = false;
};

/// Chances per mille of what goes wrong at a site.
struct SiteFaults {
  unsigned deferred = 0;
  unsigned backpressure = 0;
  unsigned transient = 0;
  unsigned rejected = 0;
  unsigned refused = 0;
  unsigned unknown = 0;       // Inspect cannot say
  unsigned message_lost = 0;  // it is sent again
  unsigned message_doubled = 0;
  unsigned crash_in_offer = 0;
  unsigned dropped = 0;  // taken, and forgotten before any worker had it
};

/// Where attempts really run: the truth, whatever an engine believes.
///
/// kLocal dies with the process that runs it: what had not begun is gone without a trace (Absent),
///   what had begun is known from a ledger that survives (lost, or its verdict if that was kept).
/// kFenced goes on through crashes too, and speaks by words.  An attempt may be delivered to two
///   workers; each claims the start, and none begins before it is let in.  Whoever is not the
///   holder goes on speaking until it is told to stop.
/// kRemote goes on through crashes.  Its messages come late, doubled, in any order, and are sent
///   again until the engine says that the verdict is committed.  Before user code it opens the
///   start gate, which looks at the stored row (I5).
class Site {
 public:
  enum class Kind : std::uint8_t { kLocal, kRemote, kFenced };
  enum class Stage : std::uint8_t {
    kAccepted,
    kBegun,
    kEnded,
    kVanished,  // its process died, or the start gate was shut
  };
  struct Holder {
    std::string name;
    bool asked = false;
    bool out = false;  // was told to stop
  };
  struct Truth {
    executor::Attempt attempt;
    Stage stage = Stage::kAccepted;
    int incarnation = 0;
    int begins = 0;
    bool cancel = false;
    bool hangs = false;     // does not end by itself
    bool stubborn = false;  // does not heed a cancel
    bool owes_started = false;
    bool told = false;  // its end was said at least once
    bool settled = false;
    bool dropped = false;
    bool lapsed = false;  // its holder's lease was over before it could say how it ended
    std::vector<Holder> holders;
    std::string holder;  // whoever was let in
    std::optional<model::Outcome> outcome;
  };
  struct Hooks {
    /// Looks at an offer (I1); false: it comes from an owner that was, so it is not taken (I3).
    std::function<bool(const executor::Attempt&, const Incarnation&)> offered;
    /// The start gate: is this epoch the stored, live one?
    std::function<bool(const model::AttemptKey&)> gate;
    /// Does the stored row of this epoch name that holder?
    std::function<bool(const model::AttemptKey&, std::string_view)> holds;
  };

  Site(std::string name, Kind kind, std::uint32_t max, Dice& dice, Clock& clock, Journal& journal,
       Hooks hooks);

  /// The executor of one incarnation; both must be gone before the site is.
  std::unique_ptr<executor::Executor> NewPort(Incarnation& incarnation);
  /// The process ended: local attempts vanish.  `in_doubt`: nobody knows yet whether its last round
  /// is stored.
  void ProcessDied(int incarnation, bool in_doubt);
  /// One random thing happens to an attempt or a message; false if there was nothing to happen.
  bool Progress();
  void SetFaults(const SiteFaults& faults) { faults_ = faults; }
  /// From now on everything ends by itself, and soon.
  void CalmDown();

  const Truth* Find(RunNo run, Epoch epoch) const;
  Kind kind() const { return kind_; }
  std::uint32_t max() const { return max_; }
  const std::string& name() const { return name_; }

 private:
  class Port;
  using Id = std::pair<RunNo, Epoch>;

  executor::OfferResult Offer(Port& port, const executor::Attempt& attempt);
  executor::OfferResult Accept(Port& port, const executor::Attempt& attempt);
  executor::Inspection Inspect(const Port& port, const executor::Attempt& attempt);
  void Cancel(const model::AttemptKey& key);
  void Settle(const model::AttemptKey& key);
  // Of kFenced.
  bool ProgressFenced(Truth& truth);
  bool ClaimStart(Truth& truth);
  void SpeakInBetween(Truth& truth);
  void Say(Truth& truth, const std::string& holder, executor::Word::Kind kind,
           const model::Outcome& outcome = {});
  void Heard(const Id& id, const std::string& holder, executor::Word::Kind kind,
             executor::Reply reply);
  void HeardStop(Truth& truth, const std::string& holder);
  void HeardYes(Truth& truth, const std::string& holder, executor::Word::Kind kind,
                executor::Reply reply);
  void Begin(Truth& truth);
  void End(Truth& truth);
  bool Speak(Truth& truth);
  bool RepeatOldNews();
  model::Outcome Script(const Truth& truth);
  void Vanish(Truth& truth);
  void Forget(const Id& id);
  executor::AttemptSink* SinkFor(const Truth& truth);
  std::uint32_t Used() const;
  std::string Describe(const Truth& truth) const;

  const std::string name_;
  const Kind kind_;
  const std::uint32_t max_;
  Dice& dice_;
  Clock& clock_;
  Journal& journal_;
  const Hooks hooks_;
  SiteFaults faults_;
  bool calm_ = false;
  int workers_ = 0;
  std::map<Id, Truth> truths_;
  std::vector<Id> active_;  // accepted, begun, or ended and not settled
  struct OldNews {
    model::AttemptKey key;
    std::string holder;
    model::Outcome outcome;
  };
  std::deque<OldNews> old_news_;
  std::map<int, Port*> ports_;
};

}  // namespace headworks::sim
