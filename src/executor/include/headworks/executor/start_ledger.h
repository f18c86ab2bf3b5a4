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
/// A side file of the store (`<database>.started`), mapped into memory: a mark is a few stores,
///   no system call, and outlives the process however it dies, because the pages are the
///   kernel's.  They do not outlive the kernel: the file is not synced, so after another boot (or
///   if it is missing or damaged) nothing is known, and everything is taken as started.
/// Use.  Open; once the store's live attempts are known, Reconcile; then for each attempt
///   MarkStarted before its first instruction of user code, and Clear once its verdict is stored.
///   An executor answers Inspect for an attempt it does not know by WasStarted: yes = lost,
///   no = Absent.
/// Owner.  One open ledger per file: whoever owns the store owns it.  Executors may share one.
/// Threads.  All methods may be called concurrently, except Reconcile.
class StartLedger {
 public:
  /// Takes over what an earlier incarnation left, with room for `capacity` marks beside it (at
  /// least as many as the executors can have begun and not yet settled).
  /// `boot_id` is the kernel's (/proc/sys/kernel/random/boot_id).
  /// kUnavailable: the file cannot be made (says why).
  static Result<std::unique_ptr<StartLedger>> Open(std::string path, std::string_view boot_id,
                                                   std::size_t capacity);
  /// The file stays.
  ~StartLedger();
  StartLedger(const StartLedger&) = delete;
  StartLedger& operator=(const StartLedger&) = delete;

  /// Tells which attempts live in the store, before the first mark of this incarnation.  Marks of
  /// others are dropped (their verdict was stored); what was unknown becomes "these were started,
  /// nothing else was".  Errors as Open; then everything is as before.
  Status Reconcile(std::span<const model::AttemptKey> live);

  /// Claims the start.  kConflict: it was claimed before (by an earlier incarnation, or twice), so
  /// the code must not run.  kAtCapacity: more are marked than `capacity`.
  Status MarkStarted(const model::AttemptKey& key);
  void Clear(std::span<const model::AttemptKey> keys);
  /// True if the attempt's code may have begun.
  bool WasStarted(const model::AttemptKey& key) const;

  std::size_t capacity() const { return capacity_; }
  /// Why nothing is known of earlier incarnations; empty if it is.  For the log.
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

  /// A mapped file: a hash set with linear probing, at most half full.
  struct Table {
    Header* header = nullptr;
    std::size_t bytes = 0;
    std::span<Slot> slots;
    std::size_t used = 0;
    std::size_t limit = 0;

    static Table At(void* memory, std::size_t bytes, std::size_t slots, std::size_t limit);
    void Unmap() const;
  };

  StartLedger(std::string path, std::string_view boot_id, std::size_t capacity);
  std::vector<Mark> ReadMarks();
  Status Replace(std::span<const Mark> marks);
  std::size_t SlotOf(const Mark& mark) const;
  void Put(const Mark& mark, std::size_t slot);
  void Remove(std::size_t slot);

  const std::string path_;
  const std::string boot_id_;
  const std::size_t capacity_;
  std::string unknown_because_;

  mutable std::mutex mutex_;
  Table table_;  // guarded by mutex_
};

}  // namespace headworks::executor
