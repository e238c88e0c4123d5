#include "import/onnx/importer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_set>

#include "import/onnx/import.h"
#include "import/onnx/onnx_quantize.h"

namespace htpipe::onnx_import {
namespace {

/// Operators that know what a sequence, or a stored integer with an encoding, is.
constexpr std::array<std::string_view, 13> kTakeSequences = {"ConcatFromSequence",
                                                             "Identity",
                                                             "If",
                                                             "Loop",
                                                             "Optional",
                                                             "OptionalGetElement",
                                                             "OptionalHasElement",
                                                             "SequenceAt",
                                                             "SequenceErase",
                                                             "SequenceInsert",
                                                             "SequenceLength",
                                                             "SequenceMap",
                                                             "SplitToSequence"};
constexpr std::array<std::string_view, 13> kTakeEncodings = {"DequantizeLinear",
                                                             "Identity",
                                                             "If",
                                                             "Loop",
                                                             "QLinearAdd",
                                                             "QLinearConcat",
                                                             "QLinearConv",
                                                             "QLinearGlobalAveragePool",
                                                             "QLinearLeakyRelu",
                                                             "QLinearMatMul",
                                                             "QLinearMul",
                                                             "QLinearSigmoid",
                                                             "Shape"};

template <std::size_t kSize>
bool contains(const std::array<std::string_view, kSize>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

constexpr int kMaxDepth = 64;  ///< of functions and branches within each other

std::string standard_domain(std::string_view domain) { return domain == "ai.onnx" ? "" : std::string(domain); }

std::string operator_name(const onnx::NodeProto& node) {
  return node.domain().empty() ? node.op_type() : fmt::format("{}.{}", node.domain(), node.op_type());
}

/// What people know a node by: its own name, or its first output's.
std::string node_name(const onnx::NodeProto& node) {
  if (!node.name().empty()) return node.name();
  for (const std::string& output : node.output()) {
    if (!output.empty()) return output;
  }
  return node.op_type();
}

std::map<std::string, std::int64_t, std::less<>> opsets_of(
    const google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto>& imports) {
  std::map<std::string, std::int64_t, std::less<>> opsets;
  for (const auto& opset : imports) opsets[standard_domain(opset.domain())] = opset.version();
  return opsets;
}

}  // namespace

Importer::Importer(const Model& model, const ImportOptions& options)
    : model_(model),
      options_(options),
      graph_(model.proto().graph().name().empty() ? model.path().stem().string() : model.proto().graph().name()) {}

Result<Imported> Importer::run() {
  const onnx::GraphProto& graph = model_.proto().graph();
  opsets_.push_back(opsets_of(model_.proto().opset_import()));
  scopes_.emplace_back();
  HTPIPE_CHECK_OK(check_operators());
  HTPIPE_CHECK_OK(add_initializers(graph, ""));
  HTPIPE_CHECK_OK(add_inputs());
  HTPIPE_CHECK_OK(add_nodes(graph.node(), ""));
  HTPIPE_CHECK_OK(set_outputs());
  remove_unused_constants(graph_);
  const auto is_double = [](const auto& node) { return node->result()->type.dtype == DType::kF64; };
  if (std::any_of(graph_.nodes().begin(), graph_.nodes().end(), is_double)) {
    warnings_.push_back("values of type f64 are computed in float32");
  }
  HTPIPE_CHECK_OK(verify(graph_));
  return Imported{std::move(graph_), std::move(warnings_)};
}

Status Importer::check_operators() const {
  std::map<std::string, std::vector<std::string>> unknown;
  // Branches that are not taken may hold anything; their nodes are told when they are reached.
  for (const auto& node : model_.proto().graph().node()) {
    if (find_function(node.domain(), node.op_type()) != nullptr) continue;
    if (find_mapper(node.domain(), node.op_type()) == nullptr) unknown[operator_name(node)].push_back(node_name(node));
  }
  if (unknown.empty()) return {};
  std::size_t count = 0;
  std::vector<std::string> names;
  for (const auto& [name, places] : unknown) {
    names.push_back(name);
    count += places.size();
  }
  Error error(Code::kUnsupportedOp,
              fmt::format("{} nodes use operators that are not imported: {}", count, fmt::join(names, ", ")));
  for (const auto& [name, places] : unknown) {
    for (const std::string& place : places) {
      error.notes.push_back(fmt::format("{}: node {} (fallback candidate)", name, place));
    }
  }
  return fail(std::move(error));
}

Status Importer::add_initializers(const onnx::GraphProto& graph, const std::string& prefix) {
  if (graph.sparse_initializer_size() > 0) {
    return fail(Code::kUnsupportedForm, "sparse initializers");
  }
  for (const auto& initializer : graph.initializer()) {
    HTPIPE_TRY(Tensor tensor, model_.tensor(initializer));
    Value* value = graph_.add_constant(prefix + initializer.name(), std::move(tensor));
    set_bits(value, narrow_bits(initializer.data_type()));
    scopes_.back().values[initializer.name()] = value;
  }
  return {};
}

int Importer::bits_of(const Value* value) const {
  const auto at = bits_.find(value);
  return at == bits_.end() ? 0 : at->second;
}

const Values* Importer::sequence_of(const Value* value) const {
  const auto at = sequences_.find(value);
  return at == sequences_.end() ? nullptr : &at->second;
}

void Importer::set_bits(const Value* value, int bits) {
  if (bits != 0) bits_[value] = bits;
}

Value* Importer::find(std::string_view name) const {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    const auto at = scope->values.find(name);
    if (at != scope->values.end()) return at->second;
    if (scope->isolated) break;
  }
  return nullptr;
}

const onnx::FunctionProto* Importer::find_function(std::string_view domain, std::string_view name) const {
  for (const auto& function : model_.proto().functions()) {
    if (function.name() == name && standard_domain(function.domain()) == standard_domain(domain)) return &function;
  }
  return nullptr;
}

std::int64_t Importer::opset_of(std::string_view domain) const {
  const auto at = opsets_.back().find(standard_domain(domain));
  return at == opsets_.back().end() ? 1 : at->second;
}

Status Importer::add_nodes(const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes,
                           const std::string& prefix) {
  for (const auto& node : nodes) {
    if (auto status = add_node(node, prefix); !status) {
      Error error = std::move(status.error());
      if (error.place.node.empty()) {
        error.place.node = prefix + node_name(node);
        error.notes.push_back(fmt::format("ONNX operator {}", operator_name(node)));
      }
      return fail(std::move(error));
    }
  }
  return {};
}

Status Importer::prepare_inputs(const onnx::NodeProto& node, Values& inputs, const std::string& prefix) {
  for (Value*& input : inputs) {
    if (input == nullptr) continue;
    if (sequence_of(input) != nullptr && !contains(kTakeSequences, node.op_type())) {
      return fail(Code::kUnsupportedForm, fmt::format("{} of a sequence", operator_name(node)));
    }
    if (!input->type.encoding || contains(kTakeEncodings, node.op_type())) continue;
    Value*& known = plain_[input];
    if (known == nullptr) {
      Builder builder(graph_, prefix + input->name, Source{prefix + node_name(node), ""}, &warnings_);
      HTPIPE_TRY(known, plain(builder, input, "plain"));
    }
    input = known;
  }
  return {};
}

Status Importer::add_node(const onnx::NodeProto& node, const std::string& prefix) {
  Values inputs;
  for (const std::string& name : node.input()) {
    Value* value = name.empty() ? nullptr : find(name);
    if (value == nullptr && !name.empty()) {
      return fail(Code::kOnnxInvalid, fmt::format("input {} is made by no node before this one", name));
    }
    inputs.push_back(value);
  }
  if (const onnx::FunctionProto* function = find_function(node.domain(), node.op_type())) {
    HTPIPE_TRY(const Values values, call_function(*function, node, inputs, prefix));
    return bind_outputs(node, values, prefix);
  }
  const Mapper mapper = find_mapper(node.domain(), node.op_type());
  if (mapper == nullptr) {
    return fail(Code::kUnsupportedOp, fmt::format("{} is not imported", operator_name(node)));
  }
  HTPIPE_CHECK_OK(prepare_inputs(node, inputs, prefix));
  std::string name = node.output_size() > 0 && !node.output(0).empty() ? node.output(0) : node_name(node);
  Call call(*this, node, opset_of(node.domain()), std::move(inputs), graph_, prefix + name,
            Source{prefix + node_name(node), ""}, &warnings_);
  HTPIPE_TRY(const Values values, mapper(call));
  return bind_outputs(node, values, prefix);
}

Status Importer::bind_outputs(const onnx::NodeProto& node, const Values& values, const std::string& prefix) {
  for (int i = 0; i < node.output_size(); ++i) {
    const std::string& name = node.output(i);
    if (name.empty()) continue;
    Value* value = static_cast<std::size_t>(i) < values.size() ? values[static_cast<std::size_t>(i)] : nullptr;
    if (value == nullptr) {
      return fail(Code::kUnsupportedForm,
                  fmt::format("output {} ({}) of {} is not computed", i, name, operator_name(node)));
    }
    // Second and further results get the model's name instead of one with a number.
    if (i > 0 && value->producer != nullptr && graph_.find_value(prefix + name) == nullptr) {
      graph_.rename(value, prefix + name);
    }
    scopes_.back().values[name] = value;
  }
  return {};
}

Result<Values> Importer::subgraph(const onnx::GraphProto& graph, const Values& inputs, const std::string& prefix) {
  if (depth_ >= kMaxDepth) return fail(Code::kOnnxInvalid, "functions and branches stand too deep in each other");
  if (static_cast<std::size_t>(graph.input_size()) != inputs.size()) {
    return fail(Code::kOnnxInvalid, fmt::format("{} inputs for a graph of {}", inputs.size(), graph.input_size()));
  }
  ++depth_;
  scopes_.emplace_back();
  for (int i = 0; i < graph.input_size(); ++i)
    scopes_.back().values[graph.input(i).name()] = inputs[static_cast<std::size_t>(i)];
  HTPIPE_CHECK_OK(add_initializers(graph, prefix));
  HTPIPE_CHECK_OK(add_nodes(graph.node(), prefix));
  Values outputs;
  for (const auto& output : graph.output()) {
    Value* value = find(output.name());
    if (value == nullptr) return fail(Code::kOnnxInvalid, fmt::format("output {} is made by no node", output.name()));
    outputs.push_back(value);
  }
  scopes_.pop_back();
  --depth_;
  return outputs;
}

Result<Values> Importer::call_function(const onnx::FunctionProto& function, const onnx::NodeProto& node,
                                       const Values& inputs, const std::string& prefix) {
  if (depth_ >= kMaxDepth) return fail(Code::kOnnxInvalid, "functions and branches stand too deep in each other");
  // Attributes of the call replace references in the body.
  onnx::FunctionProto body = function;
  std::map<std::string, const onnx::AttributeProto*, std::less<>> given;
  for (const auto& attribute : function.attribute_proto()) given[attribute.name()] = &attribute;
  for (const auto& attribute : node.attribute()) given[attribute.name()] = &attribute;
  const std::function<void(onnx::NodeProto&)> bind = [&](onnx::NodeProto& inner) {
    google::protobuf::RepeatedPtrField<onnx::AttributeProto> kept;
    for (auto& attribute : *inner.mutable_attribute()) {
      if (attribute.has_g()) {
        for (auto& nested : *attribute.mutable_g()->mutable_node()) bind(nested);
      }
      if (attribute.ref_attr_name().empty()) {
        *kept.Add() = attribute;
      } else if (const auto at = given.find(attribute.ref_attr_name()); at != given.end()) {
        onnx::AttributeProto value = *at->second;
        value.set_name(attribute.name());
        *kept.Add() = std::move(value);
      }
    }
    inner.mutable_attribute()->Swap(&kept);
  };
  for (auto& inner : *body.mutable_node()) bind(inner);

  ++depth_;
  Scope scope;
  scope.isolated = true;
  for (int i = 0; i < body.input_size(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (at < inputs.size() && inputs[at] != nullptr) scope.values[body.input(i)] = inputs[at];
    // An optional input that is not given: its uses see an empty one.
    if (at >= inputs.size() || inputs[at] == nullptr) {
      for (auto& inner : *body.mutable_node()) {
        for (auto& name : *inner.mutable_input()) {
          if (name == body.input(i)) name.clear();
        }
      }
    }
  }
  scopes_.push_back(std::move(scope));
  opsets_.push_back(opsets_of(body.opset_import()));
  HTPIPE_CHECK_OK(add_nodes(body.node(), prefix + node_name(node) + "/"));
  Values outputs;
  for (const std::string& name : body.output()) outputs.push_back(find(name));
  opsets_.pop_back();
  scopes_.pop_back();
  --depth_;
  return outputs;
}

std::vector<std::string> Importer::inputs_behind(const Value* value) const {
  std::vector<const Value*> open = {value};
  std::unordered_set<const Value*> seen;
  while (!open.empty()) {
    const Value* current = open.back();
    open.pop_back();
    if (current == nullptr || !seen.insert(current).second || current->producer == nullptr) continue;
    open.insert(open.end(), current->producer->operands.begin(), current->producer->operands.end());
  }
  std::vector<std::string> names;
  for (const Value* input : graph_.inputs()) {
    if (seen.count(input) != 0) names.push_back(input->name);
  }
  return names;
}

void Importer::check_declared(const onnx::ValueInfoProto& info, const Value& value) {
  if (!info.type().has_tensor_type() || !info.type().tensor_type().has_shape()) return;
  const auto& shape = info.type().tensor_type().shape();
  std::vector<std::string> declared;
  bool differs = static_cast<std::size_t>(shape.dim_size()) != value.type.shape.size();
  for (int axis = 0; axis < shape.dim_size(); ++axis) {
    const auto& dimension = shape.dim(axis);
    const bool known = dimension.has_dim_value() && dimension.dim_value() >= 0;
    declared.push_back(known ? std::to_string(dimension.dim_value()) : dimension.dim_param());
    // A number that is no number of this run: exporters write the batch of their example.
    if (!differs && known) differs = dimension.dim_value() != value.type.shape[static_cast<std::size_t>(axis)];
  }
  if (!differs) return;
  warnings_.push_back(fmt::format("output {}: the file declares [{}], the operators give {}", info.name(),
                                  fmt::join(declared, ","), to_string(value.type.shape)));
}

Status Importer::set_outputs() {
  std::vector<Value*> outputs;
  for (const auto& info : model_.proto().graph().output()) {
    Value* value = find(info.name());
    if (value == nullptr) {
      return fail(Error(Code::kOnnxInvalid, "an output is made by no node").at_node(info.name()));
    }
    if (sequence_of(value) != nullptr) {
      return fail(Error(Code::kUnsupportedForm, "an output that is a sequence").at_node(info.name()));
    }
    if (const auto declared = info.type().tensor_type().elem_type(); narrow_bits(declared) != 0) {
      return fail(Error(Code::kUnsupportedForm, fmt::format("an output of type {}", data_type_name(declared)))
                      .at_node(info.name()));
    }
    check_declared(info, *value);
    const bool is_input = std::find(graph_.inputs().begin(), graph_.inputs().end(), value) != graph_.inputs().end();
    const bool is_taken = std::find(outputs.begin(), outputs.end(), value) != outputs.end();
    if (is_input || is_taken || (value->is_constant() && value->name != info.name())) {
      // The interface needs a value of this name.
      HTPIPE_TRY(Node * copy, graph_.add_node("Reshape", info.name(), {{"shape", value->type.shape}}, {value}));
      value = copy->result();
    }
    if (value->name != info.name()) {
      if (Value* other = graph_.find_value(info.name()))
        graph_.rename(other, graph_.unique_name(info.name() + "_inner"));
      graph_.rename(value, info.name());
    }
    outputs.push_back(value);
  }
  graph_.set_outputs(std::move(outputs));
  return {};
}

}  // namespace htpipe::onnx_import

namespace htpipe {
namespace {

Result<Imported> import_model(const onnx_import::Model& model, const ImportOptions& options) {
  auto imported = onnx_import::Importer(model, options).run();
  if (!imported && imported.error().place.file.empty()) imported.error().place.file = model.path().string();
  return imported;
}

}  // namespace

Result<Imported> import_onnx(const std::filesystem::path& path, const ImportOptions& options) {
  HTPIPE_TRY(const onnx_import::Model model, onnx_import::Model::read(path));
  return import_model(model, options);
}

Result<Imported> import_onnx(Bytes bytes, const std::filesystem::path& path, const ImportOptions& options) {
  HTPIPE_TRY(const onnx_import::Model model, onnx_import::Model::parse(bytes, path));
  return import_model(model, options);
}

}  // namespace htpipe
