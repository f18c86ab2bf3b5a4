#include "rig.h"

namespace headworks {
namespace {

class Straight final : public Way {
 public:
  explicit Straight(const JobWorkerPorts& ports) : ports_(ports) {}
  Result<std::unique_ptr<JobWorker>> Open(JobWorkerOptions options) override {
    return JobWorker::Open(std::move(options), ports_);
  }

 private:
  const JobWorkerPorts ports_;
};

}  // namespace

std::unique_ptr<Way> MakeWay(task_queue::Queues& queues, Clock& clock, Logger& log,
                             const JobWorkerOptions& /*options*/) {
  return std::make_unique<Straight>(JobWorkerPorts{.queues = queues, .clock = clock, .log = log});
}

}  // namespace headworks
