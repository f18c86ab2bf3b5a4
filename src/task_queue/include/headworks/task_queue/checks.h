#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "headworks/task_queue/task_queue.h"

/// What every adapter checks before it looks at a stored row, so that all refuse alike, and errors
/// in one wording.  All checks are kInvalidArgument.
namespace headworks::task_queue {

/// Tenant and name of a queue.
Status CheckQueue(const TenantId& tenant, std::string_view queue);
/// With all payloads, which are parsed here: the border.
Status CheckEnqueue(const TenantId& tenant, std::string_view queue, std::span<const NewItem> items);
Status CheckPoll(const PollRequest& request);
/// Whether a queue that answered so is worth asking again: its store was not reached, or its disk
/// is full.
bool Passes(const Error& error);

Status CheckSettle(const TenantId& tenant, std::string_view queue,
                   std::span<const Settlement> settlements);
Status CheckExtend(const TenantId& tenant, std::string_view queue, std::span<const Claim> claims,
                   Duration visibility);
Status CheckId(const TenantId& tenant, std::string_view queue, std::string_view id);
/// `allowed` = the states that the call is for.
Status CheckFilter(const TenantId& tenant, std::string_view queue, const ItemFilter& filter,
                   std::span<const ItemState> allowed);
/// A limit of rows, of Sweep or ListDead.
Status CheckSweep(std::size_t limit);

/// `settings` with `change`; kInvalidArgument names what is out of bounds.
Result<QueueSettings> Changed(QueueSettings settings, const SettingsChange& change);

bool Fits(const ItemRecord& item, const ItemFilter& filter, std::span<const ItemState> states,
          Instant now);

/// To compare payloads by once they are gone.
std::int64_t Digest(std::string_view payload);
std::vector<std::int64_t> Digests(std::span<const NewItem> items);
/// Of a boot id.
std::int64_t BootNumber(std::string_view boot_id);

Error NoSuchQueue(std::string_view queue);
Error NoSuchItem(std::string_view queue, std::string_view id);
Error NoSuchClaim(std::string_view queue, Claim claim);
Error QueueIsInUse(const QueueRecord& queue);
Error QueueIsFull(std::string_view queue, std::int64_t max_depth);
Error TooManyQueues();

}  // namespace headworks::task_queue
