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

Result<FixedProduct> FixedProduct::make(const KernelRequest& request, std::span<const std::int8_t> weights,
                                        std::int64_t k, std::int64_t n, std::int64_t group) {
  const NodeView& node = request.node;
  if (k > 32768) return fail(Code::kNoFixedRule, "more than 32768 products in one sum");
  HTPIPE_TRY(const kernels::Grid grid, kernels::Grid::of(node.type(0)));
  HTPIPE_TRY(const std::vector<std::int32_t> bias, stored_bias(node, 2));
  std::vector<std::int64_t> sums(static_cast<std::size_t>(n), 0);
  for (std::size_t i = 0; i < weights.size(); ++i) sums[i % sums.size()] += weights[i];

  FixedProduct product;
  const float bias_scale = node.has(2) && node.type(2).encoding ? node.type(2).encoding->scale() : 1.0F;
  HTPIPE_TRY(product.requant_,
             kernels::ConvRequant::make({node.type(0), node.type(1), *request.results[0], bias, sums, bias_scale, n,
                                         kernels::ConvForm::kStandard, request.htp_version}));
  product.k_ = k;
  product.n_ = n;
  product.group_ = group;
  product.input_zero_ = grid.zero;
  product.input_dtype_ = node.type(0).dtype;
  product.output_dtype_ = request.results[0]->dtype;
  const std::int64_t part = n / group;
  for (std::int64_t g = 0; g < group; ++g) {
    std::vector<std::int8_t> columns;
    for (std::int64_t row = 0; row < k; ++row) {
      const auto begin = weights.begin() + row * n + g * part;
      columns.insert(columns.end(), begin, begin + part);
    }
    product.packed_.push_back(kernels::pack_i16(columns.data(), k, part));
  }
  return product;
}

std::size_t FixedProduct::scratch_bytes(std::int64_t width) const {
  const auto patches = static_cast<std::size_t>(width * kernels::row_stride_i16(k_)) * sizeof(std::int16_t);
  const auto sums = static_cast<std::size_t>(width * (n_ / group_)) * sizeof(std::int32_t);
  return (patches + 63) / 64 * 64 + 2 * sums;
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
  std::int32_t* high_sums = sums + width * part;
  const kernels::PackedI16& packed = packed_[static_cast<std::size_t>(g)];
  const bool wide = requant_.uncentred();
  gather(window, in, image, row, g * in_per_group, in_per_group, wide ? kLowHalf : kWhole, patches);
  kernels::gemm_i16(patches, packed, sums, width);
  if (wide) {
    gather(window, in, image, row, g * in_per_group, in_per_group, kHighHalf, patches);
    kernels::gemm_i16(patches, packed, high_sums, width);
  }
  for (std::int64_t x = 0; x < width; ++x) {
    for (std::int64_t c = 0; c < part; ++c) {
      const std::int64_t at = x * part + c;
      std::int64_t sum = sums[at];
      if (wide) sum += std::int64_t{high_sums[at]} * 256;
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
