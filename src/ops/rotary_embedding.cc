// RotaryEmbedding: pairs of elements along the last axis turned by an angle that depends on the position.
// Input [batch, heads, positions, size] or [batch, positions, size] or [positions, size]; cos and sin
// [positions, dim / 2] or [batch, positions, dim / 2], already gathered by position.
// Source: QNN operator RotaryEmbedding (without documentation), ONNX RotaryEmbedding.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/fixed/elementwise.h"
#include "ops/normalise.h"
#include "ops/registry.h"

namespace htpipe::ops {
namespace {

struct Form {
  std::int64_t batch = 1;
  std::int64_t heads = 1;
  std::int64_t positions = 1;
  std::int64_t size = 1;
  std::int64_t half = 1;             ///< pairs that are turned
  std::int64_t angles_of_batch = 0;  ///< elements from one batch's cos to the next's; 0 = all the same
  bool interleaved = false;

  /// Where a row's angles and the elements of its pairs stand.
  [[nodiscard]] std::int64_t angle_of(std::int64_t row) const {
    return row / (heads * positions) * angles_of_batch + row % positions * half;
  }
  [[nodiscard]] std::int64_t first_of(std::int64_t pair) const { return interleaved ? 2 * pair : pair; }
  [[nodiscard]] std::int64_t second_of(std::int64_t pair) const { return interleaved ? 2 * pair + 1 : half + pair; }
};

Result<Form> form_of(const NodeView& node) {
  const Shape& shape = node.type(0).shape;
  if (shape.size() < 2 || shape.size() > 4) {
    return fail(Code::kShapeMismatch, fmt::format("needs rank 2 to 4, got {}", to_string(shape)));
  }
  Form form;
  form.size = shape.back();
  form.positions = shape[shape.size() - 2];
  if (shape.size() > 2) form.batch = shape[0];
  if (shape.size() > 3) form.heads = shape[1];
  const std::int64_t asked = node.attributes.integer("rotary_embedding_dim");
  const std::int64_t dim = asked == 0 ? form.size : asked;
  if (dim < 0 || dim > form.size || dim % 2 != 0) {
    return fail(Code::kUnsupportedForm, fmt::format("rotary_embedding_dim {} of {}", dim, form.size));
  }
  form.half = dim / 2;
  form.interleaved = node.attributes.flag("interleaved");
  const Shape& angles = node.type(1).shape;
  const bool shared = angles == Shape{form.positions, form.half} || angles == Shape{1, form.positions, form.half};
  if (!shared) form.angles_of_batch = form.positions * form.half;
  if (node.type(2).shape != angles || (!shared && angles != Shape{form.batch, form.positions, form.half})) {
    return fail(Code::kShapeMismatch, fmt::format("cos {} and sin {} for {}", to_string(angles),
                                                  to_string(node.type(2).shape), to_string(shape)));
  }
  return form;
}

Result<std::vector<TensorType>> infer(const NodeView& node) {
  for (std::size_t i = 0; i < 3; ++i) {
    HTPIPE_CHECK_OK(check_real(node, i));
  }
  HTPIPE_CHECK_OK(form_of(node));
  return same_as_input(node);
}

Result<Kernel> float_kernel(const KernelRequest& request) {
  HTPIPE_TRY(const Form form, form_of(request.node));
  Kernel kernel;
  kernel.run = [form](const KernelCall& call) {
    for (std::int64_t row = 0; row < form.batch * form.heads * form.positions; ++row) {
      const float* in = call.in<float>(0) + row * form.size;
      float* out = call.out<float>(0) + row * form.size;
      const std::int64_t angle = form.angle_of(row);
      const float* cos = call.in<float>(1) + angle;
      const float* sin = call.in<float>(2) + angle;
      for (std::int64_t i = 0; i < form.half; ++i) {
        const std::int64_t first = form.first_of(i);
        const std::int64_t second = form.second_of(i);
        const auto a = static_cast<double>(in[first]);
        const auto b = static_cast<double>(in[second]);
        const auto c = static_cast<double>(cos[i]);
        const auto s = static_cast<double>(sin[i]);
        out[first] = static_cast<float>(c * a - s * b);
        out[second] = static_cast<float>(s * a + c * b);
      }
      std::copy(in + 2 * form.half, in + form.size, out + 2 * form.half);
    }
  };
  return kernel;
}

/// Real numbers, one rounding at the end, halves to even; what is not turned is converted.
Result<Kernel> fixed_kernel(const KernelRequest& request) {
  const NodeView& node = request.node;
  HTPIPE_TRY(const Form form, form_of(node));
  std::vector<kernels::Grid> grids;
  const TensorType& result = *request.results[0];
  for (const TensorType* type : {node.operands[0], node.operands[1], node.operands[2], &result}) {
    HTPIPE_TRY(const kernels::Grid grid, kernels::Grid::of(*type));
    if (grid.wide() != (size_of(result.dtype) == 2))
      return fail(Code::kNoFixedRule, "RotaryEmbedding of values of 8 and 16 bits");
    grids.push_back(grid);
  }
  std::vector<DType> types = {node.type(0).dtype, node.type(1).dtype, node.type(2).dtype, result.dtype};
  Kernel kernel;
  kernel.run = [form, grids, types, copy = kernels::convert(grids[0], grids[3])](const KernelCall& call) {
    const kernels::Grid& to = grids[3];
    const auto real = [&](std::size_t operand, std::int64_t at) {
      const std::int64_t stored = kernels::load(call.operands[operand], types[operand], at);
      return static_cast<double>(stored - grids[operand].zero) * grids[operand].scale;
    };
    const auto put = [&](std::int64_t at, double value) {
      const double q = std::rint(value / to.scale + static_cast<double>(to.zero));
      const double high = static_cast<double>(to.high);
      kernels::store(call.results[0], types[3], at, static_cast<std::int64_t>(std::clamp(q, 0.0, high)));
    };
    for (std::int64_t row = 0; row < form.batch * form.heads * form.positions; ++row) {
      const std::int64_t start = row * form.size;
      const std::int64_t angle = form.angle_of(row);
      for (std::int64_t i = 0; i < form.half; ++i) {
        const std::int64_t first = start + form.first_of(i);
        const std::int64_t second = start + form.second_of(i);
        const double a = real(0, first);
        const double b = real(0, second);
        const double c = real(1, angle + i);
        const double s = real(2, angle + i);
        put(first, c * a - s * b);
        put(second, s * a + c * b);
      }
      for (std::int64_t i = start + 2 * form.half; i < start + form.size; ++i) {
        kernels::store(call.results[0], types[3], i, copy(kernels::load(call.operands[0], types[0], i)));
      }
    }
  };
  return kernel;
}

Status check_lowering(const NodeView& node) {
  if (node.attributes.integer("rotary_embedding_dim") == 0) {
    return fail(Code::kUnsupportedForm, "the chip turns nothing right with rotary_embedding_dim 0; name the number");
  }
  if (node.type(1).shape.size() == 3) return {};
  return fail(Code::kUnsupportedForm, "QNN's RotaryEmbedding takes cos and sin as [batch, positions, dim / 2] only");
}

}  // namespace

const OpDef& rotary_embedding() {
  static const OpDef op = [] {
    OpDef def;
    def.name = "RotaryEmbedding";
    def.doc = "Pairs of elements turned by an angle that depends on the position.";
    def.operands = {{"input"}, {"cos"}, {"sin"}};
    def.attributes = {{"interleaved", false, false, "pairs are neighbours instead of halves"},
                      {"rotary_embedding_dim", std::int64_t{0}, false, "elements that are turned; 0 = all"}};
    def.infer = infer;
    def.float_kernel = float_kernel;
    def.fixed_kernel = fixed_kernel;
    def.lowering = {"RotaryEmbedding",
                    {{"interleaved", "interleaved", ParamKind::kBool},
                     {"rotary_embedding_dim", "rotary_embedding_dim", ParamKind::kU32}},
                    check_lowering};
    return def;
  }();
  return op;
}

}  // namespace htpipe::ops
