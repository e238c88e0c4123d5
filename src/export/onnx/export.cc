#include "export/onnx/export.h"

#include <fmt/core.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <fstream>
#include <map>
#include <optional>

#include "base/io.h"
#include "base/version.h"
#include "export/onnx/writer.h"

namespace htpipe {
namespace onnx_export {
namespace {

/// Protobuf's own limit is 2 GB; nodes and names need some of it.
constexpr std::size_t kMaxInline = std::size_t{1900} << 20;
/// Data of mapped files begins at a page.
constexpr std::size_t kAlignment = 4096;

/// Intermediate representation that goes with an opset (onnx/docs/Versioning.md).
std::int64_t ir_version(std::int64_t opset) {
  if (opset <= 14) return 7;
  if (opset <= 18) return 8;
  if (opset <= 20) return 9;
  return 10;
}

void set_type(onnx::ValueInfoProto& info, const std::string& name, DType dtype, const Shape& shape) {
  info.set_name(name);
  auto& type = *info.mutable_type()->mutable_tensor_type();
  type.set_elem_type(data_type_of(dtype));
  type.mutable_shape();  // a scalar has a shape without dimensions
  for (const std::int64_t size : shape) type.mutable_shape()->add_dim()->set_dim_value(size);
}

class Exporter {
 public:
  Exporter(const Graph& graph, const OnnxOptions& options)
      : graph_(graph), options_(options), model_(std::make_shared<onnx::ModelProto>()) {}

  Status build() {
    if (options_.opset < kOldestExportOpset || options_.opset > kNewestExportOpset) {
      return fail(Code::kUsage, fmt::format("opset {}; written are {} to {}", options_.opset, kOldestExportOpset,
                                            kNewestExportOpset));
    }
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
    for (const Value* input : graph_.inputs())
      set_type(*proto.add_input(), input->name, input->type.dtype, input->type.shape);
    HTPIPE_CHECK_OK(add_nodes());
    for (const Value* output : graph_.outputs()) {
      // An output that is a constant is an initializer of that name.
      if (output->is_constant()) (void)name_of(*output);
      set_type(*proto.add_output(), output->name, output->type.dtype, output->type.shape);
    }
    return {};
  }

  [[nodiscard]] const std::shared_ptr<onnx::ModelProto>& model() const { return model_; }
  [[nodiscard]] const std::vector<Payload>& payloads() const { return writer_->payloads(); }
  [[nodiscard]] onnx::TensorProto& initializer(const Payload& payload) {
    return *model_->mutable_graph()->mutable_initializer(payload.index);
  }

 private:
  /// The name of a value in the file; a constant becomes an initializer when it is first used.
  const std::string& name_of(const Value& value) {
    if (!value.is_constant()) return value.name;
    std::string& name = constants_[&value];
    if (name.empty()) name = writer_->initializer_named(value.name, value.constant);
    return name;
  }

  Status add_nodes() {
    std::map<std::string, std::vector<std::string>> unknown;
    for (const auto& node : graph_.nodes()) {
      if (find_function(node->op->name) == nullptr) unknown[std::string(node->op->name)].push_back(node->name());
    }
    if (!unknown.empty()) {
      Error error(Code::kUnsupportedOp, "operators that cannot be written as ONNX");
      for (const auto& [op, names] : unknown) {
        for (const std::string& name : names) error.notes.push_back(fmt::format("{}: node {}", op, name));
      }
      return fail(std::move(error));
    }
    for (const auto& node : graph_.nodes()) {
      std::vector<std::string> inputs;
      for (const Value* operand : node->operands)
        inputs.push_back(operand == nullptr ? std::string() : name_of(*operand));
      std::vector<std::string> outputs;
      for (const Value* result : node->results) outputs.push_back(result->name);
      NodeWriter out(*writer_, *node, std::move(inputs), std::move(outputs));
      if (auto status = find_function(node->op->name)(out); !status) {
        return fail(std::move(status.error()).at_node(node->name()));
      }
    }
    return {};
  }

  const Graph& graph_;
  const OnnxOptions& options_;
  std::shared_ptr<onnx::ModelProto> model_;
  std::optional<Writer> writer_;
  std::map<const Value*, std::string> constants_;
};

void store_inline(Exporter& exporter) {
  for (const Payload& payload : exporter.payloads()) {
    const Bytes bytes = payload.tensor.bytes();
    exporter.initializer(payload).set_raw_data(bytes.data(), bytes.size());
  }
}

}  // namespace
}  // namespace onnx_export

Result<std::shared_ptr<onnx::ModelProto>> to_onnx(const Graph& graph, const OnnxOptions& options) {
  onnx_export::Exporter exporter(graph, options);
  HTPIPE_CHECK_OK(exporter.build());
  onnx_export::store_inline(exporter);
  return exporter.model();
}

}  // namespace htpipe
