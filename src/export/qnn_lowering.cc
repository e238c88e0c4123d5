#include "export/qnn_lowering.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <string>

namespace htpipe {
namespace {

qnn::ParamSpec list_param(std::string_view name, const std::vector<std::int64_t>& values, bool pairs) {
  std::vector<std::uint32_t> numbers;
  for (const std::int64_t value : values) numbers.push_back(static_cast<std::uint32_t>(value));
  const auto count = static_cast<std::int64_t>(numbers.size());
  const Shape shape = pairs ? Shape{count / 2, 2} : Shape{count};
  return {std::string(name), Tensor::from<std::uint32_t>({DType::kU32, shape, std::nullopt}, numbers)};
}

/// [rank, 3]: begin, end and step of each axis.
qnn::ParamSpec ranges_param(std::string_view name, const Attributes& attributes) {
  std::vector<std::int32_t> numbers;
  const auto rank = static_cast<std::int64_t>(attributes.integers("begin").size());
  for (std::size_t axis = 0; axis < static_cast<std::size_t>(rank); ++axis) {
    for (const char* part : {"begin", "end", "strides"}) {
      numbers.push_back(static_cast<std::int32_t>(attributes.integers(part)[axis]));
    }
  }
  return {std::string(name), Tensor::from<std::int32_t>({DType::kI32, {rank, 3}, std::nullopt}, numbers)};
}

Result<qnn::ParamSpec> lower_param(const ParamLowering& lowering, const Attributes& attributes) {
  const Attribute& value = *attributes.find(lowering.attribute);
  const std::string name(lowering.param);
  switch (lowering.kind) {
    case ParamKind::kBool:
      return qnn::ParamSpec{name, std::get<bool>(value)};
    case ParamKind::kU32:
      return qnn::ParamSpec{name, static_cast<std::uint32_t>(std::get<std::int64_t>(value))};
    case ParamKind::kI32:
      return qnn::ParamSpec{name, static_cast<std::int32_t>(std::get<std::int64_t>(value))};
    case ParamKind::kF32:
      return qnn::ParamSpec{name, std::get<float>(value)};
    case ParamKind::kU32List:
      return list_param(name, std::get<std::vector<std::int64_t>>(value), false);
    case ParamKind::kU32Pairs:
      return list_param(name, std::get<std::vector<std::int64_t>>(value), true);
    case ParamKind::kRanges:
      return ranges_param(name, attributes);
    case ParamKind::kEnum:
      break;
  }
  const std::string& spelling = std::get<std::string>(value);
  for (const auto& [text, number] : lowering.values) {
    if (text == spelling) return qnn::ParamSpec{name, number};
  }
  return fail(Code::kUnsupportedForm, fmt::format("{} \"{}\" has no QNN number", lowering.attribute, spelling));
}

Result<std::vector<qnn::ParamSpec>> lower_params(const OpDef& op, const Attributes& attributes) {
  std::vector<qnn::ParamSpec> params;
  for (const ParamLowering& lowering : op.lowering.params) {
    const Attribute& value = *attributes.find(lowering.attribute);
    if (lowering.omit_default && value == op.attribute(lowering.attribute)->default_value) continue;
    if (!lowering.operation.empty() && attributes.text("operation") != lowering.operation) continue;
    HTPIPE_TRY(qnn::ParamSpec param, lower_param(lowering, attributes));
    params.push_back(std::move(param));
  }
  return params;
}

class Lowerer {
 public:
  explicit Lowerer(const Graph& graph) : graph_(graph) { spec_.name = graph.name(); }

  Result<qnn::GraphSpec> run() {
    for (const Value* input : graph_.inputs()) add_tensor(*input);
    for (const auto& node : graph_.nodes()) {
      const Status status = add(*node);
      if (!status) return fail(Error(status.error()).at_node(node->name()));
    }
    return std::move(spec_);
  }

 private:
  void add_tensor(const Value& value) {
    if (!known_.insert(value.name).second) return;
    const auto& inputs = graph_.inputs();
    qnn::TensorRole role = qnn::TensorRole::kNative;
    if (value.is_constant()) {
      role = qnn::TensorRole::kStatic;
    } else if (std::find(inputs.begin(), inputs.end(), &value) != inputs.end()) {
      role = qnn::TensorRole::kInput;
    } else if (graph_.is_output(&value)) {
      role = qnn::TensorRole::kOutput;
    }
    // QNN has no rank 0.
    TensorType type = value.type;
    if (type.shape.empty()) type.shape = {1};
    spec_.tensors.push_back({value.name, role, type, value.is_constant() ? value.constant.with_type(type) : Tensor()});
  }

  Status add(const Node& node) {
    if (node.op->lowering.type.empty()) {
      return fail(Code::kUnsupportedForm, fmt::format("{} has no QNN operator", node.op->name));
    }
    if (node.op->layout == Layout::kSpatial && node.attributes.text("data_layout") != "nhwc") {
      return fail(Code::kUnsupportedForm, "QNN takes channel-last data only; run the pass to_channel_last");
    }
    if (node.op->lowering.check) HTPIPE_CHECK_OK(node.op->lowering.check(NodeTypes(node).view()));
    if (is_fused_by_chip(node)) return add_between_reshapes(node);
    qnn::OpSpec op{node.name(), std::string(node.op->lowering.type), {}, {}, {}};
    HTPIPE_TRY(op.params, lower_params(*node.op, node.attributes));
    for (const Value* operand : node.operands) {
      if (operand == nullptr) continue;
      add_tensor(*operand);
      op.inputs.push_back(operand->name);
    }
    const Value& result = *node.result();
    const Attribute* activation = node.attributes.find("activation");
    const std::string name = activation == nullptr ? "none" : std::get<std::string>(*activation);
    if (name == "none" || !is_float(result.type.dtype)) {
      for (const Value* value : node.results) {
        add_tensor(*value);
        op.outputs.push_back(value->name);
      }
      spec_.ops.push_back(std::move(op));
      return {};
    }
    return add_with_activation(std::move(op), result, name);
  }

  /// The chip computes a hard_swish (v73 and later), a relu and a clamp right behind a convolution from the convolution's
  /// sum, with other roundings than the two operators have, or leaves a clamp out. A Reshape between them keeps what was
  /// quantised and costs nothing. A relu that only repeats the clamp of the encoding changes nothing.
  static bool is_fused_by_chip(const Node& node) {
    if (!node.is("ElementWiseNeuron")) return false;
    const std::string& operation = node.attributes.text("operation");
    if (operation != "hard_swish" && operation != "relu" && operation != "relu_min_max") return false;
    const TensorType& data = node.operands[0]->type;
    const Node* producer = node.operands[0]->producer;
    if (!data.encoding || data.shape.size() != 4 || producer == nullptr) return false;
    const bool repeats = data.encoding == node.result()->type.encoding && data.encoding->per_tensor() &&
                         data.encoding->zero_point() == lowest(data.dtype);
    if (operation == "relu" && repeats) return false;
    return producer->is("Conv2d") || producer->is("DepthWiseConv2d");
  }

  Status add_between_reshapes(const Node& node) {
    const Value& data = *node.operands[0];
    const Value& result = *node.result();
    const Shape& shape = data.type.shape;
    const Shape flat = {1, 1, shape[0] * shape[1] * shape[2], shape[3]};
    const auto add_flat = [&](const Value& value) {
      TensorType type = value.type;
      type.shape = flat;
      const std::string name = value.name + "_flat_of_" + result.name;
      spec_.tensors.push_back({name, qnn::TensorRole::kNative, type, {}});
      return name;
    };
    const std::string reshape(find_op("Reshape")->lowering.type);
    const std::string before = add_flat(data);
    const std::string after = add_flat(result);
    add_tensor(data);
    add_tensor(result);
    qnn::OpSpec op{node.name(), std::string(node.op->lowering.type), {}, {before}, {after}};
    // A relu finds its way through a Reshape, a clamp without an upper bound does not.
    Attributes attributes = node.attributes;
    if (attributes.text("operation") == "relu") {
      attributes.set("operation", std::string("relu_min_max"));
      attributes.set("min_value", 0.0F);
      attributes.set("max_value", kNoUpperBound);
    }
    HTPIPE_TRY(op.params, lower_params(*node.op, attributes));
    spec_.ops.push_back({before, reshape, {}, {data.name}, {before}});
    spec_.ops.push_back(std::move(op));
    spec_.ops.push_back({after, reshape, {}, {after}, {result.name}});
    return {};
  }

  Status add_with_activation(qnn::OpSpec op, const Value& result, const std::string& activation) {
    const std::string linear = result.name + "_linear";
    spec_.tensors.push_back({linear, qnn::TensorRole::kNative, result.type, {}});
    op.name = linear;
    op.outputs = {linear};
    spec_.ops.push_back(std::move(op));
    add_tensor(result);
    // The numbers come from the operator that owns them.
    Attributes attributes{{"operation", std::string(activation == "relu" ? "relu" : "relu_min_max")}};
    const OpDef& neuron = *find_op("ElementWiseNeuron");
    HTPIPE_TRY(const Attributes complete_attributes, complete(neuron, attributes));
    qnn::OpSpec clamp{result.name, std::string(neuron.lowering.type), {}, {linear}, {result.name}};
    HTPIPE_TRY(clamp.params, lower_params(neuron, complete_attributes));
    spec_.ops.push_back(std::move(clamp));
    return {};
  }

  const Graph& graph_;
  qnn::GraphSpec spec_;
  std::set<std::string> known_;
};

}  // namespace

Result<qnn::GraphSpec> lower_to_qnn(const Graph& graph) { return Lowerer(graph).run(); }

}  // namespace htpipe
