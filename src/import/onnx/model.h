// An ONNX file in memory: the parsed message, and tensors that borrow its bytes or those of mapped data files.
// Format: onnx.proto of the onnx package (docs: onnx/docs/IR.md, ExternalData.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/io.h"
#include "base/result.h"
#include "tensor/tensor.h"

// The generated header stays inside this folder.
#include <onnx-ml.pb.h>

namespace htpipe::onnx_import {

/// Oldest and newest opset of the standard domain that is read.
inline constexpr std::int64_t kOldestOpset = 6;
inline constexpr std::int64_t kNewestOpset = 28;

/// The element type of a TensorProto's data_type; nullopt where we have none (strings, complex numbers, 8-bit floats).
/// 4- and 2-bit integers are stored in bytes.
[[nodiscard]] std::optional<DType> dtype_of(std::int32_t data_type);
/// "FLOAT", "INT64" …
[[nodiscard]] std::string data_type_name(std::int32_t data_type);
/// Bits of a data type that is narrower than its storage; 0 for all others.
[[nodiscard]] int narrow_bits(std::int32_t data_type);

class Model {
 public:
  /// Reads and parses a file. Errors: file-missing, file-unreadable, onnx-invalid, onnx-version.
  static Result<Model> read(const std::filesystem::path& path);
  /// The same for a message in memory; data files are looked for in the folder of `path`.
  static Result<Model> parse(Bytes bytes, const std::filesystem::path& path);

  [[nodiscard]] const onnx::ModelProto& proto() const { return *proto_; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  /// A tensor; its bytes are borrowed from the message or from a mapped data file where they lie as they are needed.
  /// Errors: onnx-invalid, external-data, unsupported-form (a data type that we lack).
  Result<Tensor> tensor(const onnx::TensorProto& tensor) const;

 private:
  Result<Tensor> external(const onnx::TensorProto& tensor, TensorType type, int bits) const;

  std::shared_ptr<const onnx::ModelProto> proto_;
  std::filesystem::path path_;
  mutable std::map<std::string, std::shared_ptr<const MappedFile>, std::less<>> files_;
};

}  // namespace htpipe::onnx_import
