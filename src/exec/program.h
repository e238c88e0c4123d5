// Execution of a graph: one plan, and for each node the kernel that its types ask for (float32, FP16 or integers).
// Invariant: a Program is const and thread-safe; all that changes lives in a Workspace, one per thread.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"
#include "ops/evaluate.h"

namespace htpipe {

/// Called with every value as soon as it is computed (and with the inputs). The tensor is a view, valid during the call.
using Trace = std::function<void(const Value& value, const Tensor& tensor)>;

class Program {
 public:
  /// Memory of one execution, which runs on `lanes` threads. Results do not depend on their number: give 1 where
  /// samples are shared out among threads, thread_count() where one sample has them all.
  class Workspace {
   public:
    explicit Workspace(const Program& program, int lanes = 1);

   private:
    friend class Program;
    CallMemory arena_;
    CallMemory scratch_;
  };

  /// Plans memory and prepares kernels. `htp_version` (68, 73, 75 …) selects whose integer arithmetic is followed; it
  /// means nothing for a float graph. The graph must outlive the program. Errors: no-fixed-rule and unsupported-form at
  /// the node.
  static Result<Program> make(const Graph& graph, int htp_version);

  /// Runs one set of inputs, in the order of graph.inputs(). Returns copies of the outputs, in the order of
  /// graph.outputs(). Errors: shape-mismatch, dtype-mismatch.
  Result<std::vector<Tensor>> run(Workspace& workspace, std::span<const Tensor> inputs, const Trace& trace = {}) const;

  [[nodiscard]] const Graph& graph() const { return *graph_; }
  /// Bytes of the arena that holds all activations.
  [[nodiscard]] std::size_t arena_bytes() const { return arena_bytes_; }
  /// Largest sum of activations alive at the same time in this order: the lower bound of the arena.
  [[nodiscard]] std::size_t live_bytes() const { return live_bytes_; }

 private:
  struct Step {
    const Node* node;
    Kernel kernel;
    std::vector<const void*> constants;    ///< per operand; null for activations and absent operands
    std::vector<std::ptrdiff_t> operands;  ///< arena offset per operand, -1 = constant or absent
    std::vector<std::ptrdiff_t> results;
  };
  [[nodiscard]] std::ptrdiff_t offset_of(const Value* value) const;

  const Graph* graph_ = nullptr;
  std::vector<Step> steps_;
  std::vector<std::pair<const Value*, std::size_t>> offsets_;  ///< sorted by value
  std::size_t arena_bytes_ = 0;
  std::size_t live_bytes_ = 0;
  std::size_t scratch_bytes_ = 0;
  std::size_t lane_scratch_bytes_ = 0;
};

/// Runs a graph once on float inputs; for tests and checks of passes.
Result<std::vector<Tensor>> run_once(const Graph& graph, std::span<const Tensor> inputs, int htp_version = 73,
                                     const Trace& trace = {});

}  // namespace htpipe
