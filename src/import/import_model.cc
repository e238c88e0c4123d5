#include "import/import_model.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <fstream>

#include "base/io.h"
#include "import/onnx/import.h"
#include "import/pt2/import.h"
#include "ir/text.h"

namespace htpipe {
namespace {

namespace fs = std::filesystem;

/// The first bytes of a file; empty when it cannot be read, which its importer will tell better.
std::string beginning_of(const fs::path& path) {
  std::string bytes(64, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<std::size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  return bytes;
}

Status without_options(const ImportOptions& options, std::string_view kind) {
  if (!options.dims.empty()) {
    return fail(Code::kUsage,
                fmt::format("{} has no named dimensions, but {} is given", kind, options.dims.begin()->first));
  }
  if (!options.shapes.empty()) {
    return fail(Code::kUsage,
                fmt::format("{} has fixed shapes, but one is given for {}", kind, options.shapes.begin()->first));
  }
  if (!options.fix.empty()) {
    return fail(Code::kUsage, fmt::format("inputs of {} cannot be fixed, but {} is", kind, options.fix.begin()->first));
  }
  return {};
}

Result<ImportedModel> import_torch(const fs::path& path, const ImportOptions& options) {
  HTPIPE_TRY(const pt2::Archive archive, pt2::read_pt2(path, {true, pt2::dimensions_of(options)}));
  HTPIPE_TRY(Imported imported, pt2::import_archive(archive, path.stem().string(), options));
  return ImportedModel{std::move(imported.graph), ModelFormat::kPt2,
                       fmt::format("torch {}", archive.program.torch_version), std::move(imported.warnings)};
}

Result<ImportedModel> import_onnx_file(const fs::path& path, const ImportOptions& options) {
  HTPIPE_TRY(Imported imported, import_onnx(path, options));
  return ImportedModel{std::move(imported.graph), ModelFormat::kOnnx, {}, std::move(imported.warnings)};
}

Result<ImportedModel> import_text(const fs::path& path, const ImportOptions& options) {
  HTPIPE_CHECK_OK(without_options(options, "a graph text"));
  HTPIPE_TRY(const std::string text, read_text(path));
  HTPIPE_TRY(Graph graph, parse_graph(text));
  return ImportedModel{std::move(graph), ModelFormat::kText, {}, {}};
}

}  // namespace

std::string_view name_of(ModelFormat format) {
  switch (format) {
    case ModelFormat::kPt2:
      return "pt2";
    case ModelFormat::kOnnx:
      return "onnx";
    case ModelFormat::kText:
      return "htir";
  }
  return "?";
}

Result<ModelFormat> model_format(const fs::path& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) {
    return fail(Error(Code::kFileMissing, "no such file").in_file(path.string()));
  }
  std::string extension = path.extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  if (extension == ".pt2") return ModelFormat::kPt2;
  if (extension == ".onnx") return ModelFormat::kOnnx;
  if (extension == ".htir") return ModelFormat::kText;
  const std::string bytes = beginning_of(path);
  if (bytes.rfind("PK\x03\x04", 0) == 0) return ModelFormat::kPt2;
  if (bytes.rfind("graph @", 0) == 0) return ModelFormat::kText;
  // ir_version, the first field of every ONNX file that has been seen, and a plausible number in it.
  if (bytes.size() > 2 && bytes[0] == '\x08' && bytes[1] > 0 && bytes[1] < 32) return ModelFormat::kOnnx;
  return fail(Error(Code::kModelFormat, "neither its name nor its first bytes tell what it is").in_file(path.string()));
}

Result<ImportedModel> import_model(const fs::path& path, const ImportOptions& options) {
  HTPIPE_TRY(const ModelFormat format, model_format(path));
  Result<ImportedModel> model = format == ModelFormat::kPt2    ? import_torch(path, options)
                                : format == ModelFormat::kOnnx ? import_onnx_file(path, options)
                                                               : import_text(path, options);
  if (!model && model.error().place.file.empty()) model.error().place.file = path.string();
  return model;
}

}  // namespace htpipe
