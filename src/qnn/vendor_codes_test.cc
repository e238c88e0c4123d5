// The table of vendor codes against what the library itself says, and against itself.
#include "qnn/vendor_codes.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace htpipe::qnn {
namespace {

TEST(VendorCodes, RowsAreWholeAndUnique) {
  std::set<std::int64_t> codes;
  std::set<std::string_view> names;
  for (const VendorCode& row : all_vendor_codes()) {
    EXPECT_TRUE(codes.insert(row.code).second) << row.code;
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_FALSE(row.sentence.empty() || row.cause.empty() || row.next.empty()) << row.name;
    EXPECT_EQ(row.sentence.back(), '.') << row.name;
    EXPECT_EQ(row.next.back(), '.') << row.name;
    const bool qnn = row.library == "QNN";
    EXPECT_EQ(row.name.rfind(qnn ? "QNN_" : "GENIE_", 0), 0U) << row.name;
    EXPECT_EQ(vendor_component(row.code).empty(), !qnn) << row.name;
  }
}

TEST(VendorCodes, LookUp) {
  ASSERT_NE(find_vendor_code(5000), nullptr);
  EXPECT_EQ(find_vendor_code(5000)->name, "QNN_CONTEXT_ERROR_INVALID_ARGUMENT");
  EXPECT_EQ(find_vendor_code("QNN_OP_PACKAGE_ERROR_VALIDATION_FAILURE")->code, 3110);
  EXPECT_EQ(find_vendor_code(-8)->library, "Genie");
  EXPECT_EQ(find_vendor_code(6099), nullptr);
  EXPECT_EQ(describe_vendor_code(1002), "1002 QNN_COMMON_ERROR_MEM_ALLOC");
  EXPECT_EQ(describe_vendor_code(6099), "6099 (unlisted code of component graph)");
  EXPECT_EQ(describe_vendor_code(77777), "77777 (unknown code)");
}

}  // namespace
}  // namespace htpipe::qnn
