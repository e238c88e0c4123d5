// Runs vendor workers, one per job folder, and watches them.
// Invariant: when run_workers returns, the workers are dead and reaped.
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace htpipe::qnn {

struct WorkerWatch {
  double timeout_s = 600;           ///< longest time of one worker without a new step
  std::function<bool()> cancelled;  ///< polled; may be empty
  /// Called in the calling thread for every step of worker number `worker`; may be empty.
  std::function<void(std::size_t worker, const std::string& verb, const std::string& subject)> on_step;
};

struct WorkerJob {
  std::filesystem::path folder;
  Json request;
};

/// Starts one worker per job, each in its own process group, and waits for all. request.json gets the parent's process
/// id added. Returns the responses in the order of the jobs. The first error ends the other workers. Errors: the job's
/// own; vendor-crash naming the step and, when the step has one, the node; vendor-timeout likewise; interrupted;
/// file-missing when the worker cannot be started.
Result<std::vector<Json>> run_workers(const std::filesystem::path& worker, const std::vector<WorkerJob>& jobs,
                                      const WorkerWatch& watch);

/// One worker.
Result<Json> run_worker(const std::filesystem::path& worker, const std::filesystem::path& job_folder, Json request,
                        const WorkerWatch& watch);

}  // namespace htpipe::qnn
