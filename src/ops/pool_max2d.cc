// PoolMax2d: maximum over a 2-D window; cells outside the image do not count. Source: QNN operator PoolMax2d.
#include <algorithm>
#include <limits>
#include <optional>

#include "kernels/fixed/elementwise.h"
#include "kernels/fixed/fixed_loops.h"
#include "ops/lanes.h"
#include "ops/pool.h"
#include "ops/registry.h"

namespace htpipe::ops {
namespace {

/// Maxima of the stored values of one output line.
template <typename T>
void maxima(const kernels::Window& w, void (*better)(const T*, std::int64_t, T*), const T* in, std::int64_t line,
            T* out) {
  const std::int64_t image = line / w.out_h * w.in_pixels();
  for (std::int64_t column = 0; column < w.out_w; ++column, out += w.channels) {
    bool first = true;
    for (std::int64_t kh = 0; kh < w.kernel_h; ++kh) {
      const std::int64_t y = w.row_of(line % w.out_h, kh);
      for (std::int64_t kw = 0; kw < w.kernel_w; ++kw) {
        const std::int64_t x = w.column_of(column, kw);
        if (!w.inside(y, x)) continue;
        const T* cell = in + (image + y * w.in_w + x) * w.channels;
        if (first) {
          std::copy_n(cell, w.channels, out);
        } else {
          better(cell, w.channels, out);
        }
        first = false;
      }
    }
    if (first) std::fill_n(out, w.channels, std::numeric_limits<T>::lowest());
  }
}

void maxima(const kernels::Window& w, DType dtype, const void* in, std::int64_t line, void* out) {
  const kernels::FixedLoops& loops = kernels::fixed_loops();
  switch (dtype) {
    case DType::kU8:
      return maxima(w, loops.max_u8, static_cast<const std::uint8_t*>(in), line, static_cast<std::uint8_t*>(out));
    case DType::kI8:
      return maxima(w, loops.max_i8, static_cast<const std::int8_t*>(in), line, static_cast<std::int8_t*>(out));
    case DType::kU16:
      return maxima(w, loops.max_u16, static_cast<const std::uint16_t*>(in), line, static_cast<std::uint16_t*>(out));
    default:
      return maxima(w, loops.max_i16, static_cast<const std::int16_t*>(in), line, static_cast<std::int16_t*>(out));
  }
}

Result<Kernel> fixed_kernel(const KernelRequest& request) {
  HTPIPE_TRY(const kernels::Window window, pool_window(request.node));
  HTPIPE_CHECK_OK(require_no_dilation(request.node));
  if (!is_nhwc(request.node.attributes)) return fail(Code::kNoFixedRule, "only channel-last data has an integer rule");
  HTPIPE_TRY(const kernels::Grid from, kernels::Grid::of(request.node.type(0)));
  HTPIPE_TRY(const kernels::Grid to, kernels::Grid::of(*request.results[0]));
  const DType in_dtype = request.node.type(0).dtype;
  const DType out_dtype = request.results[0]->dtype;
  // With another scale the chip takes the maximum first and rescales it by a table.
  std::optional<kernels::UnaryMap> rescale;
  if (from != to || in_dtype != out_dtype) {
    rescale.emplace(kernels::table([](double x) { return x; }, from, to), in_dtype, out_dtype);
  }
  const std::int64_t line_count = window.out_w * window.channels;
  Kernel kernel;
  if (rescale) kernel.lane_scratch_bytes = static_cast<std::size_t>(line_count) * size_of(in_dtype);
  kernel.run = [=](const KernelCall& call) {
    constexpr std::int64_t kGrain = 1 << 16;  // cells that are worth a hand-over to another thread
    const std::int64_t grain = kGrain / (line_count * window.cells() + 1) + 1;
    for_parts(call, window.n * window.out_h, grain, [&](std::int64_t begin, std::int64_t end, std::byte* lane) {
      for (std::int64_t line = begin; line < end; ++line) {
        std::byte* out = call.out<std::byte>(0) + line * line_count * static_cast<std::int64_t>(size_of(out_dtype));
        maxima(window, in_dtype, call.operands[0], line, rescale ? lane : out);
        if (rescale) rescale->run(lane, out, 0, line_count);
      }
    });
  };
  return kernel;
}

}  // namespace

const OpDef& pool_max2d() {
  static const OpDef op = [] {
    OpDef def;
    def.name = "PoolMax2d";
    def.doc = "Maximum over a 2-D window.";
    def.operands = {{"input"}};
    def.attributes = pool_attributes();
    def.infer = [](const NodeView& node) { return infer_pool(node); };
    def.float_kernel = max_pool_kernel;
    def.fixed_kernel = fixed_kernel;
    def.layout = Layout::kSpatial;
    def.result_encoding = ResultEncoding::kSameAsInput;
    def.exactness = Exactness::kCopy;
    def.lowering = pool_lowering("PoolMax2d", false);
    return def;
  }();
  return op;
}

}  // namespace htpipe::ops
