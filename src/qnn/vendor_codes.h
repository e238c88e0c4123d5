// What numeric codes of Qualcomm's libraries mean.
// Invariant: a code has at most one row; the table is vendor_codes.inc.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace htpipe::qnn {

/// One row. Codes of QNN are positive (base of the component + number), statuses of Genie lie in -32 to 8.
struct VendorCode {
  std::int64_t code;
  std::string_view library;  ///< "QNN" or "Genie"
  std::string_view name;     ///< QNN_…, GENIE_…
  std::string_view sentence;
  std::string_view cause;
  std::string_view next;
};

[[nodiscard]] const std::vector<VendorCode>& all_vendor_codes();
/// nullptr when nobody knows the code.
[[nodiscard]] const VendorCode* find_vendor_code(std::int64_t code);
/// Looks a code up by its QNN_… or GENIE_… name; nullptr when there is none.
[[nodiscard]] const VendorCode* find_vendor_code(std::string_view name);
/// The component that owns an unlisted code ("graph", "tensor", …) by the ranges of the interface; empty when none.
[[nodiscard]] std::string_view vendor_component(std::int64_t code);
/// "6005 QNN_GRAPH_ERROR_INVALID_OP_CONFIG", or "6099 (unlisted code of component graph)".
[[nodiscard]] std::string describe_vendor_code(std::int64_t code);

}  // namespace htpipe::qnn
