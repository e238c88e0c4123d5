#include "ops/fixed_product.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "kernels/fixed/elementwise.h"
#include "ops/lanes.h"
#include "ops/packed.h"

namespace htpipe::ops {
namespace {

using kernels::Panel;
using kernels::Window;

/// Output pixels of a work item, and how many an image may have to be one item for each panel of columns instead.
constexpr std::int64_t kItemRows = 96;
constexpr std::int64_t kSmallImage = 256;
/// Bytes of gathered patches and of tables that stay in the first caches.
constexpr std::int64_t kCachedBytes = 1 << 17;
/// Bytes that are copied in one move.
constexpr std::int64_t kShortCopy = 32;
/// Multiplications that are worth a hand-over to another thread.
constexpr std::int64_t kWorthwhile = 1 << 19;

std::size_t aligned(std::int64_t bytes) { return static_cast<std::size_t>((bytes + 63) / 64 * 64); }

}  // namespace

Result<std::vector<std::int32_t>> stored_bias(const NodeView& node, std::size_t operand) {
  if (!node.has(operand)) return std::vector<std::int32_t>{};
  const Tensor* bias = node.constants[operand];
  if (bias == nullptr || bias->dtype() != DType::kI32) return fail(Code::kNoFixedRule, "the bias needs constant i32");
  const auto values = bias->data<std::int32_t>();
  return std::vector<std::int32_t>(values.begin(), values.end());
}

/// What one call computes of one image.
struct FixedProduct::Job {
  const Window& window;
  const std::uint8_t* planes[2];  ///< of the image, unsigned view
  std::byte* out = nullptr;       ///< of the image
  bool gathers = false;
  std::int64_t pixels = 0;
  std::int64_t rows = 0;         ///< of an item
  std::int64_t row_items = 0;    ///< items along the pixels
  std::int64_t panel_items = 1;  ///< items along the columns: 1, or one for each panel
  std::int64_t in_per_group = 0;
};

FixedProduct::Packed FixedProduct::pack(const Request& request) {
  const std::vector<std::int16_t>& weights = request.weights.values;
  std::vector<std::int8_t> low(weights.size());
  // Decided by the types alone: scratch is planned before computed weights are known.
  const bool two_parts = request.weights.scales.deep || request.form == kernels::ConvForm::kExact;
  std::vector<std::int8_t> high(two_parts ? weights.size() : 0);
  for (std::size_t i = 0; i < weights.size(); ++i) low[i] = kernels::low_part(weights[i]);
  for (std::size_t i = 0; i < high.size(); ++i) high[i] = kernels::high_part(weights[i]);
  Packed packed;
  const std::int64_t part = request.n / request.group;
  for (std::int64_t g = 0; g < request.group; ++g) {
    packed.low.push_back(kernels::pack_bytes(low.data() + g * part, request.k, part, request.n));
    if (!high.empty()) packed.high.push_back(kernels::pack_bytes(high.data() + g * part, request.k, part, request.n));
  }
  return packed;
}

Result<FixedProduct> FixedProduct::make(const KernelRequest& request, const kernels::ColumnWeights& weights,
                                        std::int64_t k, std::int64_t n, std::int64_t group, kernels::ConvForm form) {
  const NodeView& node = request.node;
  HTPIPE_TRY(const std::vector<std::int32_t> bias, stored_bias(node, 2));
  const float bias_scale = node.has(2) && node.type(2).encoding ? node.type(2).encoding->scale() : 1.0F;
  return make({node.type(0), *request.results[0], weights, k, n, group, bias, bias_scale, request.htp_version, form,
               node.constants[1]});
}

Result<FixedProduct> FixedProduct::make(const Request& request) {
  if (request.k > 32768) return fail(Code::kNoFixedRule, "more than 32768 products in one sum");
  HTPIPE_TRY(const kernels::Grid grid, kernels::Grid::of(request.input));
  const std::vector<std::int16_t>& weights = request.weights.values;
  std::vector<std::int64_t> sums(static_cast<std::size_t>(request.n), 0);
  std::vector<std::int64_t> sizes(sums.size(), 0);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    sums[i % sums.size()] += weights[i];
    sizes[i % sums.size()] += std::abs(weights[i]);
  }
  HTPIPE_TRY(const kernels::ConvRequant requant,
             kernels::ConvRequant::make({request.input, request.weights.scales, request.output, request.bias, sums,
                                         request.bias_scale, request.n, request.form, request.htp_version}));
  FixedProduct product;
  const bool exact = request.form == kernels::ConvForm::kExact;
  const auto make_packed = [&] { return pack(request); };
  if (request.constant == nullptr) {
    product.packed_ = std::make_shared<const Packed>(make_packed());
  } else {
    product.packed_ = shared_packed<Packed>(
        *request.constant, fmt::format("bytes {} {} {} {}", request.k, request.n, request.group, exact), make_packed);
  }
  const bool wide = grid.wide();
  product.input_planes_ = wide ? 2 : 1;
  using Parts = kernels::RowRequant::Parts;
  const bool two_parts = !product.packed_->high.empty();
  kernels::RowRequant::Sums form;
  form.parts = wide ? (two_parts ? Parts::kBothHalves : Parts::kInputHalves)
                    : (two_parts ? Parts::kWeightHalves : Parts::kWhole);
  std::vector<std::int64_t> corrections;
  for (const std::int64_t sum : sums) corrections.push_back(requant.uncentred() ? 0 : grid.zero * sum);
  form.corrections = corrections;
  // 65535 |w| without 8 bits is less than 256 |w|, without 16 bits less than |w|; halves are rounded down.
  const std::int64_t unit = form.parts == Parts::kBothHalves ? 1 : 256;
  form.reach = sizes.empty() ? 0 : unit * *std::max_element(sizes.begin(), sizes.end()) + 1;
  product.requant_ = kernels::RowRequant(requant, form);
  product.k_ = request.k;
  product.n_ = request.n;
  product.group_ = request.group;
  product.input_dtype_ = request.input.dtype;
  product.output_size_ = size_of(request.output.dtype);
  const std::int64_t blocks = product.packed_->low.front().blocks();
  product.panels_ = kernels::panels_of(blocks);
  product.tile_rows_ = kernels::tile_rows(blocks);
  const auto cell = static_cast<std::size_t>(request.k);  // a cell has no more channels
  product.padding_[0].assign(cell, static_cast<std::uint8_t>(grid.zero & 255));
  product.padding_[1].assign(wide ? cell : 0, static_cast<std::uint8_t>(grid.zero >> 8));
  return product;
}

bool FixedProduct::splits() const { return input_dtype_ != DType::kU8; }

bool FixedProduct::gathers(const Window& window) const { return window.channels / group_ % 4 != 0; }

std::int64_t FixedProduct::rows_at_once(const Window& window) const {
  const std::int64_t pixels = window.out_pixels();
  const std::int64_t wanted = pixels <= kSmallImage ? pixels : kItemRows;
  const std::int64_t each =
      gathers(window) ? (k_ + 3) / 4 * 4 * input_planes_ : window.cells() * input_planes_ * std::int64_t{8};
  const std::int64_t fitting = std::max<std::int64_t>(kCachedBytes / each, 1);
  return (std::max<std::int64_t>(std::min(wanted, fitting), 1) + tile_rows_ - 1) / tile_rows_ * tile_rows_;
}

std::size_t FixedProduct::scratch_bytes(const Window& window) const {
  // Unsigned planes of one image, where the input has none.
  if (!splits()) return 0;
  return static_cast<std::size_t>(input_planes_) * aligned(window.in_pixels() * window.channels + 64);
}

std::size_t FixedProduct::lane_scratch_bytes(const Window& window) const {
  const std::int64_t rows = rows_at_once(window);
  const std::int64_t pieces = gathers(window) ? 1 : window.cells();
  std::size_t bytes = static_cast<std::size_t>(input_planes_) * aligned(rows * pieces * std::int64_t{8});
  if (gathers(window))
    bytes += static_cast<std::size_t>(input_planes_) * aligned(rows * ((k_ + 3) / 4 * 4) + kShortCopy);
  return bytes;
}

void FixedProduct::run(const Window& window, const void* in, void* out, const KernelCall& call,
                       std::size_t scratch_offset) const {
  const kernels::FixedLoops& loops = kernels::fixed_loops();
  const std::int64_t count = window.in_pixels() * window.channels;
  Job job{window, {}, nullptr, gathers(window)};
  job.pixels = window.out_pixels();
  job.rows = rows_at_once(window);
  job.row_items = (job.pixels + job.rows - 1) / job.rows;
  job.panel_items = job.pixels <= kSmallImage && !job.gathers ? static_cast<std::int64_t>(panels_.size()) : 1;
  job.in_per_group = window.channels / group_;
  auto* low = reinterpret_cast<std::uint8_t*>(call.scratch + scratch_offset);
  std::uint8_t* high = low + aligned(count + 64);
  for (std::int64_t image = 0; image < window.n; ++image) {
    job.out = static_cast<std::byte*>(out) + static_cast<std::size_t>(image * job.pixels * n_) * output_size_;
    job.planes[0] = static_cast<const std::uint8_t*>(in) + image * count;
    if (splits()) {
      for_parts(call, count, 1 << 16, [&](std::int64_t begin, std::int64_t end, std::byte*) {
        if (input_planes_ == 1) {
          loops.flip_bytes(job.planes[0] + begin, 128, end - begin, low + begin);
        } else {
          loops.split(static_cast<const std::uint16_t*>(in) + image * count + begin,
                      input_dtype_ == DType::kI16 ? 32768 : 0, end - begin, low + begin, high + begin);
        }
      });
      job.planes[0] = low;
      job.planes[1] = high;
    }
    run_image(job, call);
  }
}

void FixedProduct::run_image(Job& job, const KernelCall& call) const {
  const std::int64_t items = group_ * job.row_items * job.panel_items;
  if (items == 0) return;
  const std::int64_t work = std::max<std::int64_t>(job.pixels * n_ * k_ * requant_.parts() / items, 1);
  for_parts(call, items, std::max<std::int64_t>(kWorthwhile / work, 1),
            [&](std::int64_t begin, std::int64_t end, std::byte* lane) {
              for (std::int64_t item = begin; item < end; ++item) run_item(job, item, lane);
            });
}

void FixedProduct::run_item(const Job& job, std::int64_t item, std::byte* lane) const {
  const std::int64_t panel_item = item % job.panel_items;
  const std::int64_t row_item = item / job.panel_items % job.row_items;
  const std::int64_t g = item / job.panel_items / job.row_items;
  const std::int64_t first = row_item * job.rows;
  const std::int64_t rows = std::min(job.rows, job.pixels - first);
  const std::int64_t pieces = job.gathers ? 1 : job.window.cells();
  const std::int64_t steps = job.gathers ? (k_ + 3) / 4 : job.in_per_group / 4;
  const std::uint8_t** tables[2] = {};
  for (int plane = 0; plane < input_planes_; ++plane) {
    tables[plane] = reinterpret_cast<const std::uint8_t**>(lane);
    lane += aligned(job.rows * pieces * std::int64_t{8});
    if (job.gathers) {
      auto* patches = reinterpret_cast<std::uint8_t*>(lane);
      lane += aligned(job.rows * steps * 4 + kShortCopy);
      gather(job, g, plane, first, rows, patches);
      for (std::int64_t r = 0; r < job.rows; ++r) tables[plane][r] = patches + std::min(r, rows - 1) * steps * 4;
    } else {
      make_table(job, g, plane, first, rows, tables[plane]);
    }
  }
  const auto panels = static_cast<std::int64_t>(panels_.size());
  const std::int64_t begin = job.panel_items == 1 ? 0 : panel_item;
  const std::int64_t end = job.panel_items == 1 ? panels : panel_item + 1;
  for (std::int64_t p = begin; p < end; ++p) {
    const Panel& panel = panels_[static_cast<std::size_t>(p)];
    if (run_bytes(job, g, panel, tables[0], steps, first, rows)) continue;
    for (std::int64_t row = 0; row < rows; row += tile_rows_) {
      const std::uint8_t* const* tile[2] = {tables[0] + row * pieces, tables[1] + (input_planes_ - 1) * row * pieces};
      run_tile(job, g, panel, tile, steps, first + row, std::min(tile_rows_, rows - row));
    }
  }
}

/// Rows of a panel by tiles that requantise their sums themselves; false where there are none.
bool FixedProduct::run_bytes(const Job& job, std::int64_t g, const Panel& panel, const std::uint8_t* const* table,
                             std::int64_t steps, std::int64_t first, std::int64_t rows) const {
  const kernels::RowConstants& constants = requant_.constants();
  if (constants.form != kernels::RowConstants::Form::kWhole || constants.shifts_left || requant_.parts() > 1) {
    return false;
  }
  const kernels::FixedLoops& loops = kernels::fixed_loops();
  const bool tall = tile_rows_ == kernels::kTallRows;
  const kernels::ByteTiles tiles = tall ? loops.tall_bytes[panel.blocks - 1] : loops.wide_bytes[panel.blocks - 1];
  if (tiles == nullptr) return false;
  const kernels::PackedBytes& weights = packed_->low[static_cast<std::size_t>(g)];
  const std::int64_t part = n_ / group_;
  const std::int64_t column = panel.first * kernels::kProductBlock;
  const std::int64_t channel = g * part + column;
  auto* out = reinterpret_cast<std::uint8_t*>(job.out) + first * n_ + channel;
  tiles({table, job.gathers ? 1 : job.window.cells(), steps, weights.data.data() + panel.first * weights.block_bytes(),
         weights.block_bytes(), nullptr},
        {&constants, channel, out, n_, rows, std::min(panel.blocks * kernels::kProductBlock, part - column)});
  return true;
}

void FixedProduct::run_tile(const Job& job, std::int64_t g, const Panel& panel,
                            const std::uint8_t* const* const* tables, std::int64_t steps, std::int64_t pixel,
                            std::int64_t rows) const {
  constexpr std::int64_t kMost = kernels::kWideRows * kernels::kProductBlocks * kernels::kProductBlock;
  static_assert(kMost == kernels::kTallRows * kernels::kTallBlocks * kernels::kProductBlock);
  alignas(64) std::int32_t sums[4][kMost];
  const kernels::FixedLoops& loops = kernels::fixed_loops();
  const bool tall = tile_rows_ == kernels::kTallRows;
  const auto group = static_cast<std::size_t>(g);
  const std::int64_t part = n_ / group_;
  const std::int64_t width = panel.blocks * kernels::kProductBlock;
  const std::int64_t column = panel.first * kernels::kProductBlock;
  const std::int64_t columns = std::min(width, part - column);
  const std::int64_t channel = g * part + column;
  const auto place = [&](std::int64_t r) {
    return job.out + static_cast<std::size_t>((pixel + r) * n_ + channel) * output_size_;
  };
  kernels::TileCall call{};
  call.pieces = job.gathers ? 1 : job.window.cells();
  call.steps = steps;
  call.block_bytes = packed_->low[group].block_bytes();
  const kernels::ProductTile tile = tall ? loops.tall[panel.blocks - 1] : loops.wide[panel.blocks - 1];
  for (int i = 0; i < requant_.parts(); ++i) {
    const kernels::PackedBytes& weights = i < input_planes_ ? packed_->low[group] : packed_->high[group];
    call.table = tables[i % input_planes_];
    call.weights = weights.data.data() + panel.first * call.block_bytes;
    call.out = sums[i];
    tile(call);
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    std::int32_t* const line[4] = {sums[0] + r * width, sums[1] + r * width, sums[2] + r * width, sums[3] + r * width};
    requant_.apply(line, channel, columns, place(r));
  }
}

/// Where the cells of `rows` output pixels lie: [tile][cell][row of the tile]. Rows of a tile behind the last one repeat
/// it.
void FixedProduct::make_table(const Job& job, std::int64_t g, int plane, std::int64_t first, std::int64_t rows,
                              const std::uint8_t** table) const {
  const Window& w = job.window;
  const std::uint8_t* image = job.planes[plane] + g * job.in_per_group;
  const std::uint8_t* padding = padding_[plane].data();
  const std::int64_t cells = w.cells();
  const std::int64_t whole_tiles = (rows + tile_rows_ - 1) / tile_rows_ * tile_rows_;
  if (w.is_pointwise()) {
    for (std::int64_t r = 0; r < whole_tiles; ++r) table[r] = image + (first + std::min(r, rows - 1)) * w.channels;
    return;
  }
  std::int64_t y0 = first / w.out_w;
  std::int64_t x0 = first % w.out_w;
  for (std::int64_t r = 0; r < whole_tiles; ++r) {
    const std::uint8_t** to = table + r / tile_rows_ * tile_rows_ * cells + r % tile_rows_;
    const std::int64_t top = w.row_of(y0, 0);
    const std::int64_t left = w.column_of(x0, 0);
    for (std::int64_t kh = 0; kh < w.kernel_h; ++kh) {
      const std::int64_t y = top + kh * w.dilation_h;
      const bool inside = y >= 0 && y < w.in_h;
      const std::uint8_t* line = image + (inside ? y * w.in_w * w.channels : 0);
      for (std::int64_t kw = 0; kw < w.kernel_w; ++kw, to += tile_rows_) {
        const std::int64_t x = left + kw * w.dilation_w;
        *to = inside && x >= 0 && x < w.in_w ? line + x * w.channels : padding;
      }
    }
    if (r + 1 >= rows) continue;
    if (++x0 == w.out_w) {
      x0 = 0;
      ++y0;
    }
  }
}

/// The patches of `rows` output pixels as rows of whole fours of bytes.
void FixedProduct::gather(const Job& job, std::int64_t g, int plane, std::int64_t first, std::int64_t rows,
                          std::uint8_t* patches) const {
  const Window& w = job.window;
  const std::uint8_t* image = job.planes[plane] + g * job.in_per_group;
  const std::uint8_t padding = padding_[plane].front();
  const std::int64_t count = job.in_per_group;
  // Cells of a line that lie side by side are copied at once, few of them with what lies behind: the next line, and in
  // the patches what is written next.
  const bool joined = group_ == 1 && w.dilation_w == 1;
  const std::int64_t together = w.kernel_w * count;
  const bool is_short = together <= kShortCopy && w.in_w * w.channels >= kShortCopy;
  const std::int64_t tail = (k_ + 3) / 4 * 4 - k_;
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t top = w.row_of((first + r) / w.out_w, 0);
    const std::int64_t left = w.column_of((first + r) % w.out_w, 0);
    for (std::int64_t kh = 0; kh < w.kernel_h; ++kh) {
      const std::int64_t y = top + kh * w.dilation_h;
      const std::uint8_t* line = image + y * w.in_w * w.channels;
      if (joined && y >= 0 && y < w.in_h && left >= 0 && left + w.kernel_w <= w.in_w) {
        if (is_short && y + 1 < w.in_h) {
          std::memcpy(patches, line + left * w.channels, kShortCopy);
        } else {
          std::memcpy(patches, line + left * w.channels, static_cast<std::size_t>(together));
        }
        patches += together;
        continue;
      }
      for (std::int64_t kw = 0; kw < w.kernel_w; ++kw, patches += count) {
        const std::int64_t x = left + kw * w.dilation_w;
        if (w.inside(y, x)) {
          std::memcpy(patches, line + x * w.channels, static_cast<std::size_t>(count));
        } else {
          std::memset(patches, padding, static_cast<std::size_t>(count));
        }
      }
    }
    for (std::int64_t i = 0; i < tail; ++i) *patches++ = 0;
  }
}

}  // namespace htpipe::ops
