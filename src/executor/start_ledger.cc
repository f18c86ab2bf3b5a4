#include "headworks/executor/start_ledger.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <new>
#include <system_error>

#include "headworks/base/check.h"
#include "headworks/base/fd.h"
#include "headworks/base/random.h"

namespace headworks::executor {
namespace {

constexpr std::uint64_t kMagic = 0x315245444c475748;  // "HWGLDER1" as stored
/// 64 KiB: what a small disk has room for, and more than most engines ever mark at once.
constexpr std::size_t kFirstSlots = 4096;

Error Failed(std::string_view what, const std::string& path, int error) {
  return {Code::kUnavailable, "start ledger " + path + ": cannot " + std::string(what) + ": " +
                                  std::system_category().message(error) +
                                  "; make room or give access, then start again"};
}

}  // namespace

struct StartLedger::Header {
  std::uint64_t magic;
  std::uint64_t slots;
  char boot_id[40];
  std::int64_t known_from;
};

StartLedger::StartLedger(std::string path, std::string_view boot_id, std::size_t capacity,
                         RunNo next_run)
    : path_(std::move(path)),
      boot_id_(boot_id.substr(0, sizeof(Header::boot_id) - 1)),
      capacity_(capacity),
      known_from_(next_run) {}

StartLedger::~StartLedger() {
  if (memory_ != nullptr) ::munmap(memory_, bytes_);
}

Result<std::unique_ptr<StartLedger>> StartLedger::Open(std::string path, std::string_view boot_id,
                                                       std::size_t capacity, RunNo next_run) {
  std::unique_ptr<StartLedger> ledger(
      new StartLedger(std::move(path), boot_id, capacity, next_run));
  const std::vector<Mark> marks = ledger->ReadMarks();
  HEADWORKS_TRY(ledger->Create(marks));
  ledger->limit_ = marks.size() + capacity;
  return ledger;
}

/// What the file at `path_` says; sets unknown_because_ if it says nothing that can be relied on,
/// else known_from_.
std::vector<StartLedger::Mark> StartLedger::ReadMarks() {
  const auto unknown = [this](std::string why) {
    unknown_because_ = std::move(why);
    return std::vector<Mark>{};
  };
  const Fd file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0)
    return unknown("no ledger " + path_ + ": " + std::system_category().message(errno));
  struct stat status{};
  Header header{};
  const auto got = ::pread(file.get(), &header, sizeof header, 0);
  if (::fstat(file.get(), &status) != 0 || got != sizeof header || header.magic != kMagic ||
      header.slots > static_cast<std::uint64_t>(status.st_size) / sizeof(Slot) ||
      sizeof(Header) + header.slots * sizeof(Slot) != static_cast<std::uint64_t>(status.st_size))
    return unknown("the ledger " + path_ + " is damaged");
  if (std::string_view(header.boot_id, ::strnlen(header.boot_id, sizeof header.boot_id)) !=
      boot_id_)
    return unknown("the machine was restarted since " + path_ + " was written");

  std::vector<Mark> slots(header.slots);
  const std::size_t bytes = slots.size() * sizeof(Mark);
  static_assert(sizeof(Mark) == sizeof(Slot));
  if (::pread(file.get(), slots.data(), bytes, sizeof header) != static_cast<ssize_t>(bytes))
    return unknown("the ledger " + path_ + " cannot be read");
  known_from_ = RunNo(header.known_from);
  std::erase_if(slots, [](const Mark& mark) { return mark.second == 0; });
  // A crash while a mark moved may have left it twice.
  std::ranges::sort(slots);
  slots.erase(std::ranges::unique(slots).begin(), slots.end());
  return slots;
}

/// Maps a new file with `marks` and puts it in the place of the old one.  On failure nothing
/// changes.
Status StartLedger::Create(std::span<const Mark> marks) {
  const std::size_t slots = std::bit_ceil(std::max(kFirstSlots, 4 * marks.size()));
  const std::size_t bytes = sizeof(Header) + slots * sizeof(Slot);
  const std::string fresh = path_ + ".new";
  const auto failed = [&](std::string_view what, int error) {
    ::unlink(fresh.c_str());  // what it took of a full disk
    return Failed(what, fresh, error);
  };
  const Fd file(::open(fresh.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (file.get() < 0) return Failed("create it", fresh, errno);
  // Allocated, not sparse: a full disk is an error here, not a SIGBUS at some later mark.
  if (const int error = ::posix_fallocate(file.get(), 0, static_cast<off_t>(bytes)); error != 0)
    return failed("allocate it", error);
  void* memory =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file.get(), 0);
  if (memory == MAP_FAILED) return failed("map it", errno);
  auto* header = new (memory)
      Header{.magic = kMagic, .slots = slots, .boot_id = {}, .known_from = known_from_.value};
  std::memcpy(header->boot_id, boot_id_.data(), boot_id_.size());
  const std::span table(reinterpret_cast<Slot*>(static_cast<std::byte*>(memory) + sizeof(Header)),
                        slots);
  for (const Mark& mark : marks) Put(table, mark, SlotOf(table, mark));
  if (::rename(fresh.c_str(), path_.c_str()) != 0) {
    const int error = errno;
    ::munmap(memory, bytes);
    return failed("put it in place", error);
  }
  if (memory_ != nullptr) ::munmap(memory_, bytes_);
  memory_ = memory;
  bytes_ = bytes;
  slots_ = table;
  used_ = marks.size();
  return {};
}

/// Makes room for one more mark, while the disk gives it.
Status StartLedger::Reserve() {
  if (used_ < slots_.size() / 2) return {};
  std::vector<Mark> marks;
  marks.reserve(used_);
  for (const Slot& slot : slots_) {
    const std::int64_t epoch = slot.epoch.load(std::memory_order_relaxed);
    if (epoch != 0) marks.emplace_back(slot.run.load(std::memory_order_relaxed), epoch);
  }
  const Status grown = Create(marks);
  // A table this full is slow, and still finds every mark.
  return grown || used_ < slots_.size() / 8 * 7 ? Status() : grown;
}

/// Where `mark` is, or the free slot where it would go.
std::size_t StartLedger::SlotOf(std::span<const Slot> slots, const Mark& mark) {
  const std::size_t mask = slots.size() - 1;
  std::size_t at = Mix64(static_cast<std::uint64_t>(mark.first) ^
                         Mix64(static_cast<std::uint64_t>(mark.second))) &
                   mask;
  while (true) {
    const std::int64_t epoch = slots[at].epoch.load(std::memory_order_relaxed);
    if (epoch == 0 ||
        (epoch == mark.second && slots[at].run.load(std::memory_order_relaxed) == mark.first))
      return at;
    at = (at + 1) & mask;
  }
}

void StartLedger::Put(std::span<Slot> slots, const Mark& mark, std::size_t slot) {
  slots[slot].run.store(mark.first, std::memory_order_relaxed);
  slots[slot].epoch.store(mark.second, std::memory_order_release);
}

/// Frees `slot` and moves up what had been pushed behind it, so that probing never meets a gap.
/// A mark is written to its new place before it leaves the old one: no crash can lose it.
void StartLedger::Remove(std::size_t slot) {
  const std::size_t mask = slots_.size() - 1;
  slots_[slot].epoch.store(0, std::memory_order_release);
  --used_;
  for (std::size_t at = (slot + 1) & mask;; at = (at + 1) & mask) {
    const Mark mark{slots_[at].run.load(std::memory_order_relaxed),
                    slots_[at].epoch.load(std::memory_order_relaxed)};
    if (mark.second == 0) return;
    const std::size_t better = SlotOf(slots_, mark);
    if (better == at) continue;
    slots_[better].run.store(mark.first, std::memory_order_relaxed);
    slots_[better].epoch.store(mark.second, std::memory_order_release);
    slots_[at].epoch.store(0, std::memory_order_release);
  }
}

Status StartLedger::MarkStarted(const model::AttemptKey& key) {
  HEADWORKS_CHECK(key.epoch.value != 0);
  const Mark mark{key.run.value, key.epoch.value};
  const std::scoped_lock lock(mutex_);
  if (slots_[SlotOf(slots_, mark)].epoch.load(std::memory_order_relaxed) != 0)
    return Error{Code::kConflict, "attempt " + std::to_string(mark.first) + "/" +
                                      std::to_string(mark.second) + " was started before"};
  if (used_ >= limit_)
    return Error{Code::kAtCapacity, std::to_string(used_) + " attempts are marked in " + path_ +
                                        "; it was opened for " + std::to_string(capacity_)};
  HEADWORKS_TRY(Reserve());
  Put(slots_, mark, SlotOf(slots_, mark));
  ++used_;
  return {};
}

void StartLedger::Clear(std::span<const model::AttemptKey> keys) {
  const std::scoped_lock lock(mutex_);
  for (const model::AttemptKey& key : keys) {
    const std::size_t slot = SlotOf(slots_, {key.run.value, key.epoch.value});
    if (slots_[slot].epoch.load(std::memory_order_relaxed) != 0) Remove(slot);
  }
}

bool StartLedger::WasStarted(const model::AttemptKey& key) const {
  const std::scoped_lock lock(mutex_);
  const Mark mark{key.run.value, key.epoch.value};
  return key.run < known_from_ ||
         slots_[SlotOf(slots_, mark)].epoch.load(std::memory_order_relaxed) != 0;
}

}  // namespace headworks::executor
