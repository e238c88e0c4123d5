// Look-up in the table of vendor codes.
#include "qnn/vendor_codes.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

namespace htpipe::qnn {
namespace {

struct Range {
  std::int64_t first;
  std::int64_t last;
  std::string_view component;
};

constexpr std::array<Range, 18> kRanges = {{
    {1000, 1999, "common"},
    {2000, 2999, "property"},
    {3000, 3999, "operator package"},
    {4950, 4998, "saver backend"},
    {4000, 4999, "backend"},
    {5000, 5999, "context"},
    {6000, 6999, "graph"},
    {7000, 7999, "tensor"},
    {8000, 8999, "memory"},
    {9000, 9999, "signal"},
    {10000, 10999, "error"},
    {11000, 11999, "log"},
    {12000, 12999, "profile"},
    {13000, 13999, "power"},
    {14000, 14999, "device"},
    {15000, 15999, "global configuration"},
    {30000, 49999, "reader (system)"},
    {60000, 60999, "interface"},
}};

}  // namespace

const std::vector<VendorCode>& all_vendor_codes() {
  static const std::vector<VendorCode> table = {
#define HTPIPE_VENDOR_CODE(code, library, name, sentence, cause, next) \
  VendorCode{code, library, name, sentence, cause, next},
#include "qnn/vendor_codes.inc"
#undef HTPIPE_VENDOR_CODE
  };
  return table;
}

const VendorCode* find_vendor_code(std::int64_t code) {
  const auto& table = all_vendor_codes();
  const auto at = std::find_if(table.begin(), table.end(), [code](const VendorCode& row) { return row.code == code; });
  return at == table.end() ? nullptr : &*at;
}

const VendorCode* find_vendor_code(std::string_view name) {
  const auto& table = all_vendor_codes();
  const auto at = std::find_if(table.begin(), table.end(), [name](const VendorCode& row) { return row.name == name; });
  return at == table.end() ? nullptr : &*at;
}

std::string_view vendor_component(std::int64_t code) {
  for (const Range& range : kRanges) {
    if (code >= range.first && code <= range.last) return range.component;
  }
  return {};
}

std::string describe_vendor_code(std::int64_t code) {
  if (const VendorCode* row = find_vendor_code(code)) return fmt::format("{} {}", code, row->name);
  const std::string_view component = vendor_component(code);
  if (!component.empty()) return fmt::format("{} (unlisted code of component {})", code, component);
  return fmt::format("{} (unknown code)", code);
}

}  // namespace htpipe::qnn
