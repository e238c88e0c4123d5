// "Did you mean": the nearest known word to a mistyped one.
// Invariant: suggestions depend on the words alone; of equally near words the first wins.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace htpipe {

/// Number of insertions, deletions, replacements and swaps of neighbours that turn `a` into `b` (upper and lower case
/// are the same).
[[nodiscard]] int edit_distance(std::string_view a, std::string_view b);

/// The nearest of `known` to `word`, or empty when none is nearer than about a third of its length. A beginning of a
/// word is near to it.
[[nodiscard]] std::string nearest(std::string_view word, const std::vector<std::string>& known);

/// `Did you mean "x"?`, or empty when there is no near word.
[[nodiscard]] std::string did_you_mean(std::string_view word, const std::vector<std::string>& known);

}  // namespace htpipe
