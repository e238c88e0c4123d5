#include "ops/fixed_product.h"

#include <algorithm>

#include "kernels/fixed/elementwise.h"

namespace htpipe::ops {
namespace {

/// 16-bit inputs are split into two halves of 8 bits, so that both fit the 16-bit product.
constexpr int kWhole = 0;
constexpr int kHighHalf = 1;
constexpr int kLowHalf = 2;

}  // namespace

Result<std::vector<std::int32_t>> stored_bias(const NodeView& node, std::size_t operand) {
  if (!node.has(operand)) return std::vector<std::int32_t>{};
  const Tensor* bias = node.constants[operand];
  if (bias == nullptr || bias->dtype() != DType::kI32) return fail(Code::kNoFixedRule, "the bias needs constant i32");
  const auto values = bias->data<std::int32_t>();
  return std::vector<std::int32_t>(values.begin(), values.end());
}

Result<FixedProduct> FixedProduct::make(const KernelRequest& request, const kernels::ColumnWeights& weights,
                                        std::int64_t k, std::int64_t n, std::int64_t group) {
  const NodeView& node = request.node;
  HTPIPE_TRY(const std::vector<std::int32_t> bias, stored_bias(node, 2));
  const float bias_scale = node.has(2) && node.type(2).encoding ? node.type(2).encoding->scale() : 1.0F;
  return make({node.type(0), *request.results[0], weights, k, n, group, bias, bias_scale, request.htp_version,
               kernels::ConvForm::kStandard});
}

Result<FixedProduct> FixedProduct::make(const Request& request) {
  if (request.k > 32768) return fail(Code::kNoFixedRule, "more than 32768 products in one sum");
  HTPIPE_TRY(const kernels::Grid grid, kernels::Grid::of(request.input));
  const std::vector<std::int16_t>& weights = request.weights.values;
  std::vector<std::int64_t> sums(static_cast<std::size_t>(request.n), 0);
  for (std::size_t i = 0; i < weights.size(); ++i) sums[i % sums.size()] += weights[i];

  FixedProduct product;
  HTPIPE_TRY(product.requant_,
             kernels::ConvRequant::make({request.input, request.weights.scales, request.output, request.bias, sums,
                                         request.bias_scale, request.n, request.form, request.htp_version}));
  product.k_ = request.k;
  product.n_ = request.n;
  product.group_ = request.group;
  product.input_zero_ = grid.zero;
  product.input_dtype_ = request.input.dtype;
  product.output_dtype_ = request.output.dtype;
  // Decided by the types alone: scratch is planned before computed weights are known.
  const bool two_parts = request.weights.scales.deep || request.form == kernels::ConvForm::kExact;
  const std::int64_t part = request.n / request.group;
  std::vector<std::int8_t> low(static_cast<std::size_t>(request.k * part));
  std::vector<std::int8_t> high(low.size());
  for (std::int64_t g = 0; g < request.group; ++g) {
    std::size_t to = 0;
    for (std::int64_t row = 0; row < request.k; ++row) {
      const std::int16_t* from = weights.data() + row * request.n + g * part;
      for (std::int64_t c = 0; c < part; ++c, ++to) {
        low[to] = kernels::low_part(from[c]);
        high[to] = kernels::high_part(from[c]);
      }
    }
    product.packed_.push_back(kernels::pack_i16(low.data(), request.k, part));
    if (two_parts) product.high_.push_back(kernels::pack_i16(high.data(), request.k, part));
  }
  return product;
}

std::size_t FixedProduct::scratch_bytes(std::int64_t width) const {
  const auto patches = static_cast<std::size_t>(width * kernels::row_stride_i16(k_)) * sizeof(std::int16_t);
  const auto sums = static_cast<std::size_t>(width * (n_ / group_)) * sizeof(std::int32_t);
  return (patches + 63) / 64 * 64 + (high_.empty() ? 2 : 4) * sums;
}

void FixedProduct::gather(const kernels::Window& window, const void* in, std::int64_t image, std::int64_t row,
                          std::int64_t first, std::int64_t count, int part, std::int16_t* patches) const {
  const std::int64_t stride = kernels::row_stride_i16(k_);
  if (stride != k_) {
    for (std::int64_t x = 0; x < window.out_w; ++x) patches[x * stride + k_] = 0;
  }
  const std::int64_t offset = image * window.in_h * window.in_w * window.channels;
  const auto zero = static_cast<std::int32_t>(input_zero_);
  const auto half = [part](std::int32_t x) { return static_cast<std::int16_t>(part == kHighHalf ? x >> 8 : x & 255); };
  switch (input_dtype_) {
    case DType::kU8:
      kernels::gather_row(window, static_cast<const std::uint8_t*>(in) + offset, row, first, count, std::int16_t{0},
                          patches, stride, [zero](std::uint8_t x) { return static_cast<std::int16_t>(x - zero); });
      break;
    case DType::kI8:
      kernels::gather_row(window, static_cast<const std::int8_t*>(in) + offset, row, first, count, std::int16_t{0},
                          patches, stride, [zero](std::int8_t x) { return static_cast<std::int16_t>(x + 128 - zero); });
      break;
    case DType::kU16:
      kernels::gather_row(window, static_cast<const std::uint16_t*>(in) + offset, row, first, count, half(zero),
                          patches, stride, [half](std::uint16_t x) { return half(x); });
      break;
    default:
      kernels::gather_row(window, static_cast<const std::int16_t*>(in) + offset, row, first, count, half(zero), patches,
                          stride, [half](std::int16_t x) { return half(x + 32768); });
      break;
  }
}

void FixedProduct::run_row(const kernels::Window& window, const void* in, std::int64_t image, std::int64_t row,
                           std::int64_t g, std::int64_t in_per_group, void* out, std::int64_t first_out,
                           std::byte* scratch) const {
  const std::int64_t width = window.out_w;
  const std::int64_t part = n_ / group_;
  auto* patches = reinterpret_cast<std::int16_t*>(scratch);
  const auto patch_bytes = static_cast<std::size_t>(width * kernels::row_stride_i16(k_)) * sizeof(std::int16_t);
  auto* sums = reinterpret_cast<std::int32_t*>(scratch + (patch_bytes + 63) / 64 * 64);
  const auto group = static_cast<std::size_t>(g);
  const bool wide = requant_.uncentred();
  // Sums of the halves of inputs and weights: low · low, high · low, low · high, high · high.
  const std::int64_t count = width * part;
  gather(window, in, image, row, g * in_per_group, in_per_group, wide ? kLowHalf : kWhole, patches);
  kernels::gemm_i16(patches, packed_[group], sums, width);
  if (!high_.empty()) kernels::gemm_i16(patches, high_[group], sums + 2 * count, width);
  if (wide) {
    gather(window, in, image, row, g * in_per_group, in_per_group, kHighHalf, patches);
    kernels::gemm_i16(patches, packed_[group], sums + count, width);
    if (!high_.empty()) kernels::gemm_i16(patches, high_[group], sums + 3 * count, width);
  }
  for (std::int64_t x = 0; x < width; ++x) {
    for (std::int64_t c = 0; c < part; ++c) {
      const std::int64_t at = x * part + c;
      std::int64_t sum = sums[at];
      if (wide) sum += std::int64_t{sums[count + at]} * 256;
      if (!high_.empty()) sum += std::int64_t{sums[2 * count + at]} * 256;
      if (!high_.empty() && wide) sum += std::int64_t{sums[3 * count + at]} * 65536;
      const std::int64_t channel = g * part + c;
      const std::int64_t q = requant_.apply(sum, static_cast<std::size_t>(channel));
      const std::int64_t index = first_out + x * n_ + channel;
      switch (output_dtype_) {
        case DType::kU8:
          static_cast<std::uint8_t*>(out)[index] = static_cast<std::uint8_t>(q);
          break;
        case DType::kI8:
          static_cast<std::int8_t*>(out)[index] = static_cast<std::int8_t>(q);
          break;
        case DType::kU16:
          static_cast<std::uint16_t*>(out)[index] = static_cast<std::uint16_t>(q);
          break;
        default:
          static_cast<std::int16_t*>(out)[index] = static_cast<std::int16_t>(q);
          break;
      }
    }
  }
}

}  // namespace htpipe::ops
