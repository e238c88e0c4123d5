// Comparison of the imported and optimised model with outputs that PyTorch recorded.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"
#include "pipeline/session.h"

namespace htpipe {

/// Reads an npz with `logits` (PyTorch's outputs for the first evaluation samples) and, when it has them, `model_sha256`
/// (of the .pt2 that they were made with). Errors: reference-mismatch, data-shape, data-too-few.
Result<std::string> compare_reference(Session& session, const std::filesystem::path& file);

}  // namespace htpipe
