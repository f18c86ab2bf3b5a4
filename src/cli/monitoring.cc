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

}  // namespace

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
