#pragma once

#include <grpcpp/grpcpp.h>

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "headworks/base/ids.h"
#include "headworks/base/result.h"

namespace headworks::rpc {

inline constexpr const char* kShuttingDown = "the engine is shutting down";

class Calls;

/// One call under way.  Answered once: by the service, by the caller's giving up, or by shutdown.
class Call final : public grpc::ServerUnaryReactor {
 public:
  Call(Calls& calls, TenantId tenant) : calls_(calls), tenant_(std::move(tenant)) {}

  /// False: that is too late; `fill` was not called.
  template <typename Fill>
  bool Answer(const grpc::Status& status, const Fill& fill) {
    {
      const std::scoped_lock lock(mutex_);
      if (std::exchange(answered_, true)) return false;
      fill();
      when_gone_ = nullptr;
    }
    Finish(status);
    return true;
  }
  bool Answer(const grpc::Status& status) {
    return Answer(status, [] {});
  }

  /// Until what is answered is sent; before anything is.
  void Hold(std::shared_ptr<const void> room);
  /// Called once, and soon, where the caller gives up before there is an answer.
  void WhenGone(std::function<void()> told);

  void OnCancel() override;
  void OnDone() override;

 private:
  friend class Calls;

  Calls& calls_;
  const TenantId tenant_;
  std::mutex mutex_;
  // Guarded by mutex_.
  bool answered_ = false;
  bool gone_ = false;
  std::function<void()> when_gone_;
  std::shared_ptr<const void> room_;
};

/// A bound on what is under way, of which each tenant leaves a quarter to others, rounded down
/// (I11, I12).
class Shares {
 public:
  explicit Shares(std::size_t most) : most_(most) {}

  bool Take(const TenantId& tenant, std::size_t amount) {
    if (amount == 0) return true;
    const auto own = tenants_.find(tenant);
    const std::size_t has = own == tenants_.end() ? 0 : own->second;
    if (amount > most_ - taken_ || has + amount > most_ - most_ / 4) return false;
    taken_ += amount;
    tenants_[tenant] += amount;
    return true;
  }
  void GiveBack(const TenantId& tenant, std::size_t amount) {
    if (amount == 0) return;
    taken_ -= amount;
    const auto own = tenants_.find(tenant);
    own->second -= amount;
    if (own->second == 0) tenants_.erase(own);
  }

 private:
  const std::size_t most_;
  std::size_t taken_ = 0;
  std::map<TenantId, std::size_t> tenants_;
};

/// All calls under way; what the service holds of one outlives it.
class Calls {
 public:
  explicit Calls(std::size_t most) : shares_(most) {}

  /// Null: there is no room for it, or, if `closed`, never again.
  std::shared_ptr<Call> Begin(const TenantId& tenant);
  void End(Call* call);
  void Close();
  bool closed() const;

 private:
  mutable std::mutex mutex_;
  // Guarded by mutex_.
  bool closed_ = false;
  Shares shares_;
  std::map<Call*, std::shared_ptr<Call>> calls_;
};

/// Bytes that were asked for and are not sent yet.
class Pieces : public std::enable_shared_from_this<Pieces> {
 public:
  explicit Pieces(std::size_t most) : shares_(most) {}

  /// Room for so many, given back by its end; null: there is none now.
  std::shared_ptr<const void> Take(const TenantId& tenant, std::size_t bytes);

 private:
  struct Room;

  std::mutex mutex_;
  Shares shares_;  // guarded by mutex_
};

}  // namespace headworks::rpc
