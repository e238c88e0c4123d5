// MatMul: products of the matrices in the last two axes; the axes in front broadcast as in numpy.
// Source: QNN operator MatMul (without its optional bias).
#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "kernels/gemm_f32.h"
#include "ops/fixed_matmul.h"
#include "ops/packed.h"
#include "ops/product.h"
#include "ops/registry.h"

namespace htpipe::ops {
namespace {

/// Elements whose packing is worth a hand-over to another thread.
constexpr std::int64_t kPackGrain = 1 << 14;

/// Size of an axis of both operands that broadcast; -1 when they do not.
std::int64_t broadcast(std::int64_t a, std::int64_t b) {
  if (a == b || b == 1) return a;
  return a == 1 ? b : -1;
}

Result<MatrixProduct> sizes_of(const NodeView& node) {
  const Shape& a = node.type(0).shape;
  const Shape& b = node.type(1).shape;
  const auto misfit = [&] {
    return fail(Code::kShapeMismatch, fmt::format("{} times {} does not fit", to_string(a), to_string(b)));
  };
  if (a.size() < 2 || b.size() < 2) return misfit();
  MatrixProduct product;
  product.transpose_left = node.attributes.flag("transpose_in0");
  product.transpose_right = node.attributes.flag("transpose_in1");
  product.m = a[a.size() - (product.transpose_left ? 1 : 2)];
  product.k = a[a.size() - (product.transpose_left ? 2 : 1)];
  product.n = b[b.size() - (product.transpose_right ? 2 : 1)];
  if (b[b.size() - (product.transpose_right ? 1 : 2)] != product.k) return misfit();
  const std::size_t rank = std::max(a.size(), b.size());
  for (std::size_t axis = 0; axis + 2 < rank; ++axis) {
    const std::int64_t left = axis + a.size() < rank ? 1 : a[axis + a.size() - rank];
    const std::int64_t right = axis + b.size() < rank ? 1 : b[axis + b.size() - rank];
    product.batch.push_back(broadcast(left, right));
    if (product.batch.back() < 0) return misfit();
  }
  return product;
}

/// Which matrix of an operand goes into each matrix of the result.
std::vector<std::int64_t> matrices_of(const Shape& operand, const Shape& batch) {
  std::vector<std::int64_t> matrices = {0};
  const std::size_t missing = batch.size() + 2 - operand.size();
  std::int64_t stride = 1;
  for (std::size_t axis = missing; axis < batch.size(); ++axis) stride *= operand[axis - missing];
  for (std::size_t axis = 0; axis < batch.size(); ++axis) {
    const std::int64_t own = axis < missing ? 1 : operand[axis - missing];
    if (axis >= missing && own > 0) stride /= own;
    std::vector<std::int64_t> next;
    for (const std::int64_t start : matrices) {
      for (std::int64_t i = 0; i < batch[axis]; ++i) next.push_back(start + (own == 1 ? 0 : i * stride));
    }
    matrices = std::move(next);
  }
  return matrices;
}

Result<MatrixProduct> product_of(const NodeView& node) {
  HTPIPE_TRY(MatrixProduct product, sizes_of(node));
  product.left_of = matrices_of(node.type(0).shape, product.batch);
  product.right_of = matrices_of(node.type(1).shape, product.batch);
  return product;
}

Result<std::vector<TensorType>> infer(const NodeView& node) {
  HTPIPE_TRY(const MatrixProduct product, sizes_of(node));
  const TensorType& a = node.type(0);
  const TensorType& b = node.type(1);
  const bool stored = a.encoding && b.encoding;  // the chip multiplies 16-bit by 8-bit values
  if (a.dtype == DType::kBool || (a.dtype != b.dtype && !stored)) {
    return fail(Code::kDtypeMismatch, fmt::format("{} times {}", name_of(a.dtype), name_of(b.dtype)));
  }
  Shape shape = product.batch;
  shape.push_back(product.m);
  shape.push_back(product.n);
  return std::vector<TensorType>{{a.dtype, std::move(shape), std::nullopt}};
}

Result<Kernel> integer_kernel(MatrixProduct product) {
  Kernel kernel;
  kernel.run = [p = std::move(product)](const KernelCall& call) {
    // Unsigned, so that an overflow wraps.
    const auto* left = call.in<std::uint64_t>(0);
    const auto* right = call.in<std::uint64_t>(1);
    auto* out = call.out<std::uint64_t>(0);
    for (std::size_t i = 0; i < p.left_of.size(); ++i) {
      const std::uint64_t* a = left + p.left_of[i] * p.m * p.k;
      const std::uint64_t* b = right + p.right_of[i] * p.k * p.n;
      for (std::int64_t row = 0; row < p.m; ++row) {
        for (std::int64_t column = 0; column < p.n; ++column) {
          std::uint64_t sum = 0;
          for (std::int64_t k = 0; k < p.k; ++k) {
            sum += a[p.transpose_left ? k * p.m + row : row * p.k + k] *
                   b[p.transpose_right ? column * p.k + k : k * p.n + column];
          }
          *out++ = sum;
        }
      }
    }
  };
  return kernel;
}

void pack_right(const MatrixProduct& p, const float* right, std::int64_t matrix, float* panels) {
  kernels::pack_f32(right + matrix * p.k * p.n, p.k, p.n, p.transpose_right ? 1 : p.n, p.transpose_right ? p.k : 1,
                    panels);
}

/// Rows that one product of matrices takes: all of them when the matrices of `left` lie one behind the other and meet
/// the same matrix on the right.
std::int64_t joined_matrices(const MatrixProduct& p) {
  if (p.transpose_left) return 1;
  for (std::size_t i = 0; i < p.left_of.size(); ++i) {
    if (p.right_of[i] != 0 || p.left_of[i] != static_cast<std::int64_t>(i)) return 1;
  }
  return static_cast<std::int64_t>(p.left_of.size());
}

/// The panels of every matrix on the right, in the call's scratch.
const float* pack_all(const MatrixProduct& p, std::int64_t matrices, const KernelCall& call) {
  auto* panels = reinterpret_cast<float*>(call.scratch);
  const std::int64_t panel_count = kernels::packed_count_f32(p.k, p.n);
  for_parts(call, matrices, kPackGrain / std::max<std::int64_t>(panel_count, 1) + 1,
            [&](std::int64_t begin, std::int64_t end, std::byte*) {
              for (std::int64_t i = begin; i < end; ++i) {
                pack_right(p, call.in<float>(1), i, panels + i * panel_count);
              }
            });
  return panels;
}

/// Fills blocks from a matrix [k, m].
struct ColumnsF32 {
  const float* data;
  std::int64_t m;
  void operator()(std::int64_t row, std::int64_t rows, std::int64_t step, std::int64_t steps, float* block) const {
    for (std::int64_t k = 0; k < steps; ++k) {
      const float* source = data + (step + k) * m + row;
      for (std::int64_t r = 0; r < rows; ++r) block[r * kernels::kBlockStride + k] = source[r];
    }
  }
};

/// Shares out the rows of all products, a tile of one product being an item.
void multiply_all(const MatrixProduct& p, const float* panels, std::int64_t panel_count, std::int64_t joined,
                  const KernelCall& call) {
  const std::int64_t products = static_cast<std::int64_t>(p.left_of.size()) / joined;
  const std::int64_t m = joined * p.m;
  const auto of = [joined](const std::vector<std::int64_t>& list, std::int64_t i) {
    return list[static_cast<std::size_t>(i * joined)];
  };
  if (products == 1 && !p.transpose_left) {
    const float* left = call.in<float>(0) + of(p.left_of, 0) * p.m * p.k;
    share_product(call, m, kernels::RowsF32{left, p.k}, {p.k, p.n, panels + of(p.right_of, 0) * panel_count},
                  call.out<float>(0), p.n, {});
    return;
  }
  const std::int64_t tiles = (m + kernels::kRowTile - 1) / kernels::kRowTile;
  const std::int64_t macs = std::max<std::int64_t>(kernels::kRowTile * p.k * p.n, 1);
  for_parts(call, products * tiles, kProductGrain / macs + 1,
            [&](std::int64_t begin, std::int64_t end, std::byte* scratch) {
              auto* block = reinterpret_cast<float*>(scratch);
              while (begin < end) {
                const std::int64_t i = begin / tiles;
                const std::int64_t row = begin % tiles * kernels::kRowTile;
                const std::int64_t stop = std::min(end, (i + 1) * tiles);
                const std::int64_t rows = std::min(m, (stop - i * tiles) * kernels::kRowTile) - row;
                const float* left = call.in<float>(0) + of(p.left_of, i) * p.m * p.k;
                const kernels::PanelsF32 right = {p.k, p.n, panels + of(p.right_of, i) * panel_count};
                float* out = call.out<float>(0) + (i * m + row) * p.n;
                if (p.transpose_left) {
                  const ColumnsF32 columns = {left, p.m};
                  const auto fill = [&](std::int64_t r, std::int64_t count, std::int64_t step, std::int64_t steps,
                                        float* to) { columns(row + r, count, step, steps, to); };
                  kernels::gemm_f32(fill, right, 0, right.panels(), out, p.n, rows, {}, block);
                } else {
                  kernels::gemm_f32(kernels::RowsF32{left + row * p.k, p.k}, right, 0, right.panels(), out, p.n, rows,
                                    {}, block);
                }
                begin = stop;
              }
            });
}

Result<Kernel> float_kernel(const KernelRequest& request) {
  HTPIPE_TRY(MatrixProduct p, product_of(request.node));
  if (request.node.type(0).dtype == DType::kI64) return integer_kernel(std::move(p));
  if (request.node.type(0).dtype != DType::kF32) {
    return fail(Code::kUnsupportedForm, fmt::format("no product of {}", name_of(request.node.type(0).dtype)));
  }
  const std::int64_t panel_count = kernels::packed_count_f32(p.k, p.n);
  const std::int64_t matrices = p.k * p.n > 0 ? request.node.type(1).count() / (p.k * p.n) : 0;
  // Constant right-hand sides are packed once, others in every run.
  std::shared_ptr<const std::vector<float>> constant;
  if (const Tensor* right = request.node.constants[1]) {
    const std::string kind = fmt::format("product {} {} {}", p.k, p.n, p.transpose_right);
    constant = shared_packed<std::vector<float>>(*right, kind, [&] {
      std::vector<float> panels(static_cast<std::size_t>(matrices * panel_count));
      for (std::int64_t i = 0; i < matrices; ++i) {
        pack_right(p, right->data<float>().data(), i, panels.data() + i * panel_count);
      }
      return panels;
    });
  }
  const std::int64_t joined = joined_matrices(p);
  Kernel kernel;
  kernel.scratch_bytes = constant ? 0 : static_cast<std::size_t>(matrices * panel_count) * sizeof(float);
  kernel.lane_scratch_bytes = kProductScratch;
  kernel.run = [p = std::move(p), constant, panel_count, matrices, joined](const KernelCall& call) {
    const float* panels = constant ? constant->data() : pack_all(p, matrices, call);
    multiply_all(p, panels, panel_count, joined, call);
  };
  return kernel;
}

Result<Kernel> fixed_kernel(const KernelRequest& request) {
  HTPIPE_TRY(const MatrixProduct product, product_of(request.node));
  return fixed_matrix_product(request, product);
}

}  // namespace

const OpDef& mat_mul() {
  static const OpDef op = [] {
    OpDef def;
    def.name = "MatMul";
    def.doc = "Products of the matrices in the last two axes; the axes in front broadcast.";
    def.operands = {{"in0"}, {"in1"}};
    def.attributes = {{"transpose_in0", false, false, "swap the last two axes of in0 first"},
                      {"transpose_in1", false, false, "swap the last two axes of in1 first"}};
    def.infer = infer;
    def.float_kernel = float_kernel;
    def.fixed_kernel = fixed_kernel;
    def.macs = [](const NodeView& node, std::span<const TensorType* const> results) {
      const Shape& a = node.type(0).shape;
      return results[0]->count() * a[a.size() - (node.attributes.flag("transpose_in0") ? 2 : 1)];
    };
    // Always written: the vendor's validator crashes without transpose_in1 (docs/qnn-findings.md).
    def.lowering = {
        "MatMul",
        {{"transpose_in0", "transpose_in0", ParamKind::kBool}, {"transpose_in1", "transpose_in1", ParamKind::kBool}}};
    return def;
  }();
  return op;
}

}  // namespace htpipe::ops
