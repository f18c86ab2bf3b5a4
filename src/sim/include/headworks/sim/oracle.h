#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "headworks/model/run.h"
#include "headworks/model/step.h"
#include "headworks/sim/journal.h"
#include "headworks/sim/site.h"
#include "headworks/store/run_store.h"

namespace headworks::sim {

/// Watches every committed round and says which invariant it breaks.  It keeps its own small
/// picture of each run, made from the rounds alone.
class Oracle {
 public:
  using FindTruth = std::function<const Site::Truth*(RunNo, Epoch)>;
  using FindWorkflow = std::function<std::shared_ptr<const model::Workflow>(const std::string&)>;

  Oracle(Journal& journal, FindTruth truth, FindWorkflow workflow);

  /// Starts carry the time of the wall clock, which is no measure for rates any more.
  void ClockJumped() { clock_jumped_ = true; }
  /// Each round is to tell of what fails in it, once for each of these queues.
  void ExpectAlerts(std::vector<std::string> queues) { alert_queues_ = std::move(queues); }
  /// Ids of all that was to be told so far.
  const std::set<std::string>& alerts() const { return alerts_; }
  /// From the next round on.
  void SetLimit(const std::string& pool, int limit) { limits_[pool] = limit; }
  void Committed(const store::Round& round, const Incarnation& by, int owner);
  /// Runs written since the last call.
  std::vector<RunNo> TakeTouched();

  /// The attempt's row is stored as live under that epoch.
  bool IsLiveEpoch(const model::AttemptKey& key) const;
  /// Given up by its owner, who may not have told the buffer yet that it is in.
  bool IsZombie(const model::AttemptKey& key) const;
  /// The stored row of that epoch names that holder.
  bool Holds(const model::AttemptKey& key, std::string_view holder) const;
  /// I1: an offer needs a committed row.  False: whoever offers is no longer the owner.
  bool CheckOffer(const executor::Attempt& attempt, const Incarnation& by, int owner);
  /// Everything that must hold of a run that ended, computed anew and naively.
  void CheckEnded(const store::RunImage& image);

  std::size_t runs() const { return runs_.size(); }
  std::vector<RunNo> RunNos() const;

 private:
  struct TaskPicture {
    model::StoredTask row;
    std::string holder;
    bool has_row = false;
    int tries = 0;
    int losses = 0;
    int dispatch_failures = 0;
    int snoozes = 0;
  };
  struct RunPicture {
    model::RunHeader header;
    std::shared_ptr<const model::Workflow> workflow;
    std::vector<TaskPicture> tasks;
    std::set<std::string> applied;  // "actor kind" of commands
    std::set<Epoch> ended;
    bool marked = false;
    bool marked_in_cancel = false;
  };

  void CheckRun(const store::RunWrite& write);
  void CheckAttempt(RunPicture& run, const model::AttemptRecord& record);
  void CheckVerdictIsTrue(const RunPicture& run, const model::AttemptRecord& record);
  void CheckTask(RunPicture& run, const store::RunWrite& write, const model::StoredTask& row);
  void CheckHolder(RunPicture& run, const store::RunWrite::TaskWrite& write);
  void CheckQueued(const RunPicture& run, const store::RunWrite& write,
                   const model::StoredTask& row);
  void CheckBudgets(const RunPicture& run, const TaskPicture& task, const model::StoredTask& row,
                    bool marked);
  /// That the round tells of all that fails in it, and of nothing else.  Before its runs are noted.
  void CheckAlerts(const store::Round& round);
  void CheckCounts(const RunPicture& run);
  void CheckMaxParallel(const RunPicture& run);
  std::ptrdiff_t CountActive(const RunPicture& of, bool with_key) const;
  void CheckMaxActive(const RunPicture& run);
  void CheckPermits(const RunPicture& run, const store::RunWrite& write);
  void CheckLimits(const store::Round& round);
  void CheckRate(const RunPicture& run, const store::RunWrite& write);
  void CheckOutcome(const RunPicture& run);
  void CheckTriggerRules(const RunPicture& run);
  void Fail(RunNo run, std::string what);
  std::string Name(const RunPicture& run, TaskNo task) const;

  Journal& journal_;
  const FindTruth truth_;
  const FindWorkflow workflow_;
  std::map<RunNo, RunPicture> runs_;
  std::map<std::string, RunNo> start_keys_;
  std::set<std::string> inputs_;  // each start request has an input of its own
  std::vector<std::string> alert_queues_;
  std::set<std::string> alerts_;
  std::map<std::string, int> limits_;
  struct RatedStart {
    store::RunWrite::Start start;
    int rate;
  };
  std::map<std::pair<model::Namespace, std::string>, std::vector<RatedStart>> starts_;
  bool clock_jumped_ = false;
  std::map<std::pair<RunNo, Epoch>, store::RunWrite::Grant> permits_;
  std::vector<RunNo> touched_;
  /// Runs that the round under way writes and that were not running, and whether a rerun or mark
  /// made them so: those ask for no place.
  std::map<RunNo, bool> newly_active_;
};

}  // namespace headworks::sim
