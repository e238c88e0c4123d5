// A .pt2 file of torch.export.save: the program's description and its weights, borrowed from the mapped file.
// Invariant: every tensor of an Archive is contiguous, aligned and backed by as many bytes as its shape needs.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/io.h"
#include "base/result.h"
#include "import/pt2/schema.h"
#include "tensor/tensor.h"

namespace htpipe::pt2 {

using TensorMap = std::map<std::string, Tensor, std::less<>>;

struct ReadOptions {
  bool check_crc = true;       ///< compare the CRC-32 of every entry that is used
  Dimensions dimensions = {};  ///< numbers for the symbolic sizes of the model
};

/// The contents of a .pt2 file. Tensors keep the mapped file alive.
struct Archive {
  std::string file;    ///< for messages
  std::string folder;  ///< top folder inside the archive, the stem that it was saved under
  Program program;
  TensorMap weights;    ///< parameters and persistent buffers by FQN, e.g. "block1.conv1.weight"
  TensorMap constants;  ///< non-persistent buffers and lifted constants by FQN, e.g. "lifted_tensor_0"

  /// The data of a parameter, buffer or tensor constant; nullptr when there is none (user inputs, tokens …).
  [[nodiscard]] const Tensor* data_of(const InputSpec& spec) const;
};

/// Reads models/model.json and its weights. Strided, expanded and misaligned tensors are copied, all others borrowed.
/// Every parameter, buffer and tensor constant of the signature has data of the type that the graph declares for it.
/// Errors: those of MappedFile::open, ZipReader, parse_program and parse_payloads; zip-entry-missing, zip-compressed,
/// pt2-version (another archive format, version or byte order), weights-short, unsupported-form (pickled weights),
/// json-shape. The place is the file; a note names the entry or the weight.
Result<Archive> read_pt2(const std::filesystem::path& path, ReadOptions options = {});
Result<Archive> read_pt2(const std::shared_ptr<const MappedFile>& file, ReadOptions options = {});
/// `bytes` are kept alive by `owner`; `file` is named in errors.
Result<Archive> read_pt2(Bytes bytes, std::shared_ptr<const void> owner, std::string file, ReadOptions options = {});

}  // namespace htpipe::pt2
