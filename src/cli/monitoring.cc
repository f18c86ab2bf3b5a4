#include "monitoring.h"

#include <fmt/format.h>

namespace headworks::cli {
namespace {

using metrics_http::Response;

Response Health(const Runner& runner) {
  Response response;
  for (const ServiceHealth& service : runner.Health()) {
    if (!service.healthy) response.status = 503;
    // What an error says may name paths: that is not for whoever asks.
    response.body += service.healthy ? fmt::format("ok {}: {}\n", service.name, service.detail)
                                     : fmt::format("trouble {}: the log says why\n", service.name);
  }
  return response;
}

/// What is served; docs/workers.md lists them.
std::vector<metrics::Family> FamiliesOf(const worker::WorkerFigures& figures) {
  using metrics::Type;
  std::vector<metrics::Family> families;
  const auto add = [&](std::string_view name, Type type, std::string_view help,
                       std::uint64_t value) {
    families.push_back({name, type, help, {{{}, static_cast<double>(value), std::nullopt}}});
  };
  add("headworks_worker_connected", Type::kGauge, "1 while the server answers.",
      figures.connected ? 1 : 0);
  add("headworks_worker_slots", Type::kGauge, "Attempts that it runs at a time.", figures.slots);
  add("headworks_worker_running", Type::kGauge, "Attempts whose code runs.", figures.running);
  add("headworks_worker_unreported", Type::kGauge, "Attempts whose end is not answered yet.",
      figures.unreported);
  add("headworks_worker_started_total", Type::kCounter, "Attempts that were begun.",
      figures.started);
  add("headworks_worker_reported_total", Type::kCounter, "Attempts whose end was taken.",
      figures.reported);
  add("headworks_worker_stopped_for_lease_total", Type::kCounter,
      "Attempts that were stopped because the server did not answer for almost a lease.",
      figures.stopped_for_lease);
  add("headworks_worker_fenced_total", Type::kCounter,
      "Attempts that turned out to be somebody else's.", figures.fenced);
  return families;
}

}  // namespace

Result<std::unique_ptr<metrics_http::HttpServer>> ServeMonitoring(const std::string& address,
                                                                  worker::Worker& worker,
                                                                  Logger& logger) {
  const auto answer = [&worker](std::string_view path) -> Response {
    const worker::WorkerFigures figures = worker.Figures();
    if (path == "/metrics")
      return {.content_type = std::string(metrics::kPrometheusContentType),
              .body = metrics::PrometheusText(FamiliesOf(figures))};
    // Why names paths, as above.
    if (path == "/healthz" && figures.connected && !figures.no_room.empty())
      return {.status = 503, .body = "trouble tasks: cannot run here: the worker's log says why\n"};
    if (path == "/healthz" && figures.connected) return {.body = "ok server: answers\n"};
    if (path == "/healthz") return {.status = 503, .body = "trouble server: no good answer\n"};
    return {.status = 404, .body = "here are /metrics and /healthz\n"};
  };
  return metrics_http::HttpServer::Listen(address, {}, answer, logger);
}

Result<std::unique_ptr<metrics_http::HttpServer>> ServeMonitoring(const std::string& address,
                                                                  Runner& runner, Logger& logger) {
  const auto answer = [&runner](std::string_view path) -> Response {
    if (path == "/metrics")
      return {.content_type = std::string(metrics::kPrometheusContentType),
              .body = metrics::PrometheusText(runner.Metrics())};
    if (path == "/healthz") return Health(runner);
    return {.status = 404, .body = "here are /metrics and /healthz\n"};
  };
  return metrics_http::HttpServer::Listen(address, {}, answer, logger);
}

}  // namespace headworks::cli
