// The byte size of a tensor whose shape comes from a file.
#pragma once

#include <cstdint>
#include <optional>

#include "tensor/tensor.h"

namespace htpipe {

/// Bytes of a tensor of `shape` and `dtype`. nullopt when a dimension is negative or when the dimensions, zeros counted
/// as ones, multiply to more than 2^50 bytes: then element_count and strides stay free of overflow for the rest.
[[nodiscard]] std::optional<std::uint64_t> checked_size_bytes(const Shape& shape, DType dtype);

}  // namespace htpipe
