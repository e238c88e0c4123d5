// The two halves of `htpipe info`: models of ours and artifacts of the vendor's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "cli/answer.h"
#include "import/import_model.h"

namespace htpipe::cli {

using OpCounts = std::map<std::string, std::int64_t>;

/// .pt2, .onnx and .htir.
Result<Answer> info_model(const Arguments& arguments, ModelFormat format);
/// .dlc and .bin. Errors: those of the vendor's reader.
Result<Answer> info_dlc(const std::filesystem::path& path);
Result<Answer> info_context(const std::filesystem::path& path);

/// "Conv2d 8, Reshape 1": the most frequent first.
[[nodiscard]] std::string counts_text(const OpCounts& counts);
[[nodiscard]] Json counts_json(const OpCounts& counts);

}  // namespace htpipe::cli
