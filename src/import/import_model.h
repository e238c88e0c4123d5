// From any model file to our graph: the one place that knows which importer reads which file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "import/options.h"
#include "ir/graph.h"

namespace htpipe {

enum class ModelFormat : std::uint8_t { kPt2, kOnnx, kText };

/// "pt2", "onnx", "htir".
[[nodiscard]] std::string_view name_of(ModelFormat format);

/// What a model file is: by its extension (.pt2, .onnx, .htir), else by its first bytes.
/// Errors: file-missing, file-unreadable, model-format.
Result<ModelFormat> model_format(const std::filesystem::path& path);

struct ImportedModel {
  Graph graph;
  ModelFormat format;
  std::string producer;               ///< what wrote the file, for instance "torch 2.13.0"; empty when unknown
  std::vector<std::string> warnings;  ///< what the importer had to assume
};

/// Reads a model file and imports it. Errors: those of model_format and of the format's importer, each with the file;
/// usage when `options` name a dimension or an input that the model does not have.
Result<ImportedModel> import_model(const std::filesystem::path& path, const ImportOptions& options = {});

}  // namespace htpipe
