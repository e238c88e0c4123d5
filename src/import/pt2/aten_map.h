// The one table from ATen operators to ours.
#pragma once

#include <string_view>

#include "import/pt2/call.h"

namespace htpipe::pt2 {

/// How one ATen operator is imported.
struct Mapper {
  One (*one)(Call&) = nullptr;
  Many (*many)(Call&) = nullptr;  ///< operators with several results or a list of tensors
  std::string_view argument;      ///< for the mapper: which of its family

  // Rows of the table give either function.
  constexpr Mapper(One (*function)(Call&), std::string_view word = {}) : one(function), argument(word) {}
  constexpr Mapper(Many (*function)(Call&), std::string_view word = {}) : many(function), argument(word) {}
};

/// Mapper of an ATen target such as "torch.ops.aten.conv2d.default"; nullptr when there is none. An in-place operator
/// ("relu_.default") has the mapper of the other form.
[[nodiscard]] const Mapper* find_mapper(std::string_view target);

/// True for an operator that writes into its first argument.
[[nodiscard]] bool is_in_place(std::string_view target);

/// How the result of an operator shares the memory of its first argument.
enum class Sharing : std::uint8_t { kNone, kView, kMaybe };
[[nodiscard]] Sharing sharing_of(std::string_view target);

}  // namespace htpipe::pt2
