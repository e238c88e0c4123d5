#include "target/spelling.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>

namespace htpipe {
namespace {

// Longer words are no typing errors of ours, and the table below grows with the product of both lengths.
constexpr std::size_t kLongestWord = 100;

char lower(char letter) { return static_cast<char>(std::tolower(static_cast<unsigned char>(letter))); }

bool shorter_than(std::string_view a, std::string_view b) { return a.size() < b.size(); }

}  // namespace

int edit_distance(std::string_view a, std::string_view b) {
  a = a.substr(0, kLongestWord);
  b = b.substr(0, kLongestWord);
  const std::size_t width = b.size() + 1;
  std::vector<int> table((a.size() + 1) * width);
  const auto at = [&](std::size_t i, std::size_t j) -> int& { return table[i * width + j]; };
  for (std::size_t i = 0; i <= a.size(); ++i) at(i, 0) = static_cast<int>(i);
  for (std::size_t j = 0; j <= b.size(); ++j) at(0, j) = static_cast<int>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const int replace = lower(a[i - 1]) == lower(b[j - 1]) ? 0 : 1;
      int best = std::min({at(i - 1, j) + 1, at(i, j - 1) + 1, at(i - 1, j - 1) + replace});
      if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1])) {
        best = std::min(best, at(i - 2, j - 2) + 1);
      }
      at(i, j) = best;
    }
  }
  return at(a.size(), b.size());
}

std::string nearest(std::string_view word, const std::vector<std::string>& known) {
  const int limit = std::max(1, static_cast<int>(std::min(word.size(), kLongestWord)) / 3);
  std::string best;
  int best_distance = limit + 1;
  for (const std::string& candidate : known) {
    // A word that was cut off, or completed, is as near as one wrong letter.
    const std::string_view shorter = std::min(word, std::string_view(candidate), shorter_than);
    const std::string_view longer = std::max(word, std::string_view(candidate), shorter_than);
    const bool cut_off = shorter.size() >= 3 && longer.substr(0, shorter.size()) == shorter && shorter != longer;
    const int distance = cut_off ? 1 : edit_distance(word, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& known) {
  const std::string near = nearest(word, known);
  return near.empty() ? std::string() : fmt::format("Did you mean \"{}\"?", near);
}

}  // namespace htpipe
