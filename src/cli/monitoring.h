#pragma once

#include <memory>
#include <string>

#include "headworks/base/log.h"
#include "headworks/base/result.h"
#include "headworks/metrics_http/http_server.h"
#include "headworks/runner/runner.h"
#include "headworks/worker/worker.h"

namespace headworks::cli {

/// Serves `/metrics` (Prometheus text) and `/healthz` (200, or 503 while a service has trouble; one
/// line per service) of `runner`, which must outlive it and not shut down before, as must `logger`.
Result<std::unique_ptr<metrics_http::HttpServer>> ServeMonitoring(const std::string& address,
                                                                  Runner& runner, Logger& logger);
/// The same of a worker, whose health is whether its server answers.
Result<std::unique_ptr<metrics_http::HttpServer>> ServeMonitoring(const std::string& address,
                                                                  worker::Worker& worker,
                                                                  Logger& logger);

}  // namespace headworks::cli
