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
#include "headworks/base/random.h"

namespace headworks::executor {
namespace {

constexpr std::uint64_t kMagic = 0x315245444c475748;  // "HWGLDER1" as stored
constexpr std::size_t kMinSlots = 64;

Error Failed(std::string_view what, const std::string& path, int error) {
  return {Code::kUnavailable, "start ledger " + path + ": cannot " + std::string(what) + ": " +
                                  std::system_category().message(error) +
                                  "; make room or give access, then start again"};
}

/// Closes on every way out.
class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() {
    if (fd_ >= 0) ::close(fd_);
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

}  // namespace

struct StartLedger::Header {
  std::uint64_t magic;
  std::uint64_t slots;
  char boot_id[40];
  std::uint64_t unknown;  // 1 until Reconcile has told what was unknown when the file was made
};

StartLedger::StartLedger(std::string path, std::string_view boot_id, std::size_t capacity)
    : path_(std::move(path)),
      boot_id_(boot_id.substr(0, sizeof(Header::boot_id) - 1)),
      capacity_(capacity) {}

StartLedger::~StartLedger() { table_.Unmap(); }

Result<std::unique_ptr<StartLedger>> StartLedger::Open(std::string path, std::string_view boot_id,
                                                       std::size_t capacity) {
  std::unique_ptr<StartLedger> ledger(new StartLedger(std::move(path), boot_id, capacity));
  const std::vector<Mark> marks = ledger->ReadMarks();
  HEADWORKS_TRY(ledger->Replace(marks));
  return ledger;
}

/// What the file at `path_` says; sets unknown_because_ if it says nothing that can be relied on.
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
  if (header.unknown != 0)
    unknown_because_ = "the incarnation before last left no ledger, and the last did not reconcile";
  std::erase_if(slots, [](const Mark& mark) { return mark.second == 0; });
  // A crash while a mark moved may have left it twice.
  std::ranges::sort(slots);
  slots.erase(std::ranges::unique(slots).begin(), slots.end());
  return slots;
}

/// Maps a new file with `marks` and puts it in the place of the old one.
Status StartLedger::Replace(std::span<const Mark> marks) {
  const std::size_t limit = marks.size() + capacity_;
  const std::size_t slots = std::bit_ceil(std::max(kMinSlots, 2 * limit));
  const std::size_t bytes = sizeof(Header) + slots * sizeof(Slot);
  const std::string fresh = path_ + ".new";
  const Fd file(::open(fresh.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (file.get() < 0) return Failed("create it", fresh, errno);
  // Allocated, not sparse: a full disk is an error here, not a SIGBUS at some later mark.
  if (const int error = ::posix_fallocate(file.get(), 0, static_cast<off_t>(bytes)); error != 0)
    return Failed("allocate it", fresh, error);
  void* memory =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file.get(), 0);
  if (memory == MAP_FAILED) return Failed("map it", fresh, errno);

  const Table old = std::exchange(table_, Table::At(memory, bytes, slots, limit));
  *table_.header = {kMagic, slots, {}, unknown_because_.empty() ? 0U : 1U};
  std::memcpy(table_.header->boot_id, boot_id_.data(), boot_id_.size());
  for (const Mark& mark : marks) Put(mark, SlotOf(mark));
  if (::rename(fresh.c_str(), path_.c_str()) != 0) {
    const int error = errno;
    std::exchange(table_, old).Unmap();
    return Failed("put it in place", path_, error);
  }
  old.Unmap();
  return {};
}

StartLedger::Table StartLedger::Table::At(void* memory, std::size_t bytes, std::size_t slots,
                                          std::size_t limit) {
  auto* first = reinterpret_cast<Slot*>(static_cast<std::byte*>(memory) + sizeof(Header));
  return {new (memory) Header{}, bytes, {first, slots}, 0, limit};
}

void StartLedger::Table::Unmap() const {
  if (header != nullptr) ::munmap(header, bytes);
}

Status StartLedger::Reconcile(std::span<const model::AttemptKey> live) {
  const std::scoped_lock lock(mutex_);
  std::vector<Mark> kept;
  for (const model::AttemptKey& key : live) {
    const Mark mark{key.run.value, key.epoch.value};
    if (!unknown_because_.empty() || table_.slots[SlotOf(mark)].epoch.load() != 0)
      kept.push_back(mark);
  }
  std::string because = std::exchange(unknown_because_, {});
  Status status = Replace(kept);
  if (!status) unknown_because_ = std::move(because);
  return status;
}

/// Where `mark` is, or the free slot where it would go.
std::size_t StartLedger::SlotOf(const Mark& mark) const {
  const std::size_t mask = table_.slots.size() - 1;
  std::size_t at = Mix64(static_cast<std::uint64_t>(mark.first) ^
                         Mix64(static_cast<std::uint64_t>(mark.second))) &
                   mask;
  while (true) {
    const std::int64_t epoch = table_.slots[at].epoch.load(std::memory_order_relaxed);
    if (epoch == 0 || (epoch == mark.second &&
                       table_.slots[at].run.load(std::memory_order_relaxed) == mark.first))
      return at;
    at = (at + 1) & mask;
  }
}

void StartLedger::Put(const Mark& mark, std::size_t slot) {
  table_.slots[slot].run.store(mark.first, std::memory_order_relaxed);
  table_.slots[slot].epoch.store(mark.second, std::memory_order_release);
  ++table_.used;
}

/// Frees `slot` and moves up what had been pushed behind it, so that probing never meets a gap.
/// A mark is written to its new place before it leaves the old one: no crash can lose it.
void StartLedger::Remove(std::size_t slot) {
  const std::size_t mask = table_.slots.size() - 1;
  table_.slots[slot].epoch.store(0, std::memory_order_release);
  --table_.used;
  for (std::size_t at = (slot + 1) & mask;; at = (at + 1) & mask) {
    const Mark mark{table_.slots[at].run.load(std::memory_order_relaxed),
                    table_.slots[at].epoch.load(std::memory_order_relaxed)};
    if (mark.second == 0) return;
    const std::size_t better = SlotOf(mark);
    if (better == at) continue;
    table_.slots[better].run.store(mark.first, std::memory_order_relaxed);
    table_.slots[better].epoch.store(mark.second, std::memory_order_release);
    table_.slots[at].epoch.store(0, std::memory_order_release);
  }
}

Status StartLedger::MarkStarted(const model::AttemptKey& key) {
  HEADWORKS_CHECK(key.epoch.value != 0);
  const Mark mark{key.run.value, key.epoch.value};
  const std::scoped_lock lock(mutex_);
  const std::size_t slot = SlotOf(mark);
  if (table_.slots[slot].epoch.load(std::memory_order_relaxed) != 0)
    return Error{Code::kConflict, "attempt " + std::to_string(mark.first) + "/" +
                                      std::to_string(mark.second) + " was started before"};
  if (table_.used >= table_.limit)
    return Error{Code::kAtCapacity, std::to_string(table_.used) + " attempts are marked in " +
                                        path_ + "; it was opened for " + std::to_string(capacity_)};
  Put(mark, slot);
  return {};
}

void StartLedger::Clear(std::span<const model::AttemptKey> keys) {
  const std::scoped_lock lock(mutex_);
  for (const model::AttemptKey& key : keys) {
    const std::size_t slot = SlotOf({key.run.value, key.epoch.value});
    if (table_.slots[slot].epoch.load(std::memory_order_relaxed) != 0) Remove(slot);
  }
}

bool StartLedger::WasStarted(const model::AttemptKey& key) const {
  const std::scoped_lock lock(mutex_);
  const Mark mark{key.run.value, key.epoch.value};
  return !unknown_because_.empty() || table_.slots[SlotOf(mark)].epoch.load() != 0;
}

}  // namespace headworks::executor
