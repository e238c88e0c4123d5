// Operators of com.microsoft that onnxruntime's optimiser and exporters write: fused norms, gelus, block-wise weights.
#include <fmt/core.h>

#include <cmath>

#include "import/onnx/onnx_helpers.h"
#include "import/onnx/onnx_map.h"

namespace htpipe::onnx_import::map {
namespace {

Result<Value*> add_if(Call& call, Value* a, Value* b, std::string_view suffix) {
  return b != nullptr ? call.binary("add", a, b, suffix) : Result<Value*>(a);
}

/// Norm of input + skip + bias; the fourth output is that sum.
Result<Values> skip_norm(Call& call, std::string_view op, Value* gamma, Value* beta, Value* bias) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(Value * skip, call.input(1));
  HTPIPE_TRY(const float epsilon, call.real("epsilon", 1e-12F));
  if (call.wants(1) || call.wants(2)) return fail(Code::kUnsupportedForm, "moments of a fused normalisation");
  HTPIPE_TRY(Value * sum, call.binary("add", input, skip, "sum"));
  HTPIPE_TRY(sum, add_if(call, sum, bias, "biased"));
  std::vector<Value*> operands = {sum, gamma};
  if (beta != nullptr) operands.push_back(beta);
  const Attributes attributes = {{"axes", IntList{rank_of(sum) - 1}}, {"epsilon", epsilon}};
  HTPIPE_TRY(Value * result, call.add(op, attributes, std::move(operands)));
  return Values{result, nullptr, nullptr, sum};
}

}  // namespace

Result<Values> skip_layer_normalization(Call& call) {
  HTPIPE_TRY(Value * gamma, call.input(2));
  return skip_norm(call, "LayerNorm", gamma, call.optional_input(3), call.optional_input(4));
}

Result<Values> skip_simplified_layer_normalization(Call& call) {
  HTPIPE_TRY(Value * gamma, call.input(2));
  return skip_norm(call, "RmsNorm", gamma, nullptr, call.optional_input(3));
}

Result<Values> embed_layer_normalization(Call& call) {
  HTPIPE_TRY(Value * ids, call.input(0));
  HTPIPE_TRY(Value * words, call.input(2));
  HTPIPE_TRY(Value * places, call.input(3));
  HTPIPE_TRY(Value * gamma, call.input(5));
  HTPIPE_TRY(Value * beta, call.input(6));
  HTPIPE_TRY(const float epsilon, call.real("epsilon", 1e-12F));
  if (rank_of(ids) != 2) return fail(Code::kShapeMismatch, fmt::format("ids {}", to_string(ids->type.shape)));
  const Attributes rows = {{"axis", std::int64_t{0}}};
  HTPIPE_TRY(Value * sum, call.add("Gather", rows, {words, ids}, "words"));
  const std::int64_t length = ids->type.shape[1];
  Value* positions = call.has(8) ? call.inputs()[8] : call.integers("positions", {length}, count_up(0, length));
  HTPIPE_TRY(Value * placed, call.add("Gather", rows, {places, positions}, "places"));
  HTPIPE_TRY(sum, call.binary("add", sum, placed, "placed"));
  if (call.has(1)) {
    HTPIPE_TRY(Value * segments, call.input(4));
    HTPIPE_TRY(Value * segment, call.add("Gather", rows, {segments, call.inputs()[1]}, "segments"));
    HTPIPE_TRY(sum, call.binary("add", sum, segment, "embedding"));
  }
  HTPIPE_TRY(Value * result, call.add("LayerNorm", {{"axes", IntList{2}}, {"epsilon", epsilon}}, {sum, gamma, beta}));
  Value* lengths = nullptr;
  if (call.wants(1)) {
    lengths = call.constant("lengths", filled({DType::kI32, {ids->type.shape[0]}, std::nullopt}, 0));
    if (call.has(7)) {
      HTPIPE_TRY(lengths, reduce(call, "ReduceSum", call.inputs()[7], {1}, false, "mask_lengths"));
      HTPIPE_TRY(lengths, call.cast(lengths, DType::kI32, "mask_index"));
    }
  }
  return Values{result, lengths, sum};
}

Result<Values> bias_gelu(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(input, add_if(call, input, call.optional_input(1), "biased"));
  return one(call.neuron("gelu", input));
}

Result<Values> fast_gelu(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(input, add_if(call, input, call.optional_input(1), "biased"));
  return one(call.neuron("gelu_tanh", input));
}

Result<Values> quick_gelu(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(const float alpha, call.real("alpha", 1.702F));
  HTPIPE_TRY(Value * scaled, call.binary("multiply", input, static_cast<double>(alpha), "scaled"));
  HTPIPE_TRY(Value * gate, call.neuron("sigmoid", scaled, "gate"));
  return one(call.binary("multiply", input, gate));
}

Result<Values> bias_split_gelu(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(Value * bias, call.input(1));
  HTPIPE_TRY(Value * sum, call.binary("add", input, bias, "biased"));
  const std::int64_t axis = rank_of(sum) - 1;
  if (axis < 0 || sum->type.shape.back() % 2 != 0) return fail(Code::kShapeMismatch, "halves of an odd axis");
  const std::int64_t half = sum->type.shape.back() / 2;
  HTPIPE_TRY(Value * left, slice(call, sum, axis, 0, half, "left"));
  HTPIPE_TRY(Value * right, slice(call, sum, axis, half, 2 * half, "right"));
  HTPIPE_TRY(Value * gate, call.neuron("gelu", right, "gate"));
  return one(call.binary("multiply", left, gate));
}

Result<Values> bias_add(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(Value * bias, call.input(1));
  HTPIPE_TRY(Value * skip, call.input(2));
  HTPIPE_TRY(Value * sum, call.binary("add", input, bias, "biased"));
  return one(call.binary("add", sum, skip));
}

/// Weights in blocks along k, each block with a scale and a zero point: as real numbers.
Result<Values> matmul_n_bits(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(const Tensor packed, call.constant_input(1));
  HTPIPE_TRY(const std::vector<float> scales, call.floats_input(2));
  HTPIPE_TRY(const std::int64_t k, call.integer("K"));
  HTPIPE_TRY(const std::int64_t n, call.integer("N"));
  HTPIPE_TRY(const std::int64_t bits, call.integer("bits", 4));
  HTPIPE_TRY(const std::int64_t block, call.integer("block_size"));
  if (call.has(4)) return fail(Code::kUnsupportedForm, "MatMulNBits with g_idx");
  const bool sane = k > 0 && n > 0 && k <= (1 << 20) && n <= (1 << 20) && block >= 16 && block <= (1 << 16);
  if (!sane || (bits != 2 && bits != 4 && bits != 8)) {
    return fail(Code::kUnsupportedForm,
                fmt::format("MatMulNBits of {} x {} with {} bits, blocks of {}", k, n, bits, block));
  }
  const std::int64_t blocks = (k + block - 1) / block;
  const std::int64_t per_byte = 8 / bits;
  const std::int64_t block_bytes = block / per_byte;
  const auto byte_count = static_cast<std::int64_t>(packed.bytes().size());
  if (byte_count != n * blocks * block_bytes || static_cast<std::int64_t>(scales.size()) != n * blocks) {
    return fail(Code::kShapeMismatch,
                fmt::format("MatMulNBits: {} bytes of weights, {} scales", byte_count, scales.size()));
  }
  const auto mask = static_cast<unsigned>((1 << bits) - 1);
  const auto number = [&](Bytes bytes, std::int64_t byte, std::int64_t place) {
    const auto whole = static_cast<unsigned>(bytes[static_cast<std::size_t>(byte)]);
    return static_cast<float>((whole >> (static_cast<unsigned>(place) * static_cast<unsigned>(bits))) & mask);
  };
  std::vector<float> zeros(scales.size(), static_cast<float>(1 << (bits - 1)));
  if (call.has(3)) {
    HTPIPE_TRY(const Tensor given, call.constant_input(3));
    if (is_float(given.dtype())) {
      zeros = to_floats(given);
    } else {
      const std::int64_t row_bytes = (blocks + per_byte - 1) / per_byte;
      if (static_cast<std::int64_t>(given.bytes().size()) != n * row_bytes) {
        return fail(Code::kShapeMismatch, "zero points of MatMulNBits");
      }
      for (std::int64_t i = 0; i < n * blocks; ++i) {
        const std::int64_t in_row = i % blocks;
        zeros[static_cast<std::size_t>(i)] =
            number(given.bytes(), i / blocks * row_bytes + in_row / per_byte, in_row % per_byte);
      }
    }
    if (zeros.size() != scales.size()) return fail(Code::kShapeMismatch, "zero points of MatMulNBits");
  }
  Tensor weight({DType::kF32, {n, k}, std::nullopt});
  const auto data = weight.mutable_data<float>();
  for (std::int64_t row = 0; row < n; ++row) {
    for (std::int64_t i = 0; i < k; ++i) {
      const std::int64_t at = row * blocks + i / block;
      const std::int64_t in_block = i % block;
      const float stored = number(packed.bytes(), at * block_bytes + in_block / per_byte, in_block % per_byte);
      data[static_cast<std::size_t>(row * k + i)] =
          (stored - zeros[static_cast<std::size_t>(at)]) * scales[static_cast<std::size_t>(at)];
    }
  }
  HTPIPE_TRY(Value * matrix, call.cast(call.constant("weight", std::move(weight)), input->type.dtype, "weight"));
  HTPIPE_TRY(Value * raised,
             rank_of(input) < 2 ? call.reshape(input, {1, input->type.count()}, "row") : Result<Value*>(input));
  HTPIPE_TRY(Value * result, linear(call, raised, matrix, call.optional_input(5), raised == input ? "" : "product"));
  return one(raised == input ? Result<Value*>(result) : call.reshape(result, {n}));
}

}  // namespace htpipe::onnx_import::map
