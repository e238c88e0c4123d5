// htpipe info: chooses the reader by what the file is.
#include "cli/info.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/io.h"

namespace htpipe::cli {
namespace {

enum class Kind { kPt2, kOnnx, kText, kDlc, kContext };

Result<Kind> kind_of(const std::filesystem::path& path) {
  HTPIPE_TRY(const auto file, MappedFile::open(path));
  const std::string extension = path.extension().string();
  if (extension == ".pt2") return Kind::kPt2;
  if (extension == ".onnx") return Kind::kOnnx;
  if (extension == ".htir") return Kind::kText;
  if (extension == ".dlc") return Kind::kDlc;
  if (extension == ".bin") return Kind::kContext;
  return fail(Error(Code::kDataFormat, "the name does not tell what the file holds")
                  .in_file(path.string())
                  .with_hint("htpipe info reads .pt2, .onnx, .htir, .dlc and .bin (context binary); rename the file."));
}

Status check_flags(const Arguments& arguments, Kind kind) {
  const bool is_model = kind == Kind::kPt2 || kind == Kind::kOnnx || kind == Kind::kText;
  if (!is_model && (arguments.graph || arguments.dependencies || !arguments.targets.empty())) {
    return fail(Error(Code::kUsage, "--graph, --dependencies and --target are for .pt2, .onnx and .htir files")
                    .in_file(arguments.subject)
                    .with_hint("Leave the flag out."));
  }
  if (!is_model && !(arguments.dims.empty() && arguments.shapes.empty() && arguments.fixed.empty())) {
    return fail(Error(Code::kUsage, "--dim, --shape and --fix are for models")
                    .in_file(arguments.subject)
                    .with_hint("Leave the flag out."));
  }
  if (arguments.graph && arguments.dependencies) {
    return fail(
        Error(Code::kUsage, "--graph and --dependencies ask for two different texts").with_hint("Give one of them."));
  }
  return {};
}

}  // namespace

std::string counts_text(const OpCounts& counts) {
  std::vector<std::pair<std::string, std::int64_t>> sorted(counts.begin(), counts.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string text;
  for (const auto& [name, count] : sorted) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, count);
  return text;
}

Json counts_json(const OpCounts& counts) {
  Json json = Json::object();
  for (const auto& [name, count] : counts) json[name] = count;
  return json;
}

Result<Answer> info(const Arguments& arguments) {
  HTPIPE_TRY(const Kind kind, kind_of(arguments.subject));
  HTPIPE_CHECK_OK(check_flags(arguments, kind));
  switch (kind) {
    case Kind::kPt2:
      return info_model(arguments, ModelFormat::kPt2);
    case Kind::kOnnx:
      return info_model(arguments, ModelFormat::kOnnx);
    case Kind::kText:
      return info_model(arguments, ModelFormat::kText);
    case Kind::kDlc:
      return info_dlc(arguments.subject);
    case Kind::kContext:
      return info_context(arguments.subject);
  }
  return fail(Code::kBug, "a kind of file without a reader");
}

}  // namespace htpipe::cli
