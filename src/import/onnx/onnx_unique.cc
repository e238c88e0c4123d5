// Unique: of constants only, because the number of different elements decides about the shape of its results.
#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "import/onnx/onnx_helpers.h"
#include "import/onnx/onnx_map.h"

namespace htpipe::onnx_import::map {
namespace {

/// A tensor as a list of slices along one axis.
struct Slices {
  Tensor tensor;  ///< with the axis in front
  std::int64_t count = 0;
  std::int64_t length = 0;

  /// Orders slices by their elements; 64-bit integers are compared as integers.
  [[nodiscard]] int compare(std::int64_t a, std::int64_t b) const {
    for (std::int64_t i = 0; i < length; ++i) {
      const std::int64_t left = a * length + i;
      const std::int64_t right = b * length + i;
      if (tensor.dtype() == DType::kI64) {
        const auto data = tensor.data<std::int64_t>();
        const std::int64_t x = data[static_cast<std::size_t>(left)];
        const std::int64_t y = data[static_cast<std::size_t>(right)];
        if (x != y) return x < y ? -1 : 1;
      } else if (tensor.dtype() == DType::kU64) {
        const auto data = tensor.data<std::uint64_t>();
        const std::uint64_t x = data[static_cast<std::size_t>(left)];
        const std::uint64_t y = data[static_cast<std::size_t>(right)];
        if (x != y) return x < y ? -1 : 1;
      } else {
        const double x = tensor.real(left);
        const double y = tensor.real(right);
        if (x < y) return -1;
        if (x > y) return 1;
      }
    }
    return 0;
  }
};

bool has_nan(const Tensor& tensor) {
  for (std::int64_t i = 0; i < tensor.count(); ++i) {
    const double x = tensor.real(i);
    if (!(x == x)) return true;
  }
  return false;
}

}  // namespace

Result<Values> unique(Call& call) {
  HTPIPE_TRY(const Tensor input, call.constant_input(0));
  HTPIPE_TRY(const std::int64_t sorted, call.integer("sorted", 1));
  if (has_nan(input)) return fail(Code::kUnsupportedForm, "Unique of a tensor with NaN");
  const bool along_axis = call.has_attribute("axis");
  std::int64_t axis = 0;
  Slices slices;
  IntList to_front;
  if (along_axis) {
    HTPIPE_TRY(axis, call.axis("axis", std::nullopt, input.shape().size()));
    to_front = count_up(0, static_cast<std::int64_t>(input.shape().size()));
    std::rotate(to_front.begin(), to_front.begin() + axis, to_front.begin() + axis + 1);
    slices.tensor = htpipe::transpose(input, to_front);
  } else {
    slices.tensor = input.with_type({input.dtype(), {input.count()}, std::nullopt});
  }
  Shape shape = slices.tensor.shape();
  slices.count = shape[0];
  slices.length = count_between(shape, 1, static_cast<std::int64_t>(shape.size()));

  IntList order = count_up(0, slices.count);
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return slices.compare(a, b) < 0; });
  IntList first;  // of each group of equal slices, its first one
  IntList group(static_cast<std::size_t>(slices.count), 0);
  IntList counts;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || slices.compare(order[i - 1], order[i]) != 0) {
      first.push_back(order[i]);
      counts.push_back(0);
    }
    group[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(first.size()) - 1;
    ++counts.back();
  }
  if (sorted == 0) {
    IntList rank = count_up(0, static_cast<std::int64_t>(first.size()));
    std::sort(rank.begin(), rank.end(),
              [&](auto a, auto b) { return first[static_cast<std::size_t>(a)] < first[static_cast<std::size_t>(b)]; });
    IntList place(rank.size(), 0);
    IntList moved_first;
    IntList moved_counts;
    for (std::size_t i = 0; i < rank.size(); ++i) {
      place[static_cast<std::size_t>(rank[i])] = static_cast<std::int64_t>(i);
      moved_first.push_back(first[static_cast<std::size_t>(rank[i])]);
      moved_counts.push_back(counts[static_cast<std::size_t>(rank[i])]);
    }
    first = moved_first;
    counts = moved_counts;
    for (std::int64_t& number : group) number = place[static_cast<std::size_t>(number)];
  }

  const auto found = static_cast<std::int64_t>(first.size());
  shape[0] = found;
  Tensor values(TensorType{input.dtype(), shape, std::nullopt});
  const std::size_t bytes = static_cast<std::size_t>(slices.length) * size_of(input.dtype());
  for (std::size_t i = 0; i < first.size(); ++i) {
    std::memcpy(values.mutable_data<std::byte>().data() + i * bytes,
                slices.tensor.bytes().data() + static_cast<std::size_t>(first[i]) * bytes, bytes);
  }
  if (along_axis) {
    IntList back(to_front.size(), 0);
    for (std::size_t i = 0; i < to_front.size(); ++i) {
      back[static_cast<std::size_t>(to_front[i])] = static_cast<std::int64_t>(i);
    }
    values = htpipe::transpose(values, back);
  }
  return Values{call.constant("", std::move(values)), call.integers("first", Shape{found}, first),
                call.integers("inverse", Shape{slices.count}, group), call.integers("counts", Shape{found}, counts)};
}

}  // namespace htpipe::onnx_import::map
