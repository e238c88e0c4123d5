// Execution of a graph: one plan, and for each node the kernel that its types ask for (float32, FP16 or integers).
// Invariant: a Program is const and thread-safe; all that changes lives in a Workspace, one per thread.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "exec/memory_plan.h"
#include "exec/simulation.h"
#include "ir/graph.h"
#include "ops/evaluate.h"

namespace htpipe {

/// Called with every value as soon as it is computed (and with the inputs). The tensor is a view, valid during the call.
using Trace = std::function<void(const Value& value, const Tensor& tensor)>;

/// `trace` for some values only.
[[nodiscard]] Trace only(std::span<const Value* const> values, Trace trace);

struct ProgramOptions {
  /// 68, 73, 75 …: whose integer arithmetic is followed. It means nothing for a float graph.
  int htp_version = 0;
  /// Values (inputs, results, constants) by name, and how they would be stored: each float32 value is rounded to that as
  /// soon as it is there, constants once.
  std::map<std::string, StoredAs> simulated = {};
};

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

  /// Plans memory and prepares kernels. The graph must outlive the program. Errors: no-fixed-rule and unsupported-form
  /// at the node; for simulated values usage (no such value), unsupported-form (no float32).
  static Result<Program> make(const Graph& graph, const ProgramOptions& options);
  static Result<Program> make(const Graph& graph, int htp_version) { return make(graph, ProgramOptions{htp_version}); }

  /// What lies behind a cut: the program whose inputs are `given`, and which runs only the nodes that the outputs need
  /// beyond them. Kernels are shared with this program, so it costs a memory plan. Errors: usage at a value that is
  /// needed and neither given nor computed from what is.
  [[nodiscard]] Result<Program> starting_at(std::span<const Value* const> given) const;
  /// What to give so that a change of `changed` costs only what depends on it: those values, and all that its nodes
  /// take besides, and the outputs that do not depend on them.
  [[nodiscard]] std::vector<const Value*> cut_behind(std::span<const Value* const> changed) const;

  /// Runs one set of inputs, in the order of inputs(). Returns copies of the outputs, in the order of graph.outputs().
  /// Errors: shape-mismatch, dtype-mismatch.
  Result<std::vector<Tensor>> run(Workspace& workspace, std::span<const Tensor> inputs, const Trace& trace = {}) const;

  [[nodiscard]] const Graph& graph() const { return *graph_; }
  /// Those of the graph, or the values given to starting_at.
  [[nodiscard]] const std::vector<const Value*>& inputs() const { return inputs_; }
  /// Nodes in the order in which they run.
  [[nodiscard]] const std::vector<const Node*>& nodes() const { return plan_.order; }
  /// Bytes of the arena that holds all activations.
  [[nodiscard]] std::size_t arena_bytes() const { return plan_.arena_bytes; }
  /// Largest sum of activations alive at the same time in this order: the lower bound of the arena.
  [[nodiscard]] std::size_t live_bytes() const { return plan_.live_bytes; }
  /// Bytes of scratch of a workspace with `lanes` threads.
  [[nodiscard]] std::size_t scratch_bytes(int lanes) const {
    return scratch_bytes_ + static_cast<std::size_t>(lanes) * lane_scratch_bytes_;
  }

 private:
  struct Kernels;  ///< what programs behind cuts share
  struct Step {
    const Node* node;
    const Kernel* kernel;                  ///< null where the result lies where its operand does
    std::vector<const void*> constants;    ///< per operand; null for activations and absent operands
    std::vector<std::ptrdiff_t> operands;  ///< arena offset per operand, -1 = constant or absent
    std::vector<std::ptrdiff_t> results;
    std::vector<const Simulation*> simulations;  ///< per result; null = none
    std::vector<bool> given;                     ///< per result: computed beside another one, but not what is used
  };
  void plan(std::vector<const Node*> nodes, std::vector<const Value*> inputs);

  const Graph* graph_ = nullptr;
  std::shared_ptr<const Kernels> kernels_;
  std::vector<const Value*> inputs_;
  MemoryPlan plan_;
  std::vector<Step> steps_;
  std::size_t scratch_bytes_ = 0;
  std::size_t lane_scratch_bytes_ = 0;
};

/// Runs a graph once on float inputs; for tests and checks of passes.
Result<std::vector<Tensor>> run_once(const Graph& graph, std::span<const Tensor> inputs, int htp_version = 73,
                                     const Trace& trace = {});

}  // namespace htpipe
