// The walk over an ONNX model: scopes, functions, branches.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "import/onnx/call.h"
#include "import/onnx/model.h"
#include "import/options.h"

namespace htpipe::onnx_import {

class Importer {
 public:
  Importer(const Model& model, const ImportOptions& options);
  Result<Imported> run();

  [[nodiscard]] const Model& model() const { return model_; }
  /// Imports a nested graph whose inputs have the values `inputs`. Names of outer scopes are visible.
  Result<Values> subgraph(const onnx::GraphProto& graph, const Values& inputs, const std::string& prefix);
  /// Names of graph inputs from which a value is computed.
  [[nodiscard]] std::vector<std::string> inputs_behind(const Value* value) const;
  /// Bits of a constant whose elements are narrower than their storage; 0 for all others.
  [[nodiscard]] int bits_of(const Value* value) const;
  void set_bits(const Value* value, int bits);
  /// The elements of a value that stands for a sequence; null for all others.
  [[nodiscard]] const Values* sequence_of(const Value* value) const;
  void set_sequence(const Value* value, Values elements) { sequences_[value] = std::move(elements); }

 private:
  using Opsets = std::map<std::string, std::int64_t, std::less<>>;
  struct Scope {
    std::map<std::string, Value*, std::less<>> values;
    bool isolated = false;  ///< a function body sees nothing outside
  };

  Status check_operators() const;
  Status add_inputs();
  Result<TensorType> input_type(const onnx::ValueInfoProto& info, std::vector<std::string>& open) const;
  Result<Value*> fixed_input(const onnx::ValueInfoProto& info, const Tensor& tensor);
  [[nodiscard]] Status check_names() const;
  Status add_initializers(const onnx::GraphProto& graph, const std::string& prefix);
  Status add_nodes(const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes, const std::string& prefix);
  Status add_node(const onnx::NodeProto& node, const std::string& prefix);
  Result<Values> call_function(const onnx::FunctionProto& function, const onnx::NodeProto& node, const Values& inputs,
                               const std::string& prefix);
  Status bind_outputs(const onnx::NodeProto& node, const Values& values, const std::string& prefix);
  Status set_outputs();
  void check_declared(const onnx::ValueInfoProto& info, const Value& value);
  [[nodiscard]] Value* find(std::string_view name) const;
  [[nodiscard]] const onnx::FunctionProto* find_function(std::string_view domain, std::string_view name) const;
  [[nodiscard]] std::int64_t opset_of(std::string_view domain) const;

  const Model& model_;
  const ImportOptions& options_;
  Graph graph_;
  std::vector<std::string> warnings_;
  std::vector<Scope> scopes_;
  std::vector<Opsets> opsets_;
  /// Inputs of a node as its mapper can take them.
  Status prepare_inputs(const onnx::NodeProto& node, Values& inputs, const std::string& prefix);

  std::unordered_map<const Value*, int> bits_;
  std::unordered_map<const Value*, Values> sequences_;
  std::unordered_map<const Value*, Value*> plain_;  ///< stored integers with an encoding, as plain ones
  int depth_ = 0;
};

}  // namespace htpipe::onnx_import
