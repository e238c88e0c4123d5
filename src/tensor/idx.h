// idx files, the format of MNIST and Fashion-MNIST, plain or gzip-compressed.
// Invariant: the header's sizes are compared with the bytes that can be there before anything is allocated.
#pragma once

#include <filesystem>

#include "base/io.h"
#include "base/result.h"
#include "tensor/tensor.h"

namespace htpipe {

/// Reads an idx file of unsigned bytes (type code 0x08) as a u8 tensor: images [N,H,W], labels [N]. Whether it is
/// compressed is seen from its first bytes, not from its name.
/// Errors: data-format (no idx, bytes after the array, damaged compression), data-dtype (another type code),
/// file-truncated, and those of MappedFile::open.
Result<Tensor> read_idx(const std::filesystem::path& path);
Result<Tensor> read_idx(Bytes bytes);

}  // namespace htpipe
