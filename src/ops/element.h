// One stored element of any data type, as bytes: what padding and filling write.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/result.h"
#include "tensor/tensor.h"

namespace htpipe::ops {

using Element = std::array<std::byte, 8>;  ///< the first size_of(dtype) bytes count

/// `value` in the data type of `type`: rounded to nearest, integers cut to their range, bool is != 0. With an encoding
/// it is the stored integer, rounded half to even. Errors: no-fixed-rule for an encoding per channel.
Result<Element> element_of(double value, const TensorType& type);

/// Writes `count` copies of an element of `size` bytes.
void fill(void* to, std::int64_t count, const Element& element, std::size_t size);

}  // namespace htpipe::ops
