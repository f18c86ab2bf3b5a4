#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "headworks/executor/token_issuer.h"
#include "headworks/executor_queue/queue_executor.h"
#include "headworks/sim/site.h"

namespace headworks::sim {

/// Workers elsewhere, and the queue executor of each engine process that they talk to.
///
/// Each call is a message: it may be late, doubled or lost, and so may its answer; it reaches any
///   engine that there is.  Workers die, leave, come back as another incarnation, hand back, are
///   silent, and stop their code when their own clock says that their lease is over.
/// For long nobody serves kOtherQueue, few if any have kLabel, and there is room for few attempts
///   only.
/// Checked: of one epoch user code begins once, of one task in one epoch at a time, by whom the
///   stored row names; nobody is told to stop whose epoch is live, and nobody gets what requires a
///   label that it has not.
class Fleet {
 public:
  /// Beside the default queue, which all workers serve.
  static constexpr std::string_view kOtherQueue = "other";
  static constexpr std::string_view kLabel = "gpu";

  Fleet(std::string name, Dice dice, SimClock& clock, Journal& journal, Site::Hooks hooks);
  ~Fleet();

  /// The executor of one incarnation; both must be gone before the fleet is.
  std::unique_ptr<executor::Executor> NewPort(Incarnation& incarnation, Logger& logger);
  /// One random thing happens; false if nothing of note did.
  bool Progress();
  /// Time passes, which executors see as their thread does, or not at all.
  void Elapse(Duration by);
  void CalmDown();
  /// From now on there are workers of each queue and label.
  void ServeAll();
  bool serves_all() const { return serves_all_; }

  const Site::Truth* Find(RunNo run, Epoch epoch);
  const std::string& name() const { return name_; }

 private:
  class Port;
  class Resolver;
  using Id = std::pair<RunNo, Epoch>;
  using Service = worker_api::WorkerService;
  /// An attempt that a worker knows of.
  struct Held {
    worker_api::Assignment assignment;
    std::string work_token;
    Id id;
    bool running = false;
    bool cancel = false;
    std::uint64_t number = 0;  // of its assignment: answers to questions about others are not its
    /// When it began to say the last word that was answered, monotonic.
    Duration answered_from{};
  };
  struct Worker {
    worker_api::Identity who;
    bool labelled = false;
    bool registered = false;
    std::map<std::string, std::uint32_t> slots;  // as it is registered
    bool polls = false;
    Duration polls_until{};
    std::map<Id, Held> held;
  };
  /// Puts a call on its way: to an engine, and its answer back.
  template <typename T>
  void Send(std::function<void(Service&, Service::Done<T>)> call,
            std::function<void(const Result<T>&)> answered);
  /// A call may arrive twice; each is answered at most once.
  void Post(std::function<void()> deliver, bool may_double);
  bool Deliver();
  Worker* Find(const worker_api::Identity& who);
  Held* FindHeld(const worker_api::Identity& who, const Id& id);
  void Act(Worker& worker);
  void Register(Worker& worker);
  void Poll(Worker& worker);
  void Begin(Worker& worker, Held& held);
  void Begun(const worker_api::Identity& who, const Id& id, std::uint64_t number, Duration said,
             const Result<worker_api::Started>& answer);
  void Beat(Worker& worker);
  void Say(Worker& worker, Held& held);
  void Heard(const worker_api::Identity& who, const Id& id, Duration said, executor::Reply reply);
  void Stopped(const worker_api::Identity& who, const Id& id);
  void End(Site::Truth& truth, Held& held);
  void Complete(Worker& worker, Held& held);
  /// Its process ends, whatever it held.
  void Die(Worker& worker);
  /// Code whose lease is over by its worker's clock has stopped by now.
  void StopLapsed();
  bool Lapsed(const Held& held) const {
    return clock_.Monotonic() >= held.answered_from + options_.lease;
  }
  std::string Describe(const Site::Truth& truth) const;

  const std::string name_;
  Dice dice_;
  SimClock& clock_;
  Journal& journal_;
  const Site::Hooks hooks_;
  executor_queue::QueueOptions options_;
  std::unique_ptr<Clock> steady_;
  std::unique_ptr<executor::TokenIssuer> tokens_;
  std::unique_ptr<log_store::LogStore> logs_;
  std::unique_ptr<Resolver> resolver_;
  bool calm_ = false;
  bool serves_all_ = false;
  bool moved_ = false;
  unsigned lost_ = 0, doubled_ = 0;  // messages, per mille
  int incarnations_ = 0;
  std::uint64_t assignments_ = 0;
  std::vector<Worker> workers_;
  std::vector<std::function<void()>> messages_;
  std::map<Id, Site::Truth> truths_;
  std::map<int, Port*> ports_;
};

}  // namespace headworks::sim
