// `job_program DATABASE`: begins one item of queue "q", says "begun ATTEMPT" and goes on until it
// is killed.
#include <unistd.h>

#include <iostream>

#include "headworks/job_worker/job_worker.h"
#include "headworks/store_sqlite/sqlite_store.h"

int main(int argc, char** argv) {
  using namespace std::chrono_literals;
  if (argc != 2) return 2;
  headworks::SystemClock clock;
  headworks::StderrLogger log(headworks::StderrLogger::Format::kText,
                              headworks::LogLevel::kWarning);
  auto db = headworks::store_sqlite::Open(argv[1], {.clock = &clock});
  if (!db) return 1;
  auto worker = headworks::JobWorker::Open({.tenant = headworks::TenantId("acme"), .name = "first"},
                                           {.queues = (*db)->queues(), .clock = clock, .log = log});
  if (!worker) return 1;
  const auto handled = (*worker)->Handle<headworks::Json>(
      "q",
      [](const headworks::Json&, headworks::JobContext& context) {
        std::cout << "begun " << context.attempt() << std::endl;
        for (;;) ::pause();
      },
      {.slots = 1, .lease = 3s});
  return handled && (*worker)->Run() ? 0 : 1;
}
