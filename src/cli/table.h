// Aligned text tables.
// Invariant: no line ends in spaces, and columns are aligned by what a terminal shows (UTF-8 counts by character).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace htpipe::cli {

class Table {
 public:
  /// A header that ends in '>' is shown without it and its column is aligned to the right.
  explicit Table(std::vector<std::string> headers);
  /// As many cells as there are headers.
  void add(std::vector<std::string> cells);
  [[nodiscard]] bool empty() const { return rows_.empty(); }
  /// Header line, then the rows; each line begins with `indent` and ends in a line feed.
  [[nodiscard]] std::string text(std::string_view indent = {}) const;

 private:
  std::vector<std::string> headers_;
  std::vector<bool> right_;
  std::vector<std::vector<std::string>> rows_;
};

/// "412 B", "36.2 KiB", "5.0 MiB".
[[nodiscard]] std::string human_bytes(unsigned long long bytes);
/// "1,234,567".
[[nodiscard]] std::string grouped(long long number);

}  // namespace htpipe::cli
