#include "calls.h"

namespace headworks::rpc {

void Call::Hold(std::shared_ptr<const void> room) {
  const std::scoped_lock lock(mutex_);
  if (!answered_) room_ = std::move(room);
}

void Call::WhenGone(std::function<void()> told) {
  {
    const std::scoped_lock lock(mutex_);
    if (!answered_) {
      when_gone_ = std::move(told);
      return;
    }
    if (!gone_) return;
  }
  told();
}

void Call::OnCancel() {
  std::function<void()> told;
  {
    const std::scoped_lock lock(mutex_);
    if (std::exchange(answered_, true)) return;
    gone_ = true;
    told = std::exchange(when_gone_, nullptr);
  }
  Finish({grpc::CANCELLED, "the caller did not wait"});
  if (told) told();
}

void Call::OnDone() {
  {
    const std::scoped_lock lock(mutex_);
    room_.reset();  // whatever the service holds of it
  }
  calls_.End(this);
}

std::shared_ptr<Call> Calls::Begin(const TenantId& tenant) {
  const std::scoped_lock lock(mutex_);
  if (closed_ || !shares_.Take(tenant, 1)) return nullptr;
  auto call = std::make_shared<Call>(*this, tenant);
  calls_.emplace(call.get(), call);
  return call;
}

void Calls::End(Call* call) {
  std::shared_ptr<Call> last;
  const std::scoped_lock lock(mutex_);
  const auto found = calls_.find(call);
  last = std::move(found->second);
  calls_.erase(found);
  shares_.GiveBack(last->tenant_, 1);
}

void Calls::Close() {
  std::map<Call*, std::shared_ptr<Call>> calls;
  {
    const std::scoped_lock lock(mutex_);
    closed_ = true;
    calls = calls_;
  }
  for (const auto& [key, call] : calls) call->Answer({grpc::UNAVAILABLE, kShuttingDown});
}

bool Calls::closed() const {
  const std::scoped_lock lock(mutex_);
  return closed_;
}

struct Pieces::Room {
  Room(std::shared_ptr<Pieces> from, TenantId whose, std::size_t most)
      : pieces(std::move(from)), tenant(std::move(whose)), bytes(most) {}
  ~Room() {
    const std::scoped_lock lock(pieces->mutex_);
    pieces->shares_.GiveBack(tenant, bytes);
  }
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;
  const std::shared_ptr<Pieces> pieces;
  const TenantId tenant;
  const std::size_t bytes;
};

std::shared_ptr<const void> Pieces::Take(const TenantId& tenant, std::size_t bytes) {
  {
    const std::scoped_lock lock(mutex_);
    if (!shares_.Take(tenant, bytes)) return nullptr;
  }
  return std::make_shared<Room>(shared_from_this(), tenant, bytes);
}

}  // namespace headworks::rpc
