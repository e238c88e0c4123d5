#include "golden_case.h"

#include <algorithm>
#include <string_view>

#include "base/hash.h"
#include "base/io.h"
#include "passes/driver.h"

namespace htpipe::golden {
namespace {

constexpr std::string_view kSeparator = "\n----\n";
constexpr std::string_view kRun = "# run:";
constexpr std::string_view kNotExecutable = "\n# execute: no (";

std::string trim(std::string_view text) {
  const auto begin = text.find_first_not_of(" \n");
  if (begin == std::string_view::npos) return {};
  return std::string(text.substr(begin, text.find_last_not_of(" \n") - begin + 1));
}

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    parts.push_back(trim(text.substr(0, comma)));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return parts;
}

}  // namespace

std::vector<std::filesystem::path> files() {
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(HTPIPE_SOURCE_DIR "/tests/golden")) {
    if (entry.path().extension() == ".htir") found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

Result<Case> read(const std::filesystem::path& path) {
  HTPIPE_TRY(const std::string text, read_text(path));
  const std::size_t separator = text.find(kSeparator);
  if (text.rfind(kRun, 0) != 0 || separator == std::string::npos) {
    return fail(Error(Code::kDataFormat, "needs \"# run:\" in the first line and a line \"----\"").in_file(path));
  }
  Case result;
  result.path = path;
  result.order = split(std::string_view(text).substr(kRun.size(), text.find('\n') - kRun.size()));
  if (result.order == std::vector<std::string>{"default"}) result.order = default_order();
  result.executable = text.find(kNotExecutable) == std::string::npos;
  result.input = text.substr(0, separator + 1);
  result.expected = trim(std::string_view(text).substr(separator + kSeparator.size()));
  return result;
}

BlobSource blobs_of(const Graph& graph) {
  return [&graph](std::string_view sha, const TensorType& type) {
    for (const auto& value : graph.values()) {
      if (value->is_constant() && value->type == type && sha256_hex(value->constant.bytes()).substr(0, 16) == sha) {
        return value->constant;
      }
    }
    return Tensor();
  };
}

}  // namespace htpipe::golden
