#include "pipeline/evaluate.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>

#include "accuracy/metrics.h"
#include "base/interrupt.h"
#include "base/parallel.h"
#include "base/progress.h"
#include "exec/program.h"

namespace htpipe {

Result<std::vector<std::int64_t>> predict(const Graph& graph, int htp_version, const SampleSource& samples,
                                          std::string_view what) {
  HTPIPE_TRY(const Program program, Program::make(graph, htp_version));
  std::vector<std::unique_ptr<Program::Workspace>> workspaces(static_cast<std::size_t>(thread_count()));
  std::vector<std::int64_t> classes(static_cast<std::size_t>(samples.count), -1);
  std::optional<Error> failure;
  std::int64_t failed_sample = samples.count;
  std::mutex mutex;
  const auto one = [&](std::int64_t index, int worker) -> Result<std::int64_t> {
    if (interrupted()) return fail(Code::kInterrupted, "during evaluation");
    auto& workspace = workspaces[static_cast<std::size_t>(worker)];
    if (!workspace) workspace = std::make_unique<Program::Workspace>(program);
    HTPIPE_TRY(const std::vector<Tensor> inputs, samples.get(index));
    HTPIPE_TRY(const std::vector<Tensor> outputs, program.run(*workspace, inputs));
    return accuracy::argmax(to_floats(outputs.front()));
  };
  Progress progress(what, samples.count);
  parallel_for(samples.count, [&](std::int64_t index, int worker) {
    auto result = one(index, worker);
    if (result) {
      classes[static_cast<std::size_t>(index)] = *result;
    } else {
      const std::lock_guard lock(mutex);
      if (index < failed_sample) {  // the first one, whatever the order of the threads
        failed_sample = index;
        failure = std::move(result.error());
      }
    }
    progress.step();
  });
  if (failure) return fail(std::move(*failure));
  return classes;
}

double share_equal(std::span<const std::int64_t> predictions, std::span<const std::int64_t> labels) {
  const std::size_t count = std::min(predictions.size(), labels.size());
  if (count == 0) return 0;
  std::int64_t equal = 0;
  for (std::size_t i = 0; i < count; ++i) equal += predictions[i] == labels[i] ? 1 : 0;
  return static_cast<double>(equal) / static_cast<double>(count);
}

}  // namespace htpipe
