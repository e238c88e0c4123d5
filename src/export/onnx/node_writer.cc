#include "export/onnx/node_writer.h"

#include <fmt/core.h>

#include <utility>

namespace htpipe::onnx_export {
namespace {

/// A small constant in another type; the values fit.
Tensor converted(const Tensor& tensor, DType to) {
  Tensor result({to, tensor.shape(), std::nullopt});
  const auto count = static_cast<std::size_t>(tensor.count());
  const std::vector<std::int64_t> values = to_integers(tensor);
  for (std::size_t i = 0; i < count; ++i) {
    if (to == DType::kI64) {
      result.mutable_data<std::int64_t>()[i] = values[i];
    } else {
      result.mutable_data<std::int32_t>()[i] = static_cast<std::int32_t>(values[i]);
    }
  }
  return result;
}

}  // namespace

const Tensor* NodeWriter::constant(std::size_t i) const {
  return has(i) && node_.operands[i]->is_constant() ? &node_.operands[i]->constant : nullptr;
}

std::string NodeWriter::permuted(std::size_t i, const IntList& perm) {
  if (constant(i) != nullptr) return writer_.permuted(*node_.operands[i], perm);
  return inner("Transpose", {in(i)}, "permuted", {{"perm", perm}});
}

std::string NodeWriter::reshaped(std::size_t i, const Shape& to) {
  if (shape(i) == to) return in(i);
  if (constant(i) != nullptr) return writer_.reshaped(*node_.operands[i], to);
  return inner("Reshape", {in(i), integers("shape", to)}, "reshaped");
}

std::string NodeWriter::cast(std::size_t i, DType to) {
  if (dtype(i) == to) return in(i);
  const Tensor* tensor = constant(i);
  if (tensor != nullptr && !is_float(dtype(i)) && (to == DType::kI64 || to == DType::kI32)) {
    return writer_.initializer(fmt::format("{}_{}", node_.operands[i]->name, htpipe::name_of(to)),
                               converted(*tensor, to));
  }
  return inner("Cast", {in(i)}, htpipe::name_of(to), {{"to", std::int64_t{data_type_of(to)}}});
}

bool NodeWriter::wanted(std::size_t i) const {
  return !node_.results[i]->users.empty() || graph_.is_output(node_.results[i]);
}

void NodeWriter::behind(std::string_view op_type, Names more_inputs, Settings settings) {
  behind_.push_back({op_type, std::move(more_inputs), std::move(settings)});
}

void NodeWriter::activation_behind() {
  const std::string& activation = attributes().text("activation");
  if (activation == "relu") behind("Relu");
  if (activation == "relu6") behind("Clip", {scalar(0, result_dtype()), scalar(6, result_dtype())});
}

void NodeWriter::computed_in(DType dtype) {
  if (dtype != result_dtype()) behind("Cast", {}, {{"to", std::int64_t{data_type_of(result_dtype())}}});
}

std::string NodeWriter::out(std::size_t i) {
  if (i != 0 || behind_.empty()) return outputs_[i];
  if (inner_result_.empty()) inner_result_ = name("result");
  return inner_result_;
}

void NodeWriter::emit(std::string_view op_type, const Names& inputs, const Settings& settings) {
  writer_.node(op_type, inputs, {out()}, settings);
}

std::string NodeWriter::inner(std::string_view op_type, const Names& inputs, std::string_view suffix,
                              const Settings& settings) {
  std::string output = name(suffix);
  writer_.node(op_type, inputs, {output}, settings);
  return output;
}

Names NodeWriter::reduction(const std::string& input, const IntList& axes, bool keep_dims, std::int64_t since,
                            Settings& settings) {
  if (!keep_dims) settings.emplace_back("keepdims", std::int64_t{0});
  if (opset() >= since) return {input, integers("axes", axes)};
  settings.emplace_back("axes", axes);
  return {input};
}

std::string NodeWriter::floats(std::string_view suffix, const Shape& shape, const std::vector<float>& values,
                               DType dtype) {
  Tensor tensor({dtype, shape, std::nullopt});
  for (std::size_t i = 0; i < values.size(); ++i) {
    switch (dtype) {
      case DType::kF64:
        tensor.mutable_data<double>()[i] = static_cast<double>(values[i]);
        break;
      case DType::kF16:
        tensor.mutable_data<std::uint16_t>()[i] = to_f16(values[i]);
        break;
      case DType::kBF16:
        tensor.mutable_data<std::uint16_t>()[i] = to_bf16(values[i]);
        break;
      default:
        tensor.mutable_data<float>()[i] = values[i];
    }
  }
  return writer_.initializer(node_.name() + "_" + std::string(suffix), tensor);
}

tl::unexpected<Error> NodeWriter::refuse(std::string why) const {
  return fail(Error(Code::kUnsupportedForm, fmt::format("{} as ONNX: {}", node_.op->name, std::move(why)))
                  .at_node(node_.name()));
}

void NodeWriter::finish() {
  std::string from = inner_result_;
  for (std::size_t i = 0; i < behind_.size(); ++i) {
    Names inputs = {from};
    inputs.insert(inputs.end(), behind_[i].more_inputs.begin(), behind_[i].more_inputs.end());
    from = i + 1 < behind_.size() ? name("result") : outputs_[0];
    writer_.node(behind_[i].op_type, inputs, {from}, behind_[i].settings);
  }
}

bool is_channel_last(const NodeWriter& out) { return out.attributes().text("data_layout") == "nhwc"; }

IntList to_channel_first(std::size_t rank) {
  IntList perm = {0, static_cast<std::int64_t>(rank) - 1};
  for (std::size_t i = 1; i + 1 < rank; ++i) perm.push_back(static_cast<std::int64_t>(i));
  return perm;
}

IntList to_channel_last(std::size_t rank) {
  IntList perm = {0};
  for (std::size_t i = 2; i < rank; ++i) perm.push_back(static_cast<std::int64_t>(i));
  perm.push_back(1);
  return perm;
}

std::string channel_first_input(NodeWriter& out) {
  if (!is_channel_last(out)) return out.in(0);
  out.behind("Transpose", {}, {{"perm", to_channel_last(out.rank())}});
  return out.permuted(0, to_channel_first(out.rank()));
}

IntList pads_of(const IntList& pairs) {
  IntList pads;
  for (std::size_t i = 0; i < pairs.size(); i += 2) pads.push_back(pairs[i]);
  for (std::size_t i = 1; i < pairs.size(); i += 2) pads.push_back(pairs[i]);
  return pads;
}

}  // namespace htpipe::onnx_export
