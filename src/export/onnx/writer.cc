#include "export/onnx/writer.h"

#include <fmt/core.h>

#include <utility>

#include "base/check.h"
#include "export/onnx/quantized.h"

namespace htpipe::onnx_export {
namespace {

constexpr std::size_t kSharedBytes = 64;

void set(onnx::NodeProto& node, std::string_view name, const Setting& setting) {
  onnx::AttributeProto& attribute = *node.add_attribute();
  attribute.set_name(std::string(name));
  if (const auto* integer = std::get_if<std::int64_t>(&setting)) {
    attribute.set_type(onnx::AttributeProto::INT);
    attribute.set_i(*integer);
  } else if (const auto* real = std::get_if<float>(&setting)) {
    attribute.set_type(onnx::AttributeProto::FLOAT);
    attribute.set_f(*real);
  } else if (const auto* text = std::get_if<std::string>(&setting)) {
    attribute.set_type(onnx::AttributeProto::STRING);
    attribute.set_s(*text);
  } else if (const auto* integers = std::get_if<IntList>(&setting)) {
    attribute.set_type(onnx::AttributeProto::INTS);
    for (const std::int64_t value : *integers) attribute.add_ints(value);
  } else {
    attribute.set_type(onnx::AttributeProto::STRINGS);
    for (const std::string& value : std::get<std::vector<std::string>>(setting)) attribute.add_strings(value);
  }
}

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

void Writer::node(std::string_view op_type, const Names& inputs, const Names& outputs, const Settings& settings) {
  onnx::NodeProto& node = *graph_.add_node();
  node.set_op_type(std::string(op_type));
  for (const std::string& input : inputs) node.add_input(input);
  // Absent operands and unwanted results at the end are left out.
  while (node.input_size() > 0 && node.input(node.input_size() - 1).empty()) node.mutable_input()->RemoveLast();
  for (const std::string& output : outputs) node.add_output(output);
  while (node.output_size() > 1 && node.output(node.output_size() - 1).empty()) node.mutable_output()->RemoveLast();
  for (const std::string& output : node.output()) {
    if (output.empty()) continue;
    node.set_name(output);
    break;
  }
  for (const auto& [name, setting] : settings) set(node, name, setting);
}

std::string Writer::initializer(std::string_view wanted, const Tensor& tensor) {
  std::string key;
  if (tensor.bytes().size() <= kSharedBytes && !tensor.type().encoding) {
    key = fmt::format("{} {} ", static_cast<int>(tensor.dtype()), to_string(tensor.shape()));
    key.append(reinterpret_cast<const char*>(tensor.bytes().data()), tensor.bytes().size());
    if (const auto at = small_.find(key); at != small_.end()) return at->second;
  }
  std::string name = fresh(wanted);
  initializer_named(name, tensor);
  if (!key.empty()) small_.emplace(std::move(key), name);
  return name;
}

void Writer::initializer_named(const std::string& name, const Tensor& tensor, const IntList& perm) {
  onnx::TensorProto& proto = *graph_.add_initializer();
  proto.set_name(name);
  proto.set_data_type(stored_type_of(tensor.type()));
  for (const std::int64_t size : perm.empty() ? tensor.shape() : permute(tensor.shape(), perm)) proto.add_dims(size);
  const bool nibbles = is_nibbles(tensor.type());
  const std::size_t bytes = tensor.bytes().size();
  payloads_.push_back({graph_.initializer_size() - 1, tensor, perm, nibbles, nibbles ? (bytes + 1) / 2 : bytes});
}

std::string Writer::integers(std::string_view wanted, const IntList& values) {
  const Shape shape = {static_cast<std::int64_t>(values.size())};
  return initializer(wanted, Tensor::from<std::int64_t>({DType::kI64, shape, std::nullopt}, values));
}

std::string Writer::scalar(std::string_view wanted, double value, DType dtype) {
  return initializer(wanted, filled({dtype, {}, std::nullopt}, value));
}

std::string Writer::stored(const Value& value) {
  if (const auto at = stored_.find(&value); at != stored_.end()) return at->second;
  if (value.is_constant()) initializer_named(value.name, value.constant);
  stored_[&value] = value.name;
  return value.name;
}

std::string Writer::real(const Value& value) {
  if (const auto at = real_.find(&value); at != real_.end()) return at->second;
  std::string name = value.name;
  if (value.type.encoding) {
    name = fresh(value.name + "_dequantized");
    dequantize(*this, stored(value), value.type, name);
  } else if (value.is_constant()) {
    initializer_named(value.name, value.constant);
  }
  real_[&value] = name;
  return name;
}

std::string Writer::permuted(const Value& value, const IntList& perm) {
  std::string& name = formed_[fmt::format("{} permuted {}", value.name, to_string(perm))];
  if (!name.empty()) return name;
  name = fresh(value.name + "_permuted");
  const TensorType& type = value.type;
  if (!type.encoding) {
    initializer_named(name, value.constant, perm);
  } else {
    // Stored weights are small enough to be permuted at once.
    const Tensor permuted = transpose(value.constant, perm);
    initializer_named(name, permuted);
    const std::string stored = std::exchange(name, fresh(name + "_dequantized"));
    dequantize(*this, stored, permuted.type(), name);
  }
  return name;
}

std::string Writer::reshaped(const Value& value, const Shape& shape) {
  std::string& name = formed_[fmt::format("{} reshaped {}", value.name, to_string(shape))];
  if (!name.empty()) return name;
  const int axis = reshaped_axis(value.type, shape);
  name = fresh(value.name + "_reshaped");
  if (axis == kNoAxis) {
    node("Reshape", {real(value), integers(value.name + "_shape", shape)}, {name});
    return name;
  }
  TensorType type = value.type;
  type.shape = shape;
  if (type.encoding) type.encoding->axis = axis;
  initializer_named(name, value.constant.with_type(type));
  if (type.encoding) {
    const std::string stored = std::exchange(name, fresh(name + "_dequantized"));
    dequantize(*this, stored, type, name);
  }
  return name;
}

}  // namespace htpipe::onnx_export
