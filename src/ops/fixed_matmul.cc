#include "ops/fixed_matmul.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "ops/fixed_product.h"

namespace htpipe::ops {
namespace {

bool is_signed(DType dtype) { return dtype == DType::kI8 || dtype == DType::kI16; }

/// True when the operands are as many matrices each, which the chip multiplies one by one.
bool is_batched(const MatrixProduct& product) {
  for (std::size_t i = 0; i < product.left_of.size(); ++i) {
    if (product.left_of[i] != static_cast<std::int64_t>(i) || product.right_of[i] != product.left_of[i]) return false;
  }
  return product.left_of.size() > 1;
}

/// How the chip multiplies (docs/htp-arithmetic.md, "MatMul"). Errors: no-fixed-rule where its answer is no product.
Result<kernels::ConvForm> form_of(const MatrixProduct& product, const TensorType& left, const TensorType& right,
                                  bool constant) {
  const Encoding& encoding = *right.encoding;
  if (product.batch.size() > 2) {
    const bool several = std::any_of(product.right_of.begin(), product.right_of.end(), [](auto i) { return i > 0; });
    if (several) return fail(Code::kNoFixedRule, "the chip mixes up the matrices of operands of rank 5");
    if (!encoding.per_tensor() || encoding.bits < 8) {
      return fail(Code::kNoFixedRule, "the chip has no product of rank 5 with scales per channel or less than 8 bits");
    }
  }
  const bool turned = product.transpose_left || product.transpose_right;
  const bool with_sign = is_signed(left.dtype) || is_signed(right.dtype);
  if (constant || turned || !with_sign || product.batch.size() > 2 || !is_batched(product)) {
    return kernels::ConvForm::kStandard;
  }
  if (size_of(left.dtype) > 1) {
    return fail(Code::kNoFixedRule, "the chip has no batched product of computed 16-bit operands with a sign");
  }
  if (left.dtype == DType::kU8 && encoding.zero_point() == 0) {
    return fail(Code::kNoFixedRule,
                "the chip's batched product of u8 and computed symmetric i8 is wrong for some sizes");
  }
  return kernels::ConvForm::kExact;
}

/// Copies the transpose of [rows, columns].
void turn(const std::byte* from, std::int64_t rows, std::int64_t columns, std::size_t size, std::byte* to) {
  for (std::int64_t c = 0; c < columns; ++c) {
    for (std::int64_t r = 0; r < rows; ++r, to += size)
      std::memcpy(to, from + (r * columns + c) * static_cast<std::int64_t>(size), size);
  }
}

class FixedMatMul {
 public:
  FixedMatMul(const KernelRequest& request, const MatrixProduct& product)
      : product_(product),
        left_(request.node.type(0)),
        right_(request.node.type(1)),
        result_(*request.results[0]),
        htp_version_(request.htp_version) {
    const std::int64_t size = product_.k * product_.n;
    matrix_ = right_;
    matrix_.shape = product_.transpose_right ? Shape{product_.n, product_.k} : Shape{product_.k, product_.n};
    matrices_ = size > 0 ? right_.count() / size : 0;
    if (matrix_.encoding && !matrix_.encoding->per_tensor()) {
      matrix_.encoding->axis -= static_cast<int>(right_.shape.size()) - 2;
    }
  }

  /// Everything that can fail, tried with zeros where the right operand is computed.
  Status prepare(const Tensor* constant) {
    if (product_.k < 1 || product_.n < 1) return fail(Code::kNoFixedRule, "a product without elements");
    if (matrix_.encoding && !matrix_.encoding->per_tensor() && (matrix_.encoding->axis < 0 || matrices_ > 1)) {
      return fail(Code::kNoFixedRule, "scales of several matrices");
    }
    if (!left_.encoding || !right_.encoding) return fail(Code::kNoFixedRule, "an operand without an encoding");
    HTPIPE_TRY(form_, form_of(product_, left_, right_, constant != nullptr));
    const std::vector<std::byte> zeros(constant == nullptr ? matrix_.size_bytes() : 0);
    const std::byte* data = constant == nullptr ? zeros.data() : constant->bytes().data();
    for (std::int64_t i = 0; i < (constant == nullptr ? 1 : matrices_); ++i) {
      HTPIPE_TRY(FixedProduct made, right_matrix(data + static_cast<std::size_t>(i) * matrix_.size_bytes()));
      scratch_bytes_ = std::max(scratch_bytes_, made.scratch_bytes(window()));
      lane_scratch_bytes_ = std::max(lane_scratch_bytes_, made.lane_scratch_bytes(window()));
      if (constant != nullptr) constants_.push_back(std::move(made));
    }
    return {};
  }

  [[nodiscard]] std::size_t scratch_bytes() const { return turned_bytes() + scratch_bytes_; }
  [[nodiscard]] std::size_t lane_scratch_bytes() const { return lane_scratch_bytes_; }

  void run(const KernelCall& call) const {
    const std::int64_t left_bytes = product_.m * product_.k * static_cast<std::int64_t>(size_of(left_.dtype));
    FixedProduct computed;
    std::int64_t at = -1;
    for (std::size_t i = 0; i < product_.left_of.size(); ++i) {
      const std::byte* left = call.in<std::byte>(0) + product_.left_of[i] * left_bytes;
      if (product_.transpose_left) {
        turn(left, product_.k, product_.m, size_of(left_.dtype), call.scratch);
        left = call.scratch;
      }
      if (constants_.empty() && std::exchange(at, product_.right_of[i]) != product_.right_of[i]) {
        const auto offset = static_cast<std::size_t>(at) * matrix_.size_bytes();
        computed = *right_matrix(call.in<std::byte>(1) + offset);  // prepare() tried it
      }
      const FixedProduct& right =
          constants_.empty() ? computed : constants_[static_cast<std::size_t>(product_.right_of[i])];
      const std::int64_t result_bytes = product_.m * product_.n * static_cast<std::int64_t>(size_of(result_.dtype));
      right.run(window(), left, call.out<std::byte>(0) + static_cast<std::int64_t>(i) * result_bytes, call,
                turned_bytes());
    }
  }

 private:
  /// Rows are the pixels of an image of one row with a 1x1 window.
  [[nodiscard]] kernels::Window window() const {
    kernels::Window window;
    window.channels = product_.k;
    window.in_w = window.out_w = product_.m;
    return window;
  }
  [[nodiscard]] std::size_t turned_bytes() const {
    if (!product_.transpose_left) return 0;
    return (static_cast<std::size_t>(product_.m * product_.k) * size_of(left_.dtype) + 63) / 64 * 64;
  }

  [[nodiscard]] Result<FixedProduct> right_matrix(const std::byte* data) const {
    const kernels::ColumnOrder order = {product_.n, product_.transpose_right ? product_.k : 1};
    const auto excess = form_ == kernels::ConvForm::kExact ? kernels::Excess::kKeep : kernels::Excess::kShrink;
    HTPIPE_TRY(kernels::ColumnWeights weights, kernels::column_weights(matrix_, data, order, excess));
    if (product_.transpose_right) {
      std::vector<std::int16_t> turned(weights.values.size());
      turn(reinterpret_cast<const std::byte*>(weights.values.data()), product_.n, product_.k, sizeof(std::int16_t),
           reinterpret_cast<std::byte*>(turned.data()));
      weights.values = std::move(turned);
    }
    return FixedProduct::make({left_, result_, weights, product_.k, product_.n, 1, {}, 1.0F, htp_version_, form_});
  }

  MatrixProduct product_;
  TensorType left_;
  TensorType right_;
  TensorType result_;
  TensorType matrix_;  ///< one matrix of the right operand
  int htp_version_;
  kernels::ConvForm form_ = kernels::ConvForm::kStandard;
  std::int64_t matrices_ = 0;
  std::size_t scratch_bytes_ = 0;
  std::size_t lane_scratch_bytes_ = 0;
  std::vector<FixedProduct> constants_;  ///< of each matrix, when the right operand is constant
};

}  // namespace

Result<Kernel> fixed_matrix_product(const KernelRequest& request, const MatrixProduct& product) {
  auto matmul = std::make_shared<FixedMatMul>(request, product);
  HTPIPE_CHECK_OK(matmul->prepare(request.node.constants[1]));
  Kernel kernel;
  kernel.scratch_bytes = matmul->scratch_bytes();
  kernel.lane_scratch_bytes = matmul->lane_scratch_bytes();
  kernel.run = [matmul](const KernelCall& call) { matmul->run(call); };
  return kernel;
}

}  // namespace htpipe::ops
