#include "export/onnx/writer.h"

#include <fmt/core.h>

#include "base/check.h"

namespace htpipe::onnx_export {
namespace {

constexpr std::size_t kSharedBytes = 64;

}  // namespace

std::int32_t data_type_of(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return onnx::TensorProto::DOUBLE;
    case DType::kF32:
      return onnx::TensorProto::FLOAT;
    case DType::kF16:
      return onnx::TensorProto::FLOAT16;
    case DType::kBF16:
      return onnx::TensorProto::BFLOAT16;
    case DType::kI64:
      return onnx::TensorProto::INT64;
    case DType::kI32:
      return onnx::TensorProto::INT32;
    case DType::kI16:
      return onnx::TensorProto::INT16;
    case DType::kI8:
      return onnx::TensorProto::INT8;
    case DType::kU64:
      return onnx::TensorProto::UINT64;
    case DType::kU32:
      return onnx::TensorProto::UINT32;
    case DType::kU16:
      return onnx::TensorProto::UINT16;
    case DType::kU8:
      return onnx::TensorProto::UINT8;
    case DType::kBool:
      return onnx::TensorProto::BOOL;
  }
  throw_bug(__FILE__, __LINE__, "dtype", "unknown data type");
}

std::string Writer::fresh(std::string_view wanted) {
  std::string name(wanted);
  if (names_.insert(name).second) return name;
  std::int64_t& suffix = suffixes_.try_emplace(name, 1).first->second;
  do {
    name = fmt::format("{}_{}", wanted, ++suffix);
  } while (!names_.insert(name).second);
  return name;
}

onnx::NodeProto& Writer::node(std::string_view op_type, const std::vector<std::string>& inputs,
                              const std::vector<std::string>& outputs, std::string_view domain) {
  onnx::NodeProto& node = *graph_.add_node();
  node.set_op_type(std::string(op_type));
  if (!domain.empty()) node.set_domain(std::string(domain));
  for (const std::string& input : inputs) node.add_input(input);
  // Absent operands at the end are left out.
  while (node.input_size() > 0 && node.input(node.input_size() - 1).empty()) node.mutable_input()->RemoveLast();
  for (const std::string& output : outputs) node.add_output(output);
  node.set_name(outputs.front());
  return node;
}

std::string Writer::initializer(std::string_view wanted, const Tensor& tensor) {
  std::string key;
  if (tensor.bytes().size() <= kSharedBytes) {
    key = fmt::format("{} {} ", static_cast<int>(tensor.dtype()), to_string(tensor.shape()));
    key.append(reinterpret_cast<const char*>(tensor.bytes().data()), tensor.bytes().size());
    if (const auto at = small_.find(key); at != small_.end()) return at->second;
  }
  const std::string name = initializer_named(fresh(wanted), tensor);
  if (!key.empty()) small_.emplace(std::move(key), name);
  return name;
}

std::string Writer::initializer_named(const std::string& name, const Tensor& tensor) {
  onnx::TensorProto& proto = *graph_.add_initializer();
  proto.set_name(name);
  proto.set_data_type(data_type_of(tensor.dtype()));
  for (const std::int64_t size : tensor.shape()) proto.add_dims(size);
  payloads_.push_back({graph_.initializer_size() - 1, tensor});
  return name;
}

std::string Writer::integers(std::string_view wanted, const std::vector<std::int64_t>& values) {
  const Shape shape = {static_cast<std::int64_t>(values.size())};
  return initializer(wanted, Tensor::from<std::int64_t>({DType::kI64, shape, std::nullopt}, values));
}

std::string Writer::scalar(std::string_view wanted, double value, DType dtype) {
  return initializer(wanted, filled({dtype, {}, std::nullopt}, value));
}

void set(onnx::NodeProto& node, std::string_view name, std::int64_t value) {
  onnx::AttributeProto& attribute = *node.add_attribute();
  attribute.set_name(std::string(name));
  attribute.set_type(onnx::AttributeProto::INT);
  attribute.set_i(value);
}

void set(onnx::NodeProto& node, std::string_view name, float value) {
  onnx::AttributeProto& attribute = *node.add_attribute();
  attribute.set_name(std::string(name));
  attribute.set_type(onnx::AttributeProto::FLOAT);
  attribute.set_f(value);
}

void set(onnx::NodeProto& node, std::string_view name, std::string_view value) {
  onnx::AttributeProto& attribute = *node.add_attribute();
  attribute.set_name(std::string(name));
  attribute.set_type(onnx::AttributeProto::STRING);
  attribute.set_s(std::string(value));
}

void set(onnx::NodeProto& node, std::string_view name, const std::vector<std::int64_t>& values) {
  onnx::AttributeProto& attribute = *node.add_attribute();
  attribute.set_name(std::string(name));
  attribute.set_type(onnx::AttributeProto::INTS);
  for (const std::int64_t value : values) attribute.add_ints(value);
}

onnx::NodeProto& NodeWriter::emit(std::string_view op_type, const std::vector<std::string>& inputs,
                                  const std::string& output) {
  return writer_.node(op_type, inputs, {output});
}

onnx::NodeProto& NodeWriter::emit_inner(std::string_view op_type, const std::vector<std::string>& inputs,
                                        std::string_view suffix, std::string& output) {
  output = writer_.fresh(fmt::format("{}_{}", node_.name(), suffix));
  return writer_.node(op_type, inputs, {output});
}

tl::unexpected<Error> NodeWriter::refuse(std::string why) const {
  return fail(Error(Code::kUnsupportedForm, fmt::format("{} as ONNX: {}", node_.op->name, std::move(why)))
                  .at_node(node_.name()));
}

}  // namespace htpipe::onnx_export
