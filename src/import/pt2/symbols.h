// Symbolic sizes of an exported program: sympy expressions over symbols, and the numbers that the caller gives them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace htpipe::pt2 {

/// Sizes that the caller fixes: by symbol ("s77"), by axis of an input ("x.0"), or "batch", which is axis 0 of the
/// inputs whose axis 0 is open.
using Dimensions = std::map<std::string, std::int64_t, std::less<>>;

using SymbolValues = std::map<std::string, std::int64_t, std::less<>>;

/// The value of an expression as torch writes it ("Mul(Integer(2), Symbol('s81', positive=True, integer=True))") or as
/// people do ("2*s81 + 1"). Empty when a symbol has no value (its name is added to `missing`), when the expression
/// cannot be read or when its value is no integer.
std::optional<std::int64_t> evaluate(std::string_view expression, const SymbolValues& symbols,
                                     std::set<std::string>& missing);

/// As evaluate, for expressions of real numbers.
std::optional<double> evaluate_real(std::string_view expression, const SymbolValues& symbols,
                                    std::set<std::string>& missing);

/// The value of the one symbol without a value for which the expression, linear in it, is `value`.
std::optional<std::pair<std::string, std::int64_t>> solve(std::string_view expression, std::int64_t value,
                                                          const SymbolValues& symbols);

/// The expression in the form for people, "2*s81"; as it is when it cannot be read.
[[nodiscard]] std::string readable(std::string_view expression);

/// True for a symbol that stands for a number that is known only when the model runs ("u0").
[[nodiscard]] bool is_data_dependent(std::string_view symbol);

}  // namespace htpipe::pt2
