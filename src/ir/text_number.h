// Numbers of the text form: reading them, and storing them as elements of a constant.
// Invariant: a number that its type cannot hold is an error, never another number.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "tensor/tensor.h"

namespace htpipe::text {

/// All of these read the whole text. Errors: graph-syntax.
Result<std::int64_t> parse_integer(const std::string& text);
Result<double> parse_double(const std::string& text);
Result<float> parse_float(const std::string& text);

/// Stores `text` as element `index`. Errors: graph-syntax, also for bf16, which has no written form.
Status store_element(Tensor& tensor, std::int64_t index, const std::string& text);
/// Stores a pseudo-random element made from 32 random bits: uniform in [-1,1), or one of the integers of at most 8 bits
/// that the type has. Errors: graph-syntax for bf16.
Status store_random(Tensor& tensor, std::int64_t index, std::uint32_t bits);

}  // namespace htpipe::text
