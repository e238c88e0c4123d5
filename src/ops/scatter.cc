#include "ops/scatter.h"

#include <fmt/core.h>

#include <cmath>
#include <cstring>
#include <string>
#include <type_traits>

#include "ops/movement.h"

namespace htpipe::ops {
namespace {

enum class Meeting : std::uint8_t { kAdd, kMul, kMax, kMin };

template <typename T>
T met(Meeting meeting, T there, T update) {
  if constexpr (std::is_integral_v<T>) {
    // Unsigned numbers wrap around as two's complement does.
    const auto a = static_cast<std::uint64_t>(there);
    const auto b = static_cast<std::uint64_t>(update);
    if (meeting == Meeting::kAdd) return static_cast<T>(a + b);
    if (meeting == Meeting::kMul) return static_cast<T>(a * b);
  } else {
    if (meeting == Meeting::kAdd) return there + update;
    if (meeting == Meeting::kMul) return there * update;
    if (std::isnan(there) || std::isnan(update)) return std::isnan(there) ? there : update;
  }
  const bool take = meeting == Meeting::kMax ? update > there : update < there;
  return take ? update : there;
}

/// `Stored` is the type in memory, `load` and `store` turn it into a number and back.
template <typename Stored, typename Load, typename Store>
Combine combine_with(Meeting meeting, Load load, Store store) {
  return [=](std::byte* to, const std::byte* from, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      Stored there;
      Stored update;
      std::byte* place = to + static_cast<std::size_t>(i) * sizeof(Stored);
      std::memcpy(&there, place, sizeof(Stored));
      std::memcpy(&update, from + static_cast<std::size_t>(i) * sizeof(Stored), sizeof(Stored));
      const Stored result = store(met(meeting, load(there), load(update)));
      std::memcpy(place, &result, sizeof(Stored));
    }
  };
}

template <typename T>
Combine combine_plain(Meeting meeting) {
  const auto same = [](T x) { return x; };
  return combine_with<T>(meeting, same, same);
}

Combine combine_numbers(Meeting meeting, DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return combine_plain<double>(meeting);
    case DType::kF32:
      return combine_plain<float>(meeting);
    case DType::kF16:
      return combine_with<std::uint16_t>(meeting, from_f16, to_f16);
    case DType::kBF16:
      return combine_with<std::uint16_t>(meeting, from_bf16, to_bf16);
    case DType::kI64:
      return combine_plain<std::int64_t>(meeting);
    case DType::kI32:
      return combine_plain<std::int32_t>(meeting);
    case DType::kI16:
      return combine_plain<std::int16_t>(meeting);
    case DType::kI8:
      return combine_plain<std::int8_t>(meeting);
    case DType::kU32:
      return combine_plain<std::uint32_t>(meeting);
    case DType::kU16:
      return combine_plain<std::uint16_t>(meeting);
    case DType::kBool:
      // "or" is a maximum of 0 and 1, "and" a minimum.
      return combine_plain<std::uint8_t>(meeting == Meeting::kAdd   ? Meeting::kMax
                                         : meeting == Meeting::kMul ? Meeting::kMin
                                                                    : meeting);
    case DType::kU8:
      return combine_plain<std::uint8_t>(meeting);
    default:
      return combine_plain<std::uint64_t>(meeting);
  }
}

}  // namespace

AttributeSpec reduction_attribute() {
  return {"reduction", std::string("none"), false, "none (replace), add, mul, max or min"};
}

Result<Combine> combine_of(std::string_view reduction, DType dtype) {
  if (reduction == "none") {
    return Combine([size = size_of(dtype)](std::byte* to, const std::byte* from, std::int64_t count) {
      std::memcpy(to, from, static_cast<std::size_t>(count) * size);
    });
  }
  if (reduction == "add") return combine_numbers(Meeting::kAdd, dtype);
  if (reduction == "mul") return combine_numbers(Meeting::kMul, dtype);
  if (reduction == "max") return combine_numbers(Meeting::kMax, dtype);
  if (reduction == "min") return combine_numbers(Meeting::kMin, dtype);
  return fail(Code::kUnsupportedForm, fmt::format("no reduction \"{}\"", reduction));
}

Result<std::vector<TensorType>> infer_scatter(const NodeView& node) {
  if (node.type(0).dtype != node.type(2).dtype) {
    return fail(Code::kDtypeMismatch, fmt::format("updates are {}, the data is {}", name_of(node.type(2).dtype),
                                                  name_of(node.type(0).dtype)));
  }
  HTPIPE_TRY(const Combine combine, combine_of(node.attributes.text("reduction"), node.type(0).dtype));
  return std::vector<TensorType>{reshaped(node, 0, node.type(0).shape)};
}

Status check_scatter_encodings(const KernelRequest& request) {
  const std::string& reduction = request.node.attributes.text("reduction");
  if (reduction == "add" || reduction == "mul") {
    return fail(Code::kNoFixedRule, fmt::format("reduction {} of stored integers", reduction));
  }
  HTPIPE_CHECK_OK(check_same_encoding(request.node.type(0), request.node.type(2)));
  return check_same_encoding(request.node.type(0), *request.results[0]);
}

}  // namespace htpipe::ops
