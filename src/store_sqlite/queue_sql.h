#pragma once

/// The statements that find items, here so that a test can ask SQLite how it runs them.
namespace headworks::store_sqlite::queue_sql {

#define HEADWORKS_ITEM_COLUMNS                                                           \
  "item_no, id, state, priority, attempts, max_attempts, redrives, cancel_requested, "   \
  "enqueued_at, available_at, claimed_at, ended_at, claim_no, lease_until, lease_boot, " \
  "payload_bytes, payload_digest, holder, reason "
#define HEADWORKS_OF_QUEUE "WHERE tenant_id = ?1 AND queue = ?2 "

/// Of the highest priority below ?3: the item that is available first.
inline constexpr char kLevel[] =
    "SELECT priority, available_at FROM queue_item " HEADWORKS_OF_QUEUE
    "AND state = 1 AND priority < ?3 ORDER BY priority DESC, available_at LIMIT 1";
/// Of one priority: what is available at ?4.
inline constexpr char kAvailable[] =
    "SELECT " HEADWORKS_ITEM_COLUMNS "FROM queue_item " HEADWORKS_OF_QUEUE
    "AND state = 1 AND priority = ?3 AND available_at <= ?4 "
    "ORDER BY available_at, item_no LIMIT ?5";

/// Leases of other boots than ?3 ...
inline constexpr char kLeasesOfBootsBefore[] =
    "SELECT " HEADWORKS_ITEM_COLUMNS "FROM queue_item " HEADWORKS_OF_QUEUE
    "AND state = 2 AND lease_boot < ?3 ORDER BY lease_boot, lease_until, item_no LIMIT ?4";
inline constexpr char kLeasesOfBootsAfter[] =
    "SELECT " HEADWORKS_ITEM_COLUMNS "FROM queue_item " HEADWORKS_OF_QUEUE
    "AND state = 2 AND lease_boot > ?3 ORDER BY lease_boot, lease_until, item_no LIMIT ?4";
/// ... and of this one, up to ?4.
inline constexpr char kLeasesUpTo[] =
    "SELECT " HEADWORKS_ITEM_COLUMNS "FROM queue_item " HEADWORKS_OF_QUEUE
    "AND state = 2 AND lease_boot = ?3 AND lease_until <= ?4 "
    "ORDER BY lease_until, item_no LIMIT ?5";
inline constexpr char kFirstLease[] =
    "SELECT lease_until FROM queue_item " HEADWORKS_OF_QUEUE
    "AND state = 2 AND lease_boot = ?3 ORDER BY lease_until LIMIT 1";

/// What is over in state ?3 since ?4 or longer.
inline constexpr char kOver[] =
    "SELECT item_no, state FROM queue_item " HEADWORKS_OF_QUEUE
    "AND state = ?3 AND ended_at <> 0 AND ended_at <= ?4 ORDER BY ended_at, item_no LIMIT ?5";

/// What is dead, behind ?3 and ?4.
inline constexpr char kDeadAfter[] =
    "SELECT " HEADWORKS_ITEM_COLUMNS
    "FROM queue_item INDEXED BY queue_item_over " HEADWORKS_OF_QUEUE
    "AND state = 4 AND ended_at <> 0 AND ended_at >= ?3 AND (ended_at > ?3 OR item_no > ?4) "
    "ORDER BY ended_at, item_no LIMIT ?5";

/// Whether something is over: in state 4 since ?3 or longer, in another since ?4.
#define HEADWORKS_IS_OVER(state, since)                                       \
  "EXISTS (SELECT 1 FROM queue_item " HEADWORKS_OF_QUEUE "AND state = " state \
  " AND ended_at <> 0 AND ended_at <= " since ")"
inline constexpr char kAnyOver[] = "SELECT " HEADWORKS_IS_OVER("4", "?3") " OR " HEADWORKS_IS_OVER(
    "3", "?4") " OR " HEADWORKS_IS_OVER("5", "?4") " OR " HEADWORKS_IS_OVER("6", "?4");

inline constexpr char kItem[] =
    "SELECT " HEADWORKS_ITEM_COLUMNS "FROM queue_item " HEADWORKS_OF_QUEUE "AND item_no = ?3";
inline constexpr char kItemById[] =
    "SELECT " HEADWORKS_ITEM_COLUMNS "FROM queue_item " HEADWORKS_OF_QUEUE "AND id = ?3";

// Behind ?3, of the states in the bits of ?4, whose reason contains ?5, and that are so since ?6.
#define HEADWORKS_THAT_FITS                                                    \
  "AND item_no > ?3 AND (?4 >> state) & 1 AND (?5 = '' OR instr(reason, ?5)) " \
  "AND CASE state WHEN 4 THEN ended_at ELSE enqueued_at END <= ?6 "            \
  "ORDER BY item_no LIMIT ?7"
inline constexpr char kList[] =
    "SELECT " HEADWORKS_ITEM_COLUMNS "FROM queue_item " HEADWORKS_OF_QUEUE HEADWORKS_THAT_FITS;
/// Of few among many (state ?8): sorted, but not looked for among all.
inline constexpr char kListDead[] = "SELECT " HEADWORKS_ITEM_COLUMNS
                                    "FROM queue_item INDEXED BY queue_item_over " HEADWORKS_OF_QUEUE
                                    "AND state = ?8 AND ended_at <> 0 " HEADWORKS_THAT_FITS;
inline constexpr char kListProcessing[] =
    "SELECT " HEADWORKS_ITEM_COLUMNS
    "FROM queue_item INDEXED BY queue_item_lease " HEADWORKS_OF_QUEUE
    "AND state = 2 AND state = ?8 " HEADWORKS_THAT_FITS;

inline constexpr char kInsert[] =
    "INSERT INTO queue_item (tenant_id, queue, item_no, id, state, priority, attempts, "
    "max_attempts, redrives, cancel_requested, enqueued_at, available_at, claimed_at, ended_at, "
    "claim_no, lease_until, lease_boot, payload_bytes, payload_digest, holder, reason) "
    "VALUES (?1, ?2, ?3, ?4, 1, ?5, 0, ?6, 0, 0, ?7, ?8, 0, 0, 0, 0, 0, ?9, ?10, '', '') "
    "ON CONFLICT DO NOTHING";
inline constexpr char kUpdate[] =
    "UPDATE queue_item SET state = ?4, attempts = ?5, redrives = ?6, cancel_requested = ?7, "
    "available_at = ?8, claimed_at = ?9, ended_at = ?10, claim_no = ?11, lease_until = ?12, "
    "lease_boot = ?13, holder = ?14, reason = ?15 " HEADWORKS_OF_QUEUE "AND item_no = ?3";
inline constexpr char kExtend[] =
    "UPDATE queue_item SET lease_until = ?4, lease_boot = ?5 " HEADWORKS_OF_QUEUE
    "AND item_no = ?3";
/// Any, in the order of arrival.
inline constexpr char kSome[] =
    "SELECT item_no, state FROM queue_item " HEADWORKS_OF_QUEUE "ORDER BY item_no LIMIT ?3";
inline constexpr char kDelete[] = "DELETE FROM queue_item " HEADWORKS_OF_QUEUE "AND item_no = ?3";
inline constexpr char kInsertPayload[] =
    "INSERT INTO queue_payload (tenant_id, queue, item_no, payload) VALUES (?1, ?2, ?3, ?4)";
inline constexpr char kPayload[] =
    "SELECT payload FROM queue_payload " HEADWORKS_OF_QUEUE "AND item_no = ?3";
inline constexpr char kDeletePayload[] =
    "DELETE FROM queue_payload " HEADWORKS_OF_QUEUE "AND item_no = ?3";

#define HEADWORKS_QUEUE_COLUMNS                                                               \
  "name, paused, visibility, max_attempts, backoff, max_backoff, rate_count, rate_per, "      \
  "max_depth, dedup_window, dead_retention, pending, processing, dead, enqueued, completed, " \
  "failed, duplicates, differing, window_start, enqueued_now, completed_now, failed_now, "    \
  "enqueued_before, completed_before, failed_before, tokens, refilled_at, refill_boot "
inline constexpr char kQueue[] =
    "SELECT " HEADWORKS_QUEUE_COLUMNS "FROM queue WHERE tenant_id = ?1 AND name = ?2";
inline constexpr char kQueues[] =
    "SELECT " HEADWORKS_QUEUE_COLUMNS "FROM queue WHERE tenant_id = ?1 ORDER BY name";
inline constexpr char kAllQueues[] =
    "SELECT tenant_id, " HEADWORKS_QUEUE_COLUMNS "FROM queue ORDER BY tenant_id, name";
inline constexpr char kDeleteQueue[] = "DELETE FROM queue WHERE tenant_id = ?1 AND name = ?2";
inline constexpr char kPutQueue[] =
    "INSERT OR REPLACE INTO queue (tenant_id, " HEADWORKS_QUEUE_COLUMNS
    ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, "
    "?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30)";

}  // namespace headworks::store_sqlite::queue_sql
