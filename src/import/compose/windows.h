// What compositions of convolutions and pooling share: lists per spatial axis, padding and cropping, the way of data
// with one spatial axis through operators with two.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "import/builder.h"

namespace htpipe::compose {

using IntList = std::vector<std::int64_t>;

/// `list` with one number per axis: empty becomes `fallback` everywhere, one number is repeated.
/// Errors: unsupported-form for another length, or for numbers outside [low, 2^20].
Result<IntList> per_axis(const IntList& list, std::size_t axes, std::int64_t fallback, std::int64_t low,
                         std::string_view what);

/// Number of spatial axes of [n,c,spatial 1..3]. Errors: unsupported-form.
Result<std::size_t> spatial_axes(const Value* input);

/// [before, after] of each axis in one list, as pad_amount has it.
[[nodiscard]] IntList interleaved(const IntList& before, const IntList& after);

/// Cuts off as many elements of the spatial axes as negative paddings say, and sets those to 0.
Result<Value*> crop_negative(Builder& builder, Value* input, IntList& pad_begin, IntList& pad_end);

/// [.., l] as [.., 1, l], and back: the height that data with one spatial axis lacks.
Result<Value*> add_height(Builder& builder, Value* value, std::string_view suffix);
Result<Value*> drop_height(Builder& builder, Value* value);

}  // namespace htpipe::compose
