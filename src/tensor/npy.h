// NumPy's .npy and .npz files.
// Invariant: the same tensors give the same bytes, and the bytes of .npy files are those that numpy.save writes.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/io.h"
#include "base/result.h"
#include "tensor/tensor.h"

namespace htpipe {

/// A member of an .npz file; the name is without ".npy".
struct NamedTensor {
  std::string name;
  Tensor tensor;
};

/// Reads one array: format 1.0 to 3.0, little-endian, C order, exactly as many bytes as the shape needs. The tensor
/// borrows the bytes, which `owner` keeps alive, where the data are aligned, and is a copy elsewhere.
/// Errors: data-format (no .npy, Fortran order, bytes after the array), data-dtype (big-endian, complex, structured …),
/// file-truncated.
Result<Tensor> read_npy(Bytes bytes, const std::shared_ptr<const void>& owner);
/// Maps and reads a file. Errors: also those of MappedFile::open; the place is the file.
Result<Tensor> read_npy(const std::filesystem::path& path);

/// Reads all arrays of an .npz, stored or deflated, sorted by name. Errors: those of ZipReader and read_npy, and
/// data-format for a member that is no .npy.
Result<std::vector<NamedTensor>> read_npz(const std::filesystem::path& path);
Result<std::vector<NamedTensor>> read_npz(Bytes bytes, std::shared_ptr<const void> owner, std::string file);

/// What stands before the data of a .npy (format 1.0), a multiple of 64 bytes. Errors: data-dtype (bf16), data-format
/// (too many dimensions).
Result<std::string> npy_header(DType dtype, const Shape& shape);
/// The bytes of a .npy (format 1.0). Stored values are written; an encoding is not. Errors: data-dtype (bf16).
Result<std::string> to_npy(const Tensor& tensor);
/// The bytes of an .npz in the given order, stored, dated 1980-01-01. Errors: data-dtype (bf16), data-format (a name
/// that is empty or given twice; 4 GiB or more), zip-unsafe-entry (a name like "../x").
Result<std::string> to_npz(std::span<const NamedTensor> tensors);

/// Writes atomically. Errors: also output-unwritable.
Status write_npy(const std::filesystem::path& path, const Tensor& tensor);
Status write_npz(const std::filesystem::path& path, std::span<const NamedTensor> tensors);

}  // namespace htpipe
