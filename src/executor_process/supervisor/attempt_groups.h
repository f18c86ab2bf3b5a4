#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace headworks::supervisor {

/// A control group for each attempt that lives, below the engine's: `<engine's>/<number>`.  A
/// group that became empty is used again, because to make and remove one costs more than all
/// else that is done for a short attempt.  One that was killed is made anew: to some kernels
/// (seen on 6.18) who is cloned into it is to be killed as well.
///
/// Groups are named by their number; 0 = none, of which every question is answered with "nothing".
/// Threads.  One.
class AttemptGroups {
 public:
  /// `base`: the engine's group; empty = there is none, and there will be none for attempts.
  explicit AttemptGroups(std::string base) : base_(std::move(base)) {}
  AttemptGroups(const AttemptGroups&) = delete;
  AttemptGroups& operator=(const AttemptGroups&) = delete;
  /// Removes those that are empty, and `base` with the last.
  ~AttemptGroups();

  /// Finds out by trial whether processes can be started in groups here; if not, there are none.
  void Probe();
  bool usable() const { return !base_.empty(); }

  /// A group that nobody is in; 0 if there is none to be had.
  int Take();
  /// Gives it back, empty or not.
  void Give(int group);

  /// For SpawnPlan: where to clone into (version 2), and where the child enters by itself
  /// (version 1).  -1 = not this way.
  int clone_fd(int group) const { return group == 0 ? -1 : slot(group).clone_fd; }
  int join_fd(int group) const { return group == 0 ? -1 : slot(group).join_fd; }

  bool IsEmpty(int group) const;
  std::vector<pid_t> Members(int group) const;
  void Kill(int group);
  /// The group that `pid` is in, or below; 0 if it is in none of these.
  int GroupOf(pid_t pid) const;

 private:
  struct Slot {
    int clone_fd = -1;
    int join_fd = -1;
    /// Version 2: says whether anybody is in the group or below it.
    int events_fd = -1;
    bool taken = false;
    /// Was killed, or could not be made.
    bool spoiled = true;
  };

  Slot& slot(int group) { return slots_[static_cast<std::size_t>(group) - 1]; }
  const Slot& slot(int group) const { return slots_[static_cast<std::size_t>(group) - 1]; }
  std::string FolderOf(int group) const { return base_ + '/' + std::to_string(group); }
  bool MakeAnew(int group);
  static void Close(Slot& slot);

  std::string base_;
  std::vector<Slot> slots_;
};

}  // namespace headworks::supervisor
