// Turns a GraphSpec into calls of a QNN backend.
// Invariant: tensors and operators are created in the order of the spec, so the same spec gives the same artifact.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "qnn/abi.h"
#include "qnn/graph_spec.h"
#include "qnn/steps.h"
#include "qnn/tensor_abi.h"

namespace htpipe::qnn {

/// An input or output of a graph that can be executed: its type, and the number under which the backend knows it.
struct GraphPort {
  TensorSpec spec;  ///< without data
  std::uint32_t id = 0;
};

/// An executable graph.
struct GraphHandle {
  abi::Handle graph = nullptr;
  std::vector<GraphPort> inputs;
  std::vector<GraphPort> outputs;
  /// To be kept until the graph is finalized: the vendor's library does not copy scales per block.
  std::shared_ptr<std::deque<AbiTensor>> tensors;
};

struct ComposeOptions {
  bool expose_natives = false;  ///< intermediate tensors become outputs
  bool validate = true;         ///< ask the backend's validator about every operator before adding it
};

/// An operator description with the memory that its pointers refer to.
class AbiOp {
 public:
  /// `operands` finds the tensor of a name. `op` must outlive this.
  AbiOp(const OpSpec& op, const std::map<std::string, const AbiTensor*>& operands);
  AbiOp(const AbiOp&) = delete;
  AbiOp& operator=(const AbiOp&) = delete;

  /// The tensors of tensor parameters: to be created in the graph before the operator is added.
  [[nodiscard]] std::vector<abi::Tensor*> param_tensors();
  [[nodiscard]] const abi::OpConfig& config() const { return config_; }

 private:
  void add(const OpSpec& op, const ParamSpec& param);
  std::deque<TensorSpec> param_specs_;
  std::deque<AbiTensor> param_storage_;
  std::vector<abi::Param> params_;
  std::vector<abi::Tensor> inputs_;
  std::vector<abi::Tensor> outputs_;
  abi::OpConfig config_{};
};

/// Creates the graph `spec` in `context`: tensors, then for every operator validation and node. Does not finalize.
/// `spec` must have passed check() and must outlive the context. Errors: vendor-error at the node, with the vendor's
/// code, its name and the first line of the vendor's log.
Result<GraphHandle> compose(const abi::BackendTable& api, abi::Handle backend, abi::Handle context,
                            const GraphSpec& spec, const abi::Config** configs, const ComposeOptions& options,
                            Steps& steps);

/// Asks the validator about one operator; 0 = supported.
abi::ErrorCode validate_op(const abi::BackendTable& api, abi::Handle backend, const GraphSpec& spec, const OpSpec& op);

/// Ports of a graph as the vendor's readers describe them. Errors: unsupported-form.
Result<std::vector<GraphPort>> ports_from(const abi::Tensor* tensors, std::uint32_t count);

/// The error of a failed vendor call: "graphFinalize returned 1002 QNN_COMMON_ERROR_MEM_ALLOC: <first log line>".
[[nodiscard]] Error vendor_error(std::string_view call, abi::ErrorCode code);

}  // namespace htpipe::qnn
