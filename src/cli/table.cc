#include "cli/table.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/check.h"

namespace htpipe::cli {
namespace {

/// Characters of a UTF-8 text.
std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

}  // namespace

Table::Table(std::vector<std::string> headers) : headers_(std::move(headers)) {
  for (std::string& header : headers_) {
    right_.push_back(!header.empty() && header.back() == '>');
    if (right_.back()) header.pop_back();
  }
}

void Table::add(std::vector<std::string> cells) {
  HTPIPE_CHECK(cells.size() == headers_.size(), "a row has another number of cells than the header");
  rows_.push_back(std::move(cells));
}

std::string Table::text(std::string_view indent) const {
  std::vector<std::size_t> widths;
  for (std::size_t column = 0; column < headers_.size(); ++column) {
    std::size_t width = width_of(headers_[column]);
    for (const auto& row : rows_) width = std::max(width, width_of(row[column]));
    widths.push_back(width);
  }
  std::string result;
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string text(indent);
    for (std::size_t column = 0; column < cells.size(); ++column) {
      const std::string padding(widths[column] - width_of(cells[column]), ' ');
      if (column > 0) text += "  ";
      text += right_[column] ? padding + cells[column] : cells[column] + padding;
    }
    text.erase(text.find_last_not_of(' ') + 1);
    result += text + "\n";
  };
  line(headers_);
  for (const auto& row : rows_) line(row);
  return result;
}

std::string human_bytes(unsigned long long bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  auto value = static_cast<double>(bytes);
  const char* unit = "KiB";
  value /= 1024.0;
  for (const char* larger : {"MiB", "GiB", "TiB"}) {
    if (value < 1024.0) break;
    value /= 1024.0;
    unit = larger;
  }
  return fmt::format("{:.1f} {}", value, unit);
}

std::string grouped(long long number) {
  std::string digits = fmt::format("{}", number);
  const std::size_t first = digits.front() == '-' ? 1 : 0;
  for (std::size_t at = digits.size(); at > first + 3;) {
    at -= 3;
    digits.insert(at, ",");
  }
  return digits;
}

}  // namespace htpipe::cli
