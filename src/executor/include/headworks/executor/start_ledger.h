#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "headworks/base/result.h"
#include "headworks/model/attempt.h"

namespace headworks::executor {

/// Which attempts of this engine's local executors have begun user code: the evidence that tells,
/// after a crash, an attempt that may be offered again from one that is lost (I4, I5).
///
/// A side file of the store (`<database>-started`), mapped into memory: a mark is a few stores,
///   no system call, and outlives the process however it dies, because the pages are the
///   kernel's.  They do not outlive the kernel: the file is not synced.  So where the file is from
///   another boot, missing or damaged, nothing is known of the runs that exist by then, and their
///   attempts are taken as started; run numbers rise, so later runs are told by theirs.
/// Size.  64 KiB at first; it doubles with the marks that are in use at once.
/// Use.  MarkStarted before the first instruction of user code, Clear once the verdict is stored.
///   An executor answers Inspect for an attempt it does not know by WasStarted: yes = lost,
///   no = Absent.  A mark whose verdict was stored just before a crash stays until the next boot.
/// Owner.  One open ledger per file: whoever owns the store owns it.  Executors may share one.
/// Threads.  All methods may be called concurrently.
class StartLedger {
 public:
  /// Takes over what an earlier incarnation left, with room for `capacity` marks beside it (at
  /// least as many as the executors can have begun and not yet settled).
  /// `boot_id` is the kernel's (/proc/sys/kernel/random/boot_id).  `next_run`: above all runs that
  /// the store has.  kUnavailable: the file cannot be made (says why).
  static Result<std::unique_ptr<StartLedger>> Open(std::string path, std::string_view boot_id,
                                                   std::size_t capacity, RunNo next_run);
  /// The file stays.
  ~StartLedger();
  StartLedger(const StartLedger&) = delete;
  StartLedger& operator=(const StartLedger&) = delete;

  /// Claims the start.  kConflict: it was claimed before (by an earlier incarnation, or twice), so
  /// the code must not run.  kAtCapacity: more are marked than `capacity`.  kUnavailable: the file
  /// has to grow and the disk is full; nothing was marked, and a later try may succeed.
  Status MarkStarted(const model::AttemptKey& key);
  void Clear(std::span<const model::AttemptKey> keys);
  /// True if the attempt's code may have begun.
  bool WasStarted(const model::AttemptKey& key) const;

  std::size_t capacity() const { return capacity_; }
  /// Why nothing was known when this was opened; empty if it was.  For the log.
  const std::string& unknown_because() const { return unknown_because_; }

 private:
  /// (run, epoch): unique in a store.
  using Mark = std::pair<std::int64_t, std::int64_t>;
  struct Header;
  /// Free if `epoch` is 0, which is no attempt's.  `epoch` is written last and cleared first.
  struct Slot {
    std::atomic<std::int64_t> run;
    std::atomic<std::int64_t> epoch;
  };

  StartLedger(std::string path, std::string_view boot_id, std::size_t capacity, RunNo next_run);
  std::vector<Mark> ReadMarks();
  Status Create(std::span<const Mark> marks);
  Status Reserve();
  static std::size_t SlotOf(std::span<const Slot> slots, const Mark& mark);
  static void Put(std::span<Slot> slots, const Mark& mark, std::size_t slot);
  void Remove(std::size_t slot);

  const std::string path_;
  const std::string boot_id_;
  const std::size_t capacity_;
  RunNo known_from_;  // of runs from here on all is known
  std::string unknown_because_;

  void* memory_ = nullptr;
  std::size_t bytes_ = 0;
  mutable std::mutex mutex_;
  // Guarded by mutex_: a hash set with linear probing, half full unless the disk is full.
  std::span<Slot> slots_;
  std::size_t used_ = 0;
  std::size_t limit_ = 0;
};

}  // namespace headworks::executor
