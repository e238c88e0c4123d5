#include "export/onnx/exporter.h"

#include <fmt/core.h>

#include <algorithm>
#include <unordered_set>

#include "base/version.h"
#include "export/onnx/node_writer.h"
#include "export/onnx/quantized.h"

namespace htpipe::onnx_export {
namespace {

/// Intermediate representation that goes with an opset (onnx/docs/Versioning.md).
std::int64_t ir_version(std::int64_t opset) {
  if (opset <= 14) return 7;
  if (opset <= 18) return 8;
  if (opset <= 20) return 9;
  return 10;
}

void set_type(onnx::ValueInfoProto& info, const std::string& name, std::int32_t data_type, const Shape& shape) {
  info.set_name(name);
  auto& type = *info.mutable_type()->mutable_tensor_type();
  type.set_elem_type(data_type);
  type.mutable_shape();  // a scalar has a shape without dimensions
  for (const std::int64_t size : shape) type.mutable_shape()->add_dim()->set_dim_value(size);
}

bool is_conversion(const Node& node) { return node.is("Quantize") || node.is("Dequantize") || node.is("Convert"); }

bool is_made_by_quantize(const Value& value) { return value.producer != nullptr && value.producer->is("Quantize"); }

/// An input whose stored integers nobody but Dequantize reads: it stays as it is.
bool stays_stored(const Graph& graph, const Value& input) {
  return input.type.encoding && !graph.is_output(&input) && !input.users.empty() &&
         std::all_of(input.users.begin(), input.users.end(), [](const Node* user) { return user->is("Dequantize"); });
}

}  // namespace

Status Exporter::build() {
  HTPIPE_CHECK_OK(check());
  add_header();
  HTPIPE_CHECK_OK(add_inputs());
  for (const auto& node : graph_.nodes()) {
    if (auto status = add_node(*node); !status) {
      Error error = std::move(status.error());
      if (error.place.node.empty()) error.place.node = node->name();
      return fail(std::move(error));
    }
  }
  return add_outputs();
}

Status Exporter::check() const {
  if (options_.opset < kOldestExportOpset || options_.opset > kNewestExportOpset) {
    return fail(Code::kUsage,
                fmt::format("opset {}; written are {} to {}", options_.opset, kOldestExportOpset, kNewestExportOpset));
  }
  std::vector<std::string> unknown;
  for (const auto& node : graph_.nodes()) {
    if (is_conversion(*node) || find_function(node->op->name) != nullptr) continue;
    unknown.push_back(fmt::format("{}: node {}", node->op->name, node->name()));
  }
  if (!unknown.empty()) {
    Error error(Code::kUnsupportedOp, fmt::format("{} nodes cannot be written as ONNX", unknown.size()));
    error.notes = std::move(unknown);
    return fail(std::move(error));
  }
  for (const auto& value : graph_.values()) {
    if (value->type.encoding) HTPIPE_CHECK_OK(check_encoding(*value, options_.opset));
  }
  return {};
}

void Exporter::add_header() {
  model_->set_ir_version(ir_version(options_.opset));
  model_->set_producer_name("htpipe");
  model_->set_producer_version(std::string(kVersion));
  model_->add_opset_import()->set_version(options_.opset);
  if (!options_.source_digest.empty()) {
    auto& entry = *model_->add_metadata_props();
    entry.set_key("htpipe.source_sha256");
    entry.set_value(options_.source_digest);
  }
  onnx::GraphProto& proto = *model_->mutable_graph();
  proto.set_name(graph_.name());
  writer_.emplace(proto, options_.opset);
  for (const auto& value : graph_.values()) writer_->take(value->name);
}

Status Exporter::add_inputs() {
  for (const Value* input : graph_.inputs()) {
    const TensorType& type = input->type;
    const bool stored = stays_stored(graph_, *input);
    std::int32_t data_type =
        type.encoding ? static_cast<std::int32_t>(onnx::TensorProto::FLOAT) : data_type_of(type.dtype);
    if (stored) data_type = stored_type_of(type);
    set_type(*model_->mutable_graph()->add_input(), input->name, data_type, type.shape);
    if (!type.encoding || stored) continue;
    const std::string name = writer_->fresh(input->name + "_quantized");
    quantize(*writer_, input->name, type, name);
    writer_->bind_stored(*input, name);
  }
  return {};
}

Status Exporter::add_node(const Node& node) { return is_conversion(node) ? add_conversion(node) : add_operator(node); }

Status Exporter::add_operator(const Node& node) {
  Names outputs;
  for (const Value* result : node.results) {
    outputs.push_back(result->type.encoding ? writer_->fresh(result->name + "_real") : result->name);
  }
  NodeWriter out(*writer_, graph_, node, outputs);
  HTPIPE_CHECK_OK(find_function(node.op->name)(out));
  out.finish();
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (node.results[i]->type.encoding) add_pair(*node.results[i], outputs[i]);
  }
  return {};
}

void Exporter::add_pair(const Value& value, const std::string& real) {
  const std::string stored = writer_->fresh(value.name + "_quantized");
  quantize(*writer_, real, value.type, stored);
  dequantize(*writer_, stored, value.type, value.name);
  writer_->bind_stored(value, stored);
  writer_->bind_real(value, value.name);
}

Status Exporter::add_conversion(const Node& node) {
  const Value& from = *node.operands[0];
  const Value& to = *node.results[0];
  const auto cast = [&](const std::string& input, DType dtype, const std::string& output) {
    writer_->node("Cast", {input}, {output}, {{"to", std::int64_t{data_type_of(dtype)}}});
  };
  const TensorType& encoded = node.is("Dequantize") ? from.type : to.type;
  if (!encoded.encoding) return fail(Code::kUnsupportedForm, fmt::format("{} without an encoding", node.op->name));
  if (node.is("Convert")) {
    add_pair(to, writer_->real(from));
  } else if (node.is("Quantize")) {
    std::string real = writer_->real(from);
    if (from.type.dtype != DType::kF32) {
      const std::string wide = writer_->fresh(to.name + "_f32");
      cast(real, DType::kF32, wide);
      real = wide;
    }
    quantize(*writer_, real, to.type, to.name);
  } else if (to.type.dtype == DType::kF32) {
    dequantize(*writer_, writer_->stored(from), from.type, to.name);
  } else {
    const std::string wide = writer_->fresh(to.name + "_f32");
    dequantize(*writer_, writer_->stored(from), from.type, wide);
    cast(wide, to.type.dtype, to.name);
  }
  return {};
}

Status Exporter::add_outputs() {
  std::unordered_set<std::string> listed;
  for (const Value* output : graph_.outputs()) {
    const TensorType& type = output->type;
    const bool stored = type.encoding && is_made_by_quantize(*output);
    const bool passed_on = output->producer == nullptr;
    if (type.encoding && passed_on) {
      return fail(Error(Code::kUnsupportedForm, "an output that is stored as integers and computed by no node")
                      .at_node(output->name));
    }
    // A constant is an initializer of that name.
    const std::string own = passed_on ? writer_->real(*output) : output->name;
    std::string name = own;
    const bool is_input = passed_on && !output->is_constant();
    if (is_input || !listed.insert(own).second) {
      // Every output has a node and a name of its own.
      name = writer_->fresh(own + "_output");
      writer_->node("Identity", {own}, {name});
    }
    const std::int32_t real_type =
        type.encoding ? static_cast<std::int32_t>(onnx::TensorProto::FLOAT) : data_type_of(type.dtype);
    set_type(*model_->mutable_graph()->add_output(), name, stored ? stored_type_of(type) : real_type, type.shape);
  }
  return {};
}

}  // namespace htpipe::onnx_export
