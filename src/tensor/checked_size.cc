#include "tensor/checked_size.h"

#include <algorithm>

namespace htpipe {

std::optional<std::uint64_t> checked_size_bytes(const Shape& shape, DType dtype) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 50;
  std::uint64_t extent = size_of(dtype);
  bool empty = false;
  for (const std::int64_t dimension : shape) {
    if (dimension < 0) return std::nullopt;
    empty = empty || dimension == 0;
    const auto factor = static_cast<std::uint64_t>(std::max<std::int64_t>(dimension, 1));
    if (extent > kMost / factor) return std::nullopt;
    extent *= factor;
  }
  return empty ? 0 : extent;
}

}  // namespace htpipe
