// Encodings files as AIMET and the QAIRT tools exchange them, schemas 0.6.1, 1.0.0 and 2.0.0, as plain data.
// Sources: files written by aimet-onnx 2.42 and aimet-torch; the overrides format of qairt-converter.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace htpipe {

/// What a file says of one tensor. Zero points are positive as in ONNX, whatever sign the schema writes.
struct TensorEncoding {
  std::string name;
  bool parameter = false;  ///< listed among the parameters (schema 2.0.0 does not tell: false)
  bool floating = false;   ///< a float type of `bits` bits; nothing below is set then
  int bits = 8;
  bool is_signed = false;  ///< stored integers are signed
  bool symmetric = false;
  int axis = -1;                          ///< of channels, where the schema names it; -1 = not told, or per tensor
  std::int64_t block_size = 0;            ///< elements that share a scale along the input axis; 0 = no blocks
  int compressed_bits = 0;                ///< LPBQ: width of the stored integers; `bits` is the decompressed width then
  std::vector<double> scales;             ///< one, one per channel, or one per channel and block (channel-major)
  std::vector<std::int64_t> zero_points;  ///< as many as scales; empty = all 0
  std::vector<std::int64_t> block_factors;  ///< LPBQ: integer factor per channel and block
};

struct EncodingsFile {
  std::string version;
  std::vector<TensorEncoding> tensors;  ///< in the order of the file
};

/// Errors: json-invalid; encodings-invalid with the tensor and the key, for unknown versions, missing keys, wrong types,
/// scales that are not positive and finite, lists whose lengths differ, tensors that are listed twice.
Result<EncodingsFile> parse_encodings(std::string_view json);
/// Errors: also file-missing, file-unreadable.
Result<EncodingsFile> read_encodings(const std::filesystem::path& path);

}  // namespace htpipe
