#include "quant/encodings_file.h"

#include <gtest/gtest.h>

namespace htpipe {
namespace {

// The keys are those that aimet-onnx 2.42 writes.
constexpr const char* k061 = R"({"version": "0.6.1",
  "activation_encodings": {"x": [{"bitwidth": 8, "dtype": "int", "is_symmetric": "False", "min": -1.0, "max": 1.55,
                                  "scale": 0.01, "offset": -100}],
                           "y": [{"bitwidth": 16, "dtype": "float"}]},
  "param_encodings": {"w": [{"bitwidth": 8, "dtype": "int", "is_symmetric": "True", "scale": 0.5, "offset": -128},
                            {"bitwidth": 8, "dtype": "int", "is_symmetric": "True", "min": -32.0, "max": 31.75}]}})";

TEST(EncodingsFileTest, ReadsSchema061) {
  const auto file = parse_encodings(k061);
  ASSERT_TRUE(file) << file.error().summary();
  ASSERT_EQ(file->tensors.size(), 3U);
  EXPECT_EQ(file->tensors[0].name, "x");
  EXPECT_EQ(file->tensors[0].zero_points, std::vector<std::int64_t>{100});
  EXPECT_TRUE(file->tensors[1].floating);
  EXPECT_EQ(file->tensors[1].bits, 16);
  EXPECT_TRUE(file->tensors[2].parameter);
  EXPECT_EQ(file->tensors[2].scales, (std::vector<double>{0.5, 0.25}));
  EXPECT_EQ(file->tensors[2].zero_points, (std::vector<std::int64_t>{128, 128}));
}

TEST(EncodingsFileTest, ReadsSchema100) {
  const auto file = parse_encodings(R"({"version": "1.0.0",
    "activation_encodings": [{"name": "x", "bw": 8, "dtype": "INT", "enc_type": "PER_TENSOR", "is_sym": false,
                              "scale": [0.02], "offset": [-7]}],
    "param_encodings": [{"name": "w", "bw": 8, "dtype": "INT", "enc_type": "LPBQ", "is_sym": true, "block_size": 64,
                         "compressed_bw": 4, "per_block_int_scale": [16, 1, 2, 3], "scale": [0.1, 0.2],
                         "offset": [-128, -128]}]})");
  ASSERT_TRUE(file) << file.error().summary();
  EXPECT_EQ(file->tensors[0].zero_points, std::vector<std::int64_t>{7});
  EXPECT_EQ(file->tensors[1].compressed_bits, 4);
  EXPECT_EQ(file->tensors[1].block_size, 64);
  EXPECT_EQ(file->tensors[1].block_factors, (std::vector<std::int64_t>{16, 1, 2, 3}));
}

TEST(EncodingsFileTest, ReadsSchema200) {
  const auto file = parse_encodings(R"({"version": "2.0.0", "encodings": [
    {"name": "x", "output_dtype": "uint16", "y_scale": 0.5, "y_zero_point": 300},
    {"name": "w", "output_dtype": "int4", "y_scale": [[0.1, 0.2], [0.3, 0.4]], "axis": 1, "block_size": 32}]})");
  ASSERT_TRUE(file) << file.error().summary();
  EXPECT_FALSE(file->tensors[0].is_signed);
  EXPECT_EQ(file->tensors[0].zero_points, std::vector<std::int64_t>{300});
  EXPECT_EQ(file->tensors[1].scales, (std::vector<double>{0.1, 0.2, 0.3, 0.4}));
  EXPECT_EQ(file->tensors[1].axis, 1);
}

TEST(EncodingsFileTest, RefusesWhatCannotBe) {
  const auto code = [](const char* text) {
    const auto file = parse_encodings(text);
    return file ? std::string("read") : std::string(word(file.error().code));
  };
  EXPECT_EQ(code("{"), "json-invalid");
  for (
      const char* text : {
          "[]",
          R"({"version": "3.0.0"})",
          R"({"version": 1})",
          R"({"version": "1.0.0", "activation_encodings": {}})",
          R"({"version": "2.0.0"})",
          R"({"version": "2.0.0", "encodings": [{"name": "x", "output_dtype": "float8", "y_scale": 1}]})",
          R"({"version": "2.0.0", "encodings": [{"name": "x", "output_dtype": "int8", "y_scale": -1}]})",
          R"({"version": "2.0.0", "encodings": [{"name": "x", "output_dtype": "int8", "y_scale": 1e300}]})",
          R"({"version": "2.0.0", "encodings": [{"name": "x", "output_dtype": "uint8", "y_scale": 1, "y_zero_point": 256}]})",
          R"({"version": "2.0.0", "encodings": [{"name": "x", "output_dtype": "int8", "y_scale": [1, 2], "y_zero_point": 1}]})",
          R"({"version": "2.0.0", "encodings": [{"name": "x", "output_dtype": "int8", "y_scale": 1},
                                                 {"name": "x", "output_dtype": "int8", "y_scale": 1}]})",
          R"({"activation_encodings": {"x": [{"bitwidth": 99, "scale": 1, "offset": 0}]}})",
          R"({"activation_encodings": {"x": [{"bitwidth": 8}]}})",
          R"({"activation_encodings": {"x": [{"bitwidth": 8, "min": 0, "max": 0}]}})",
          R"({"activation_encodings": {"x": []}})",
      }) {
    EXPECT_EQ(code(text), "encodings-invalid") << text;
  }
}

}  // namespace
}  // namespace htpipe
