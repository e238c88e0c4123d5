// Quantize: float to stored integers. Source: QNN operator Quantize; rounding as the chip's (docs/htp-arithmetic.md).
// Without a chip (htp_version 0) it follows ONNX's QuantizeLinear: x / scale is rounded half to even, and cut to the
// range of the encoding's bits after the zero point was added. All integer types and encodings; NaN is the zero point.
#include <algorithm>
#include <cmath>

#include "kernels/fixed/elementwise.h"
#include "ops/fixed_map.h"
#include "ops/registry.h"
#include "ops/stored.h"
#include "ops/to_attribute.h"

namespace htpipe::ops {
namespace {

Result<Kernel> onnx_kernel(const KernelRequest& request) {
  const TensorType& type = *request.results[0];
  if (!type.encoding || !is_stored(type.dtype)) {
    return fail(Code::kNoFixedRule, "Quantize needs a result with an encoding, of at most 32 bits");
  }
  const bool is_signed = lowest(type.dtype) < 0;
  const int bits = type.encoding->bits;
  const double low = is_signed ? -std::ldexp(1.0, bits - 1) : 0.0;
  const double high = std::ldexp(1.0, is_signed ? bits - 1 : bits) - 1;
  Kernel kernel;
  kernel.run = [=, from = request.node.type(0).dtype](const KernelCall& call) {
    for_each_scale(type, [&](std::int64_t i, std::size_t at) {
      const float scaled = load_float(call.operands[0], from, i) / type.encoding->scales[at];
      const double whole = std::isnan(scaled) ? 0.0 : static_cast<double>(std::nearbyint(scaled));
      const double stored = std::clamp(whole + type.encoding->zero_points[at], low, high);
      save_stored(call.results[0], type.dtype, i, static_cast<std::int64_t>(stored));
    });
  };
  return kernel;
}

Result<Kernel> fixed_kernel(const KernelRequest& request) {
  if (request.htp_version == 0) return onnx_kernel(request);
  HTPIPE_TRY(const kernels::Grid to, kernels::Grid::of(*request.results[0]));
  const DType from = request.node.type(0).dtype;
  const DType dtype = request.results[0]->dtype;
  const std::int64_t count = request.node.type(0).count();
  Kernel kernel;
  kernel.run = [=](const KernelCall& call) {
    for_parts(call, count, kMapGrain, [&](std::int64_t begin, std::int64_t end, std::byte*) {
      for (std::int64_t i = begin; i < end; ++i) {
        const float x = from == DType::kF16 ? from_f16(call.in<std::uint16_t>(0)[i]) : call.in<float>(0)[i];
        kernels::store(call.results[0], dtype, i, kernels::quantize(x, to));
      }
    });
  };
  return kernel;
}

}  // namespace

const OpDef& quantize() {
  static const OpDef op = [] {
    OpDef def;
    def.name = "Quantize";
    def.doc = "From float to stored integers.";
    def.operands = {{"input"}};
    def.attributes = {to_attribute()};
    def.infer = [](const NodeView& node) { return infer_to(node, true, false); };
    def.fixed_kernel = fixed_kernel;
    def.layout = Layout::kElementwise;
    def.lowering = {"Quantize"};
    return def;
  }();
  return op;
}

}  // namespace htpipe::ops
