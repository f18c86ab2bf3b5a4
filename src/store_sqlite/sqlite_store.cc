#include "headworks/store_sqlite/sqlite_store.h"

#include "core.h"
#include "inbox.h"
#include "limit_store.h"
#include "queues.h"
#include "run_query.h"
#include "run_store.h"
#include "worker_store.h"
#include "workflow_store.h"

namespace headworks::store_sqlite {
namespace {

class SqliteDatabase final : public Database {
 public:
  explicit SqliteDatabase(std::unique_ptr<Core> core)
      : core_(std::move(core)),
        runs_(*core_),
        inbox_(*core_),
        query_(*core_),
        workflows_(*core_),
        limits_(*core_),
        queues_(*core_),
        workers_(*core_) {}

  store::RunStore& runs() override { return runs_; }
  store::Inbox& inbox() override { return inbox_; }
  store::RunQuery& query() override { return query_; }
  store::WorkflowStore& workflows() override { return workflows_; }
  store::LimitStore& limits() override { return limits_; }
  task_queue::Queues& queues() override { return queues_; }
  store::WorkerStore& workers() override { return workers_; }

 private:
  const std::unique_ptr<Core> core_;
  SqliteRunStore runs_;
  SqliteInbox inbox_;
  SqliteRunQuery query_;
  SqliteWorkflowStore workflows_;
  SqliteLimitStore limits_;
  SqliteQueues queues_;
  SqliteWorkerStore workers_;
};

}  // namespace

Result<std::unique_ptr<Database>> Open(const std::string& path, const Options& options) {
  HEADWORKS_ASSIGN(auto core, Core::Open(path, options));
  return std::unique_ptr<Database>(std::make_unique<SqliteDatabase>(std::move(core)));
}

}  // namespace headworks::store_sqlite
