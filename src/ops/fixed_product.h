// Integer matrix product plus requantisation: the fixed-point core that Conv2d, FullyConnected and MatMul share.
// Inputs are taken as unsigned bytes (16-bit ones as two planes of them), so that their zero point leaves by the sums of
// the weights. Rows of the product are output pixels; what they multiply is read where it lies, cell by cell of the
// window, or gathered where a cell's channels do not come in fours.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "ir/op.h"
#include "kernels/fixed/conv_requant.h"
#include "kernels/fixed/fixed_loops.h"
#include "kernels/fixed/packed_bytes.h"
#include "kernels/fixed/row_requant.h"
#include "kernels/window.h"

namespace htpipe::ops {

class FixedProduct {
 public:
  struct Request {
    const TensorType& input;
    const TensorType& output;
    const kernels::ColumnWeights& weights;  ///< row-major [k, n]; with groups, group g owns n/group columns
    std::int64_t k = 0;
    std::int64_t n = 0;
    std::int64_t group = 1;
    std::span<const std::int32_t> bias;
    float bias_scale = 1;
    int htp_version = 73;
    kernels::ConvForm form = kernels::ConvForm::kStandard;
    const Tensor* constant = nullptr;  ///< the graph's constant behind `weights`, to share their packed form; or null
  };
  /// Errors: no-fixed-rule.
  static Result<FixedProduct> make(const Request& request);
  /// The same for a node whose operand 0 is the data, 1 the weights, and 2 a constant bias.
  static Result<FixedProduct> make(const KernelRequest& request, const kernels::ColumnWeights& weights, std::int64_t k,
                                   std::int64_t n, std::int64_t group,
                                   kernels::ConvForm form = kernels::ConvForm::kStandard);

  /// Scratch of run(): of the call and of each of its lanes.
  [[nodiscard]] std::size_t scratch_bytes(const kernels::Window& window) const;
  [[nodiscard]] std::size_t lane_scratch_bytes(const kernels::Window& window) const;
  /// All outputs of `window`, whose channels are those of all groups: [n, out_h, out_w, n columns] from [n, in_h, in_w,
  /// channels]. Uses the scratch and the lanes of `call` from byte `scratch_offset` on.
  void run(const kernels::Window& window, const void* in, void* out, const KernelCall& call,
           std::size_t scratch_offset = 0) const;

 private:
  /// Packed weights of each group.
  struct Packed {
    std::vector<kernels::PackedBytes> low;
    std::vector<kernels::PackedBytes> high;  ///< upper halves of 16-bit weights; empty without
  };
  struct Job;
  static Packed pack(const Request& request);
  [[nodiscard]] bool splits() const;
  [[nodiscard]] bool gathers(const kernels::Window& window) const;
  [[nodiscard]] std::int64_t rows_at_once(const kernels::Window& window) const;
  void run_image(Job& job, const KernelCall& call) const;
  void run_item(const Job& job, std::int64_t item, std::byte* lane) const;
  bool run_bytes(const Job& job, std::int64_t g, const kernels::Panel& panel, const std::uint8_t* const* table,
                 std::int64_t steps, std::int64_t first, std::int64_t rows) const;
  void run_tile(const Job& job, std::int64_t g, const kernels::Panel& panel, const std::uint8_t* const* const* tables,
                std::int64_t steps, std::int64_t pixel, std::int64_t rows) const;
  void make_table(const Job& job, std::int64_t g, int plane, std::int64_t first, std::int64_t rows,
                  const std::uint8_t** table) const;
  void gather(const Job& job, std::int64_t g, int plane, std::int64_t first, std::int64_t rows,
              std::uint8_t* patches) const;

  std::shared_ptr<const Packed> packed_;
  kernels::RowRequant requant_;
  std::vector<kernels::Panel> panels_;
  std::int64_t tile_rows_ = 1;
  std::int64_t k_ = 0;
  std::int64_t n_ = 0;
  std::int64_t group_ = 1;
  DType input_dtype_ = DType::kU8;
  std::size_t output_size_ = 1;
  int input_planes_ = 1;
  std::vector<std::uint8_t> padding_[2];  ///< the zero point of a cell's channels, low and high half
};

/// The constant bias of a node as 32-bit integers; empty when it has none. Errors: no-fixed-rule.
Result<std::vector<std::int32_t>> stored_bias(const NodeView& node, std::size_t operand);

}  // namespace htpipe::ops
