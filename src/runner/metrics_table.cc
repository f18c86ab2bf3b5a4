// The one table of all metrics: what is served, and what docs/metrics.md is made from.

#include "metrics_table.h"

#include <fmt/format.h>

#include "headworks/alert/alert.h"
#include "headworks/model/attempt.h"
#include "headworks/model/run.h"
#include "headworks/runner/metrics.h"

namespace headworks {
namespace {

using metrics::Family;
using metrics::Type;

struct Row {
  std::string_view name;
  Type type;
  /// "name: values", or empty.
  std::string_view labels;
  std::string_view help;
  void (*collect)(const Figures& figures, Family& family);
};

void Add(Family& family, metrics::Labels labels, std::uint64_t value) {
  family.samples.push_back({std::move(labels), static_cast<double>(value), std::nullopt});
}

double Seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

/// A figure of the engine, where there is one.
template <auto Member>
void Engine(const Figures& figures, Family& family) {
  if (figures.engine) Add(family, {}, (*figures.engine).*Member);
}
template <auto Member>
void EngineHistogram(const Figures& figures, Family& family) {
  if (figures.engine) family.samples.push_back({{}, 0, (*figures.engine).*Member});
}
template <auto Member>
void Lanes(const Figures& figures, Family& family) {
  if (!figures.engine) return;
  for (const engine::LaneStats& lane : figures.engine->lanes)
    Add(family, {{"executor", lane.executor}}, lane.*Member);
}
template <auto Member>
void Pools(const Figures& figures, Family& family) {
  if (!figures.engine) return;
  for (const engine::PoolStats& pool : figures.engine->pools)
    Add(family, {{"tenant", pool.tenant}, {"pool", pool.pool}}, pool.*Member);
}
template <auto Member>
void Executors(const Figures& figures, Family& family) {
  for (const auto& [name, metrics] : figures.executors)
    Add(family, {{"executor", name}}, metrics.*Member);
}
template <auto Member>
void Dispatch(const Figures& figures, Family& family) {
  if (figures.engine) Add(family, {}, figures.dispatch.*Member);
}
void Offers(const Figures& figures, Family& family) {
  if (!figures.engine) return;
  auto answers = figures.dispatch.not_taken;
  constexpr auto kFirst = static_cast<std::size_t>(model::Disposition::kDispatched);
  answers[kFirst] = figures.dispatch.dispatched;
  for (std::size_t i = kFirst; i < answers.size(); ++i)
    Add(family,
        {{"disposition", std::string(model::DispositionName(static_cast<model::Disposition>(i)))}},
        answers[i]);
}
template <auto Member>
void Queues(const Figures& figures, Family& family) {
  for (const auto& queue : figures.queues)
    Add(family, {{"queue", queue.name}}, static_cast<std::uint64_t>(queue.*Member));
}
template <auto Member>
void Process(const Figures& figures, Family& family) {
  family.samples.push_back({{}, static_cast<double>(figures.process.*Member), std::nullopt});
}

/// One sample per enumerator from `First` on, out of an array that they index.
template <auto Member, auto First, auto Name>
void ByEnum(const Figures& figures, Family& family, std::string_view label) {
  if (!figures.engine) return;
  const auto& values = (*figures.engine).*Member;
  for (auto i = static_cast<std::size_t>(First); i < values.size(); ++i)
    Add(family, {{std::string(label), std::string(Name(static_cast<decltype(First)>(i)))}},
        static_cast<std::uint64_t>(values[i]));
}

/// A figure of the executor of workers, where there is one.
template <auto Member>
void Workers(const Figures& figures, Family& family) {
  if (figures.workers) Add(family, {}, (*figures.workers).*Member);
}

using S = engine::EngineStats;
using L = engine::LaneStats;
using O = engine::PoolStats;
using M = executor::Metrics;
using Q = executor_queue::QueueFigures;
using P = ProcessFigures;
using D = dispatch::DispatchMetrics::Figures;
using T = task_queue::QueueRecord;

constexpr Row kRows[] = {
    {"headworks_build_info", Type::kGauge, "version", "Always 1: which program this is.",
     [](const Figures&, Family& family) { Add(family, {{"version", HEADWORKS_VERSION}}, 1); }},
    {"headworks_engine_healthy", Type::kGauge, "",
     "1 while this process owns the store and can write to it, else 0.",
     [](const Figures& figures, Family& family) {
       if (figures.engine)
         Add(family, {}, !figures.engine->lost && figures.engine->trouble.empty() ? 1 : 0);
     }},

    {"headworks_runs_started_total", Type::kCounter, "", "Runs that were made.",
     Engine<&S::runs_started>},
    {"headworks_runs_finished_total", Type::kCounter, "outcome: succeeded, failed, cancelled",
     "Runs that ended; one that is run again ends again.",
     [](const Figures& figures, Family& family) {
       ByEnum<&S::runs_ended, model::RunState::kSucceeded, model::RunStateName>(figures, family,
                                                                                "outcome");
     }},
    {"headworks_runs_in_memory", Type::kGauge, "",
     "Runs with something to do now; the others wait in the store.", Engine<&S::runs_in_memory>},
    {"headworks_attempts_overdue", Type::kGauge, "executor_says: pending, unknown",
     "Attempts that have not started within their start_timeout, by what their executor says.",
     [](const Figures& figures, Family& family) {
       if (!figures.engine) return;
       Add(family, {{"executor_says", "pending"}}, figures.engine->attempts_pending);
       Add(family, {{"executor_says", "unknown"}}, figures.engine->attempts_unknown);
     }},
    {"headworks_words_refused_total", Type::kCounter, "",
     "Words of attempts elsewhere that were told to stop: another one holds the attempt, or it is "
     "over.",
     Engine<&S::fenced>},
    {"headworks_runs_stuck", Type::kGauge, "",
     "Runs set aside because their state cannot be read or written; see `headworks runs unstick`.",
     Engine<&S::runs_stuck>},
    {"headworks_runs_waiting", Type::kGauge, "limit: max_active_runs, concurrency, rate",
     "Pending runs that may not start yet, by the limit of their workflow that they wait for.",
     [](const Figures& figures, Family& family) {
       if (!figures.engine) return;
       Add(family, {{"limit", "max_active_runs"}}, figures.engine->runs_for_workflow);
       Add(family, {{"limit", "concurrency"}}, figures.engine->runs_for_key);
       Add(family, {{"limit", "rate"}}, figures.engine->runs_for_rate);
     }},
    {"headworks_timers", Type::kGauge, "", "Times that the engine waits for.", Engine<&S::timers>},

    {"headworks_tasks", Type::kGauge,
     "state: waiting, ready, queued, running, parked, succeeded, failed, skipped, "
     "upstream_failed, cancelled",
     "Tasks of the runs in memory.",
     [](const Figures& figures, Family& family) {
       ByEnum<&S::tasks, model::TaskState::kWaiting, model::TaskStateName>(figures, family,
                                                                           "state");
     }},
    {"headworks_tasks_finished_total", Type::kCounter,
     "state: succeeded, failed, skipped, upstream_failed, cancelled",
     "Tasks that ended: by how much each commit raised their number in a run, so a reset in the "
     "same commit cancels an end.",
     [](const Figures& figures, Family& family) {
       ByEnum<&S::tasks_ended, model::TaskState::kSucceeded, model::TaskStateName>(figures, family,
                                                                                   "state");
     }},
    {"headworks_tasks_ready", Type::kGauge, "executor",
     "Tasks that wait until their executor takes more.", Lanes<&L::ready>},
    {"headworks_tasks_waiting_for_permits", Type::kGauge, "",
     "Ready tasks that wait for permits of their pools.", Engine<&S::tasks_for_permits>},
    {"headworks_tasks_above_pool_limit", Type::kGauge, "",
     "Of these, tasks whose weight is above their pool's limit: none starts until it is raised.",
     Engine<&S::tasks_above_limit>},
    {"headworks_pool_limit", Type::kGauge, "tenant, pool",
     "Permits that a pool has in all, of those that tasks have asked for.", Pools<&O::limit>},
    {"headworks_pool_permits_held", Type::kGauge, "tenant, pool", "Of these, those that are held.",
     Pools<&O::held>},
    {"headworks_pool_tasks_waiting", Type::kGauge, "tenant, pool",
     "Ready tasks that wait for permits of the pool.", Pools<&O::waiting>},
    {"headworks_permits_held", Type::kGauge, "", "Permits of all pools that attempts hold.",
     Engine<&S::permits_held>},
    {"headworks_permits_astray_total", Type::kCounter, "",
     "Permits that an audit found stored with no holder or one that is over, or held but not "
     "stored: a bug, if not 0.",
     Engine<&S::permits_astray>},

    {"headworks_attempts_started_total", Type::kCounter, "", "Attempts that were handed out.",
     Engine<&S::attempts>},
    {"headworks_attempts_finished_total", Type::kCounter,
     "verdict: succeeded, retry, failed, skipped, snoozed, interrupted, cancelled, lost",
     "Attempts that ended. lost: provably over without a word of their own.",
     [](const Figures& figures, Family& family) {
       ByEnum<&S::attempts_ended, model::Verdict::kSucceeded, model::VerdictName>(figures, family,
                                                                                  "verdict");
     }},
    {"headworks_attempts_live", Type::kGauge, "executor", "Attempts that are not known to be over.",
     Lanes<&L::live>},
    {"headworks_attempts_superseded_total", Type::kCounter, "",
     "Verdicts and late answers to offers that were dropped: heard before, or of an attempt that "
     "no longer counts.",
     Engine<&S::superseded>},
    {"headworks_attempt_duration_seconds", Type::kHistogram, "executor",
     "From the start of an attempt to its end, by its executor's clock; lost ones have no such "
     "end.",
     [](const Figures& figures, Family& family) {
       if (!figures.engine) return;
       for (const L& lane : figures.engine->lanes)
         family.samples.push_back({{{"executor", lane.executor}}, 0, lane.attempt_duration});
     }},
    {"headworks_attempts_held_up_seconds", Type::kGauge, "executor",
     "How long the oldest attempt waits that its executor does not take, because it is full, says "
     "later or cannot answer; 0 if there is none.",
     [](const Figures& figures, Family& family) {
       if (!figures.engine) return;
       for (const L& lane : figures.engine->lanes)
         family.samples.push_back(
             {{{"executor", lane.executor}}, Seconds(lane.held_up), std::nullopt});
     }},
    {"headworks_offers_total", Type::kCounter,
     "disposition: dispatched, deferred, backpressure, transient, rejected, refused",
     "What executors answered when they were offered an attempt.", Offers},

    {"headworks_dispatch_buffer_depth", Type::kGauge, "",
     "Attempts that wait in the buffer before their executor.", Dispatch<&D::depth>},
    {"headworks_dispatch_at_capacity_total", Type::kCounter, "",
     "Attempts that were deferred because that buffer was full.", Dispatch<&D::at_capacity>},
    {"headworks_dispatch_answer_seconds_total", Type::kCounter, "",
     "How long executors took to answer offers, from the engine's dispatch, in sum.",
     [](const Figures& figures, Family& family) {
       if (figures.engine)
         family.samples.push_back({{}, Seconds(figures.dispatch.total_latency), std::nullopt});
     }},

    {"headworks_round_duration_seconds", Type::kHistogram, "",
     "Of a round of the engine: from gathering what happened to the last effect of its commit.",
     EngineHistogram<&S::round_duration>},
    {"headworks_round_rows", Type::kHistogram, "", "Rows that a round wrote.",
     EngineHistogram<&S::round_rows>},
    {"headworks_commit_duration_seconds", Type::kHistogram, "",
     "How long the store took to commit a round, or to refuse it.",
     EngineHistogram<&S::commit_duration>},
    {"headworks_commits_failed_total", Type::kCounter, "",
     "Commits that the store refused, or of which it is not known whether they happened.",
     Engine<&S::commits_failed>},
    {"headworks_inbox_messages_total", Type::kCounter, "",
     "Starts and commands of other processes that were answered.", Engine<&S::inbox_messages>},

    {"headworks_executor_attempts_active", Type::kGauge, "executor", "Attempts that run now.",
     Executors<&M::active>},
    {"headworks_executor_attempts_max", Type::kGauge, "executor",
     "How many attempts run at once at most.", Executors<&M::max>},
    {"headworks_executor_attempts_executed_total", Type::kCounter, "executor",
     "Attempts that the executor ended.", Executors<&M::executed>},
    {"headworks_executor_attempts_failed_total", Type::kCounter, "executor",
     "Those of them that failed.", Executors<&M::failed>},
    {"headworks_log_lines_dropped_total", Type::kCounter, "executor",
     "Lines of tasks' output that were given up because they could not be stored.",
     Executors<&M::lines_dropped>},

    {"headworks_workers", Type::kGauge, "", "Workers that are registered.", Workers<&Q::workers>},
    {"headworks_worker_attempts_waiting", Type::kGauge, "queue",
     "Attempts with the executor \"queue\" that no worker has begun.",
     [](const Figures& figures, Family& family) {
       if (!figures.workers) return;
       for (const auto& [queue, waiting] : figures.workers->waiting)
         Add(family, {{"queue", queue}}, waiting);
     }},
    {"headworks_worker_attempts_returned_total", Type::kCounter, "",
     "Attempts that a worker was given and did not begin: another gets them.",
     Workers<&Q::returned>},
    {"headworks_worker_attempts_lost_total", Type::kCounter, "",
     "Attempts that were lost because their worker was silent for its lease, or left.",
     Workers<&Q::lost>},
    {"headworks_worker_words_stale_total", Type::kCounter, "",
     "Words of workers about attempts that were another's or over: they were told to stop.",
     Workers<&Q::stale_words>},

    {"headworks_alerts_total", Type::kCounter, "about: dead_letter, task_failed, run_stuck",
     "Alerts that were written, where they are wanted.",
     [](const Figures& figures, Family& family) {
       if (!figures.alerts) return;
       Add(family, {{"about", std::string(alert::kDeadLetter)}}, figures.alerts->dead_letters);
       Add(family, {{"about", std::string(alert::kTaskFailed)}}, figures.engine->alerts_of_tasks);
       Add(family, {{"about", std::string(alert::kRunStuck)}}, figures.engine->alerts_of_runs);
     }},
    {"headworks_alert_commands_total", Type::kCounter, "outcome: succeeded, failed",
     "Alert commands that ended; one may tell of many alerts.",
     [](const Figures& figures, Family& family) {
       if (!figures.alerts) return;
       Add(family, {{"outcome", "succeeded"}}, figures.alerts->succeeded);
       Add(family, {{"outcome", "failed"}}, figures.alerts->failed);
     }},
    {"headworks_alerts_given_up_total", Type::kCounter, "",
     "Alerts for which the command failed each time.",
     [](const Figures& figures, Family& family) {
       if (figures.alerts) Add(family, {}, figures.alerts->given_up);
     }},

    {"headworks_store_size_bytes", Type::kGauge, "file: database, wal, logs",
     "Bytes of the store on disk.",
     [](const Figures& figures, Family& family) {
       for (const auto& [file, bytes] : figures.store_files) Add(family, {{"file", file}}, bytes);
     }},

    {"headworks_queue_items", Type::kGauge, "queue, state: pending, processing, dead",
     "Items of a durable queue of this tenant.",
     [](const Figures& figures, Family& family) {
       for (const T& queue : figures.queues)
         for (const auto& [state, items] : {std::pair("pending", queue.pending),
                                            {"processing", queue.processing},
                                            {"dead", queue.dead}})
           Add(family, {{"queue", queue.name}, {"state", state}},
               static_cast<std::uint64_t>(items));
     }},
    {"headworks_queue_oldest_seconds", Type::kGauge, "queue",
     "How long the first of the available items has been so; 0 where none is.",
     [](const Figures& figures, Family& family) {
       for (const T& queue : figures.queues)
         family.samples.push_back({{{"queue", queue.name}}, Seconds(queue.oldest_age), {}});
     }},
    {"headworks_queue_paused", Type::kGauge, "queue", "1 while nothing is given out, else 0.",
     Queues<&T::paused>},
    {"headworks_queue_enqueued_total", Type::kCounter, "queue",
     "Items that came in, since the queue was made.", Queues<&T::enqueued>},
    {"headworks_queue_completed_total", Type::kCounter, "queue",
     "Items that were acknowledged, since the queue was made.", Queues<&T::completed>},
    {"headworks_queue_failed_total", Type::kCounter, "queue",
     "Deliveries that failed, since the queue was made: nacks, and leases that ended.",
     Queues<&T::failed>},
    {"headworks_queue_duplicates_total", Type::kCounter, "queue",
     "Items with an id that was known, since the queue was made.", Queues<&T::duplicates>},
    {"headworks_queue_differing_total", Type::kCounter, "queue",
     "Of these, items with another payload than the first, which were dropped.",
     Queues<&T::differing>},

    {"process_cpu_seconds_total", Type::kCounter, "", "Processor time of this process.",
     Process<&P::cpu_seconds>},
    {"process_start_time_seconds", Type::kGauge, "", "When it started, in seconds since 1970.",
     Process<&P::start_seconds>},
    {"process_resident_memory_bytes", Type::kGauge, "", "Its memory that is in use.",
     Process<&P::resident_bytes>},
    {"process_virtual_memory_bytes", Type::kGauge, "", "Its memory that is reserved.",
     Process<&P::virtual_bytes>},
    {"process_open_fds", Type::kGauge, "", "Files that it has open.", Process<&P::open_files>},
    {"process_max_fds", Type::kGauge, "", "Files that it may have open.", Process<&P::max_files>},
    {"process_threads", Type::kGauge, "", "Its threads.", Process<&P::threads>},
};

}  // namespace

std::vector<Family> MakeFamilies(const Figures& figures) {
  std::vector<Family> families;
  for (const Row& row : kRows) {
    Family family{.name = row.name, .type = row.type, .help = row.help, .samples = {}};
    row.collect(figures, family);
    families.push_back(std::move(family));
  }
  return families;
}

std::string MetricsPage() {
  std::string page =
      "# Metrics\n\n"
      "`headworks up --metrics-listen 127.0.0.1:9464` serves these to Prometheus at `/metrics`, "
      "and\n"
      "at `/healthz` whether the engine works ([Monitoring](monitoring.md)). C++ programs get "
      "them\n"
      "from `Runner::Metrics`. Counters count from the start of the process; values of\n"
      "labels that are listed here are there from the start, at 0, others once there is such a "
      "thing. This\n"
      "page is made from the table in `src/runner`.\n\n"
      "| metric | type | labels | meaning |\n"
      "| --- | --- | --- | --- |\n";
  for (const Row& row : kRows) {
    std::string labels(row.labels);
    if (!labels.empty()) {
      const std::size_t colon = std::min(labels.find(':'), labels.size());
      std::string names = labels.substr(0, colon);
      if (const std::size_t comma = names.find(", "); comma != names.npos)
        names.replace(comma, 2, "`, `");
      labels = fmt::format("`{}`{}", names, labels.substr(colon));
    }
    page += fmt::format("| `{}` | {} | {} | {} |\n", row.name, metrics::TypeName(row.type), labels,
                        row.help);
  }
  return page;
}

}  // namespace headworks
