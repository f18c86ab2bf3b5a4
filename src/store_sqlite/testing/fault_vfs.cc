#include "headworks/store_sqlite_testing/fault_vfs.h"

#include <sqlite3.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <optional>
#include <vector>

#include "headworks/base/check.h"

namespace headworks::store_sqlite {
namespace {

constexpr std::size_t kSector = 512;

/// A change that is not synced yet; `size` set = truncation.
struct Change {
  std::size_t offset = 0;
  std::string bytes;
  std::optional<std::size_t> size;
};

void Apply(std::string& data, const Change& change, std::size_t length) {
  if (change.size) {
    data.resize(*change.size, '\0');
    return;
  }
  if (length == 0) return;
  if (data.size() < change.offset + length) data.resize(change.offset + length, '\0');
  data.replace(change.offset, length, change.bytes, 0, length);
}

struct FileState {
  std::string data;
  std::string synced;
  std::vector<Change> unsynced;

  // Locks of a rollback-mode connection.
  int shared = 0;
  const void* reserved = nullptr;
  const void* pending = nullptr;
  const void* exclusive = nullptr;

  // Shared memory of the write-ahead log.
  std::vector<std::unique_ptr<std::string>> regions;
  std::array<int, SQLITE_SHM_NLOCK> shm_shared{};
  std::array<const void*, SQLITE_SHM_NLOCK> shm_exclusive{};
  int shm_users = 0;
};

struct Rule {
  FaultVfs::Operation operation;
  FaultVfs::Fault fault;
  std::int64_t skip;
  std::int64_t times;
};

}  // namespace

struct FaultVfs::Disk {
  struct File {
    sqlite3_file base;
    Disk* disk;
    std::shared_ptr<FileState> state;
    std::string delete_name;  // set = goes away when it is closed
    int lock;
    std::array<bool, SQLITE_SHM_NLOCK> shm_shared;
    bool uses_shm;
  };

  sqlite3_vfs vfs{};
  std::string name;
  mutable std::mutex mutex;
  std::map<std::string, std::shared_ptr<FileState>, std::less<>> files;
  std::vector<Rule> rules;
  std::int64_t limit_bytes = -1;
  std::int64_t operations = 0;
  std::int64_t stop_at = -1;
  std::int64_t temporary_files = 0;
  int open_files = 0;
  int last_errno = 0;
  SeededRandom random{42};

  static Disk& Of(sqlite3_vfs* vfs) { return *static_cast<Disk*>(vfs->pAppData); }
  static File& Of(sqlite3_file* file) { return *reinterpret_cast<File*>(file); }

  bool stopped() const { return stop_at >= 0 && operations >= stop_at; }

  /// The fault that this operation meets, as a SQLite code.  Caller holds the mutex.
  int Meet(Operation operation, int io_error) {
    last_errno = 0;
    if (stopped()) return io_error;
    for (Rule& rule : rules) {
      if (rule.operation != operation || rule.times == 0) continue;
      if (rule.skip > 0) {
        --rule.skip;
        continue;
      }
      --rule.times;
      switch (rule.fault) {
        case Fault::kDiskFull:
          last_errno = ENOSPC;
          return SQLITE_FULL;
        case Fault::kCannotOpen:
          last_errno = EACCES;
          return SQLITE_CANTOPEN;
        case Fault::kIoError:
          last_errno = EIO;
          return io_error;
      }
    }
    if (operation == Operation::kWrite || operation == Operation::kSync) ++operations;
    return SQLITE_OK;
  }

  std::int64_t Bytes() const {
    std::int64_t sum = 0;
    for (const auto& [file_name, file] : files) sum += static_cast<std::int64_t>(file->data.size());
    return sum;
  }

  // ---- Files

  static int Close(sqlite3_file* file) {
    File& f = Of(file);
    Disk& disk = *f.disk;
    const std::lock_guard lock(disk.mutex);
    Unlock(f, SQLITE_LOCK_NONE);
    if (!f.delete_name.empty()) disk.files.erase(f.delete_name);
    --disk.open_files;
    f.~File();
    return SQLITE_OK;
  }

  static int Read(sqlite3_file* file, void* to, int size, sqlite3_int64 offset) {
    File& f = Of(file);
    const std::lock_guard lock(f.disk->mutex);
    if (const int rc = f.disk->Meet(Operation::kRead, SQLITE_IOERR_READ); rc != SQLITE_OK) {
      return rc;
    }
    const std::string& data = f.state->data;
    const auto from = std::min(static_cast<std::size_t>(offset), data.size());
    const auto count = std::min(static_cast<std::size_t>(size), data.size() - from);
    std::memcpy(to, data.data() + from, count);
    std::memset(static_cast<char*>(to) + count, 0, static_cast<std::size_t>(size) - count);
    return count == static_cast<std::size_t>(size) ? SQLITE_OK : SQLITE_IOERR_SHORT_READ;
  }

  int Record(FileState& state, Change change) {
    Apply(state.data, change, change.bytes.size());
    state.unsynced.push_back(std::move(change));
    return SQLITE_OK;
  }

  static int Write(sqlite3_file* file, const void* from, int size, sqlite3_int64 offset) {
    File& f = Of(file);
    Disk& disk = *f.disk;
    const std::lock_guard lock(disk.mutex);
    if (const int rc = disk.Meet(Operation::kWrite, SQLITE_IOERR_WRITE); rc != SQLITE_OK) return rc;
    const auto end = static_cast<std::int64_t>(offset) + size;
    const auto growth =
        std::max<std::int64_t>(0, end - static_cast<std::int64_t>(f.state->data.size()));
    if (disk.limit_bytes >= 0 && growth > 0 && disk.Bytes() + growth > disk.limit_bytes) {
      disk.last_errno = ENOSPC;
      return SQLITE_FULL;
    }
    return disk.Record(*f.state,
                       {static_cast<std::size_t>(offset),
                        std::string(static_cast<const char*>(from), static_cast<std::size_t>(size)),
                        {}});
  }

  static int Truncate(sqlite3_file* file, sqlite3_int64 size) {
    File& f = Of(file);
    const std::lock_guard lock(f.disk->mutex);
    if (const int rc = f.disk->Meet(Operation::kWrite, SQLITE_IOERR_TRUNCATE); rc != SQLITE_OK) {
      return rc;
    }
    return f.disk->Record(*f.state, {0, {}, static_cast<std::size_t>(size)});
  }

  static int Sync(sqlite3_file* file, int) {
    File& f = Of(file);
    const std::lock_guard lock(f.disk->mutex);
    if (const int rc = f.disk->Meet(Operation::kSync, SQLITE_IOERR_FSYNC); rc != SQLITE_OK) {
      return rc;
    }
    f.state->synced = f.state->data;
    f.state->unsynced.clear();
    return SQLITE_OK;
  }

  static int FileSizeOf(sqlite3_file* file, sqlite3_int64* size) {
    File& f = Of(file);
    const std::lock_guard lock(f.disk->mutex);
    *size = static_cast<sqlite3_int64>(f.state->data.size());
    return SQLITE_OK;
  }

  // ---- Locks: the rules of SQLite's os.h, between the connections of one process.

  static int Lock(sqlite3_file* file, int wanted) {
    File& f = Of(file);
    const std::lock_guard lock(f.disk->mutex);
    FileState& s = *f.state;
    const auto other = [&](const void* holder) { return holder != nullptr && holder != &f; };
    if (wanted <= f.lock) return SQLITE_OK;
    if (wanted == SQLITE_LOCK_SHARED) {
      if (other(s.pending) || other(s.exclusive)) return SQLITE_BUSY;
      ++s.shared;
    } else if (wanted == SQLITE_LOCK_RESERVED) {
      if (other(s.reserved) || other(s.pending) || other(s.exclusive)) return SQLITE_BUSY;
      s.reserved = &f;
    } else {
      if (other(s.reserved) || other(s.pending) || other(s.exclusive)) return SQLITE_BUSY;
      s.pending = &f;
      if (s.shared > 1) {
        f.lock = SQLITE_LOCK_PENDING;
        return SQLITE_BUSY;
      }
      s.exclusive = &f;
    }
    f.lock = wanted;
    return SQLITE_OK;
  }

  static void Unlock(File& f, int down_to) {
    FileState& s = *f.state;
    if (down_to < SQLITE_LOCK_RESERVED) {
      for (const void** holder : {&s.reserved, &s.pending, &s.exclusive}) {
        if (*holder == &f) *holder = nullptr;
      }
    }
    if (down_to == SQLITE_LOCK_NONE && f.lock >= SQLITE_LOCK_SHARED) --s.shared;
    f.lock = std::min(f.lock, down_to);
  }

  static int UnlockFile(sqlite3_file* file, int down_to) {
    File& f = Of(file);
    const std::lock_guard lock(f.disk->mutex);
    Unlock(f, down_to);
    return SQLITE_OK;
  }

  static int CheckReserved(sqlite3_file* file, int* reserved) {
    File& f = Of(file);
    const std::lock_guard lock(f.disk->mutex);
    *reserved = f.state->reserved != nullptr || f.state->pending != nullptr ||
                f.state->exclusive != nullptr;
    return SQLITE_OK;
  }

  static int FileControl(sqlite3_file*, int, void*) { return SQLITE_NOTFOUND; }
  static int SectorSize(sqlite3_file*) { return kSector; }
  static int Characteristics(sqlite3_file*) { return SQLITE_IOCAP_POWERSAFE_OVERWRITE; }

  // ---- Shared memory

  static int ShmMap(sqlite3_file* file, int region, int size, int extend, void volatile** to) {
    File& f = Of(file);
    const std::lock_guard lock(f.disk->mutex);
    auto& regions = f.state->regions;
    if (!f.uses_shm) {
      f.uses_shm = true;
      ++f.state->shm_users;
    }
    *to = nullptr;
    const auto index = static_cast<std::size_t>(region);
    if (index >= regions.size() && extend == 0) return SQLITE_OK;
    while (regions.size() <= index) {
      regions.push_back(std::make_unique<std::string>(static_cast<std::size_t>(size), '\0'));
    }
    *to = regions[index]->data();
    return SQLITE_OK;
  }

  static int ShmLock(sqlite3_file* file, int offset, int n, int flags) {
    File& f = Of(file);
    const std::lock_guard lock(f.disk->mutex);
    FileState& s = *f.state;
    const bool unlock = (flags & SQLITE_SHM_UNLOCK) != 0;
    const bool exclusive = (flags & SQLITE_SHM_EXCLUSIVE) != 0;
    const auto first = static_cast<std::size_t>(offset);
    const std::size_t end = first + static_cast<std::size_t>(n);
    for (auto i = first; !unlock && i < end; ++i) {
      if (s.shm_exclusive[i] != nullptr && s.shm_exclusive[i] != &f) return SQLITE_BUSY;
      if (exclusive && s.shm_shared[i] > (f.shm_shared[i] ? 1 : 0)) return SQLITE_BUSY;
    }
    for (auto i = first; i < end; ++i) {
      if (exclusive) {
        s.shm_exclusive[i] = unlock ? nullptr : &f;
      } else if (f.shm_shared[i] == unlock) {
        s.shm_shared[i] += unlock ? -1 : 1;
        f.shm_shared[i] = !unlock;
      }
    }
    return SQLITE_OK;
  }

  static void ShmBarrier(sqlite3_file* file) { const std::lock_guard lock(Of(file).disk->mutex); }

  static int ShmUnmap(sqlite3_file* file, int) {
    File& f = Of(file);
    const std::lock_guard lock(f.disk->mutex);
    FileState& s = *f.state;
    for (std::size_t i = 0; i < SQLITE_SHM_NLOCK; ++i) {
      if (f.shm_shared[i]) --s.shm_shared[i];
      if (s.shm_exclusive[i] == &f) s.shm_exclusive[i] = nullptr;
    }
    f.shm_shared.fill(false);
    if (f.uses_shm && --s.shm_users == 0) s.regions.clear();
    f.uses_shm = false;
    return SQLITE_OK;
  }

  // ---- The file system

  static int Open(sqlite3_vfs* vfs, const char* name, sqlite3_file* file, int flags, int* out) {
    static constexpr sqlite3_io_methods kMethods{2,
                                                 &Close,
                                                 &Read,
                                                 &Write,
                                                 &Truncate,
                                                 &Sync,
                                                 &FileSizeOf,
                                                 &Lock,
                                                 &UnlockFile,
                                                 &CheckReserved,
                                                 &FileControl,
                                                 &SectorSize,
                                                 &Characteristics,
                                                 &ShmMap,
                                                 &ShmLock,
                                                 &ShmBarrier,
                                                 &ShmUnmap,
                                                 nullptr,
                                                 nullptr};
    Disk& disk = Of(vfs);
    const std::lock_guard lock(disk.mutex);
    file->pMethods = nullptr;
    if (const int rc = disk.Meet(Operation::kOpen, SQLITE_CANTOPEN); rc != SQLITE_OK) return rc;
    const std::string path =
        name != nullptr ? name : "temporary " + std::to_string(++disk.temporary_files);
    auto it = disk.files.find(path);
    if (it == disk.files.end()) {
      if ((flags & SQLITE_OPEN_CREATE) == 0) return SQLITE_CANTOPEN;
      it = disk.files.emplace(path, std::make_shared<FileState>()).first;
    }
    const bool temporary = name == nullptr || (flags & SQLITE_OPEN_DELETEONCLOSE) != 0;
    new (file)
        File{{&kMethods}, &disk, it->second, temporary ? path : "", SQLITE_LOCK_NONE, {}, false};
    ++disk.open_files;
    if (out != nullptr) *out = flags;
    return SQLITE_OK;
  }

  static int Delete(sqlite3_vfs* vfs, const char* name, int) {
    Disk& disk = Of(vfs);
    const std::lock_guard lock(disk.mutex);
    if (const int rc = disk.Meet(Operation::kWrite, SQLITE_IOERR_DELETE); rc != SQLITE_OK) {
      return rc;
    }
    return disk.files.erase(name) == 0 ? SQLITE_IOERR_DELETE_NOENT : SQLITE_OK;
  }

  static int Access(sqlite3_vfs* vfs, const char* name, int, int* there) {
    Disk& disk = Of(vfs);
    const std::lock_guard lock(disk.mutex);
    *there = disk.files.contains(std::string_view(name)) ? 1 : 0;
    return SQLITE_OK;
  }

  static int FullPathname(sqlite3_vfs*, const char* name, int size, char* to) {
    sqlite3_snprintf(size, to, "%s", name);
    return SQLITE_OK;
  }
  static int Randomness(sqlite3_vfs* vfs, int size, char* to) {
    Disk& disk = Of(vfs);
    const std::lock_guard lock(disk.mutex);
    for (int i = 0; i < size; ++i) to[i] = static_cast<char>(disk.random.Next());
    return size;
  }
  static int Sleep(sqlite3_vfs*, int micros) { return micros; }
  static int CurrentTime(sqlite3_vfs*, double* day) {
    *day = 2'461'000.5;
    return SQLITE_OK;
  }
  static int CurrentTimeInt64(sqlite3_vfs*, sqlite3_int64* millis) {
    *millis = 212'630'443'200'000;
    return SQLITE_OK;
  }
  static int LastError(sqlite3_vfs* vfs, int, char*) {
    Disk& disk = Of(vfs);
    const std::lock_guard lock(disk.mutex);
    return disk.last_errno;
  }
};

FaultVfs::FaultVfs() : disk_(std::make_unique<Disk>()) {
  static std::atomic<std::int64_t> count{0};
  disk_->name = "headworks-fault-" + std::to_string(++count);
  sqlite3_vfs& v = disk_->vfs;
  v.iVersion = 2;
  v.szOsFile = sizeof(Disk::File);
  v.mxPathname = 512;
  v.zName = disk_->name.c_str();
  v.pAppData = disk_.get();
  v.xOpen = &Disk::Open;
  v.xDelete = &Disk::Delete;
  v.xAccess = &Disk::Access;
  v.xFullPathname = &Disk::FullPathname;
  v.xRandomness = &Disk::Randomness;
  v.xSleep = &Disk::Sleep;
  v.xCurrentTime = &Disk::CurrentTime;
  v.xGetLastError = &Disk::LastError;
  v.xCurrentTimeInt64 = &Disk::CurrentTimeInt64;
  HEADWORKS_CHECK(sqlite3_vfs_register(&v, 0) == SQLITE_OK);
}

FaultVfs::~FaultVfs() {
  HEADWORKS_CHECK(disk_->open_files == 0);
  sqlite3_vfs_unregister(&disk_->vfs);
}

const std::string& FaultVfs::name() const { return disk_->name; }

void FaultVfs::Fail(Operation operation, Fault fault, std::int64_t skip, std::int64_t times) {
  const std::lock_guard lock(disk_->mutex);
  disk_->rules.push_back({operation, fault, skip, times});
}

void FaultVfs::LimitBytes(std::int64_t bytes) {
  const std::lock_guard lock(disk_->mutex);
  disk_->limit_bytes = bytes;
}

void FaultVfs::StopAfter(std::int64_t operations) {
  const std::lock_guard lock(disk_->mutex);
  disk_->stop_at = disk_->operations + operations;
}

bool FaultVfs::stopped() const {
  const std::lock_guard lock(disk_->mutex);
  return disk_->stopped();
}

void FaultVfs::Heal() {
  const std::lock_guard lock(disk_->mutex);
  disk_->rules.clear();
  disk_->limit_bytes = -1;
  disk_->stop_at = -1;
}

void FaultVfs::PowerCut(Random& random) {
  Heal();
  const std::lock_guard lock(disk_->mutex);
  HEADWORKS_CHECK(disk_->open_files == 0);
  enum class Cut : std::uint8_t { kKeepsAll, kLosesAll, kMixes };
  const Cut cut{static_cast<std::uint8_t>(random.Next() % 3)};
  for (auto& [name, file] : disk_->files) {
    std::string kept = file->synced;
    for (const Change& change : file->unsynced) {
      // Each write is lost, torn at a sector, or whole.
      const std::size_t sectors = (change.bytes.size() + kSector - 1) / kSector;
      const std::size_t torn =
          std::min(change.bytes.size(), random.Next() % (sectors + 1) * kSector);
      const bool happens = cut == Cut::kKeepsAll || (cut == Cut::kMixes && random.Next() % 3 != 0);
      if (happens) Apply(kept, change, cut == Cut::kMixes ? torn : change.bytes.size());
    }
    file->data = file->synced = std::move(kept);
    file->unsynced.clear();
  }
}

std::int64_t FaultVfs::operations() const {
  const std::lock_guard lock(disk_->mutex);
  return disk_->operations;
}

std::int64_t FaultVfs::bytes() const {
  const std::lock_guard lock(disk_->mutex);
  return disk_->Bytes();
}

std::int64_t FaultVfs::FileSize(std::string_view file) const {
  const std::lock_guard lock(disk_->mutex);
  const auto it = disk_->files.find(file);
  return it == disk_->files.end() ? -1 : static_cast<std::int64_t>(it->second->data.size());
}

void FaultVfs::Damage(std::string_view file, std::int64_t offset, std::int64_t size) {
  const std::lock_guard lock(disk_->mutex);
  const auto it = disk_->files.find(file);
  HEADWORKS_CHECK(it != disk_->files.end());
  std::string& data = it->second->data;
  HEADWORKS_CHECK(offset + size <= static_cast<std::int64_t>(data.size()));
  for (std::int64_t i = offset; i < offset + size; ++i) {
    data[static_cast<std::size_t>(i)] = static_cast<char>(~data[static_cast<std::size_t>(i)]);
  }
  it->second->synced = data;
}

}  // namespace headworks::store_sqlite
