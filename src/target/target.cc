#include "target/target.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "target/spelling.h"
#include "target/strict_yaml.h"

namespace htpipe {
namespace {

namespace fs = std::filesystem;

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

fs::path executable_folder() {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  return error ? fs::path(".") : self.parent_path();
}

/// What two spellings of one name have in common: "qualcomm-snapdragon-8gen3" and "Snapdragon 8 Gen 3" are alike.
std::string plain(std::string_view spelling) {
  std::string text;
  for (const char letter : spelling) {
    const auto byte = static_cast<unsigned char>(letter);
    if (std::isalnum(byte) != 0 || letter == '+') text += static_cast<char>(std::tolower(byte));
  }
  for (const std::string_view family : {"qualcomm", "snapdragon"}) {
    if (text.size() > family.size() && text.rfind(family, 0) == 0) text.erase(0, family.size());
  }
  return text;
}

/// Every spelling of a target but its architecture.
std::vector<std::string> names_of(const Target& target) {
  std::vector<std::string> names = {target.id, target.name, target.soc, std::to_string(target.soc_model)};
  names.insert(names.end(), target.aliases.begin(), target.aliases.end());
  return names;
}

Status check_unique(const std::vector<Target>& targets, const std::vector<fs::path>& files) {
  for (std::size_t i = 0; i < targets.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      for (const std::string& name : names_of(targets[i])) {
        for (const std::string& other : names_of(targets[j])) {
          if (plain(name) != plain(other)) continue;
          return fail(Error(Code::kConfigType,
                            fmt::format("\"{}\" names a target of {} already", name, files[j].filename().string()))
                          .in_file(files[i].string()));
        }
      }
    }
  }
  return {};
}

}  // namespace

Result<fs::path> targets_folder() {
  std::vector<fs::path> candidates;
  const char* data = std::getenv("HTPIPE_DATA_DIR");
  if (data != nullptr && *data != '\0') {
    candidates = {fs::path(data) / "targets"};
  } else {
    const fs::path beside = executable_folder();
    candidates = {beside / "../../targets", beside / "../share/htpipe/targets"};
#ifdef HTPIPE_SOURCE_DIR
    candidates.emplace_back(fs::path(HTPIPE_SOURCE_DIR) / "targets");
#endif
    candidates.emplace_back("targets");
  }
  std::vector<std::string> tried;
  for (const fs::path& candidate : candidates) {
    const fs::path folder = candidate.lexically_normal();
    if (is_folder(folder)) return folder;
    tried.push_back(folder.string());
  }
  return fail(
      Error(Code::kFileMissing, fmt::format("no folder with target files; looked in {}", fmt::join(tried, ", ")))
          .with_hint("Set HTPIPE_DATA_DIR to the folder that holds targets/."));
}

Result<Target> read_target(const fs::path& path) {
  HTPIPE_TRY(const YamlNode node, read_yaml(path));
  return target_of(node, path);
}

Result<Target> target_of(const YamlNode& node, const fs::path& path) {
  YamlFindings findings(path);
  YamlMap map(node, "", findings);
  Target target;
  std::int64_t soc_model = 0;
  std::int64_t htp_version = 0;
  std::int64_t vtcm_mb = 0;
  std::vector<std::pair<std::string, int>> aliases;
  map.text("id", target.id, Need::kRequired);
  map.text("name", target.name, Need::kRequired);
  map.text("soc", target.soc, Need::kRequired);
  map.integer("soc_model", soc_model, 1, 100000, Need::kRequired);
  map.integer("htp_version", htp_version, 65, 199, Need::kRequired);
  map.flag("supports_fp16", target.supports_fp16, Need::kRequired);
  map.flag("supports_int16_activations", target.supports_int16_activations, Need::kRequired);
  map.flag("supports_int16_weights", target.supports_int16_weights, Need::kRequired);
  map.flag("supports_weight_sharing", target.supports_weight_sharing, Need::kRequired);
  map.integer("vtcm_mb", vtcm_mb, 1, 1024, Need::kRequired);
  map.texts("aliases", aliases);
  for (const char letter : target.id) {
    if (std::islower(static_cast<unsigned char>(letter)) == 0 &&
        std::isdigit(static_cast<unsigned char>(letter)) == 0 && letter != '-') {
      map.complain("id", Code::kConfigType, fmt::format("\"{}\" may hold only a-z, 0-9 and -", target.id));
      break;
    }
  }
  map.finish();
  HTPIPE_CHECK_OK(findings.status());
  target.soc_model = static_cast<std::uint32_t>(soc_model);
  target.htp_version = static_cast<int>(htp_version);
  target.vtcm_mb = static_cast<int>(vtcm_mb);
  for (auto& [alias, line] : aliases) target.aliases.push_back(std::move(alias));
  return target;
}

Result<std::vector<Target>> load_targets() {
  HTPIPE_TRY(const fs::path folder, targets_folder());
  return load_targets(folder);
}

Result<std::vector<Target>> load_targets(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (entry->path().extension() == ".yaml") files.push_back(entry->path());
  }
  if (error) return fail(Error(Code::kFileMissing, error.message()).in_file(folder.string()));
  if (files.empty()) return fail(Error(Code::kFileMissing, "no target file (*.yaml) here").in_file(folder.string()));
  std::sort(files.begin(), files.end());
  std::vector<Target> targets;
  for (const fs::path& file : files) {
    HTPIPE_TRY(Target target, read_target(file));
    targets.push_back(std::move(target));
  }
  HTPIPE_CHECK_OK(check_unique(targets, files));
  std::sort(targets.begin(), targets.end(), [](const Target& a, const Target& b) { return a.id < b.id; });
  return targets;
}

Result<Target> find_target(std::string_view spelling) {
  HTPIPE_TRY(const std::vector<Target> targets, load_targets());
  return find_target(spelling, targets);
}

Result<Target> find_target(std::string_view spelling, const std::vector<Target>& targets) {
  const std::string wanted = plain(spelling);
  std::vector<std::string> same_arch;
  std::vector<std::string> known;
  const Target* by_arch = nullptr;
  for (const Target& target : targets) {
    for (const std::string& name : names_of(target)) {
      if (!wanted.empty() && plain(name) == wanted) return target;
      known.push_back(name);
    }
    if (wanted == target.arch() || wanted == "htp" + target.arch()) {
      by_arch = &target;
      same_arch.push_back(target.id);
    }
    known.push_back(target.arch());
  }
  if (same_arch.size() == 1) return *by_arch;
  const std::string shown(spelling.substr(0, 80));
  if (same_arch.size() > 1) {
    return fail(Error(Code::kUnknownTarget, fmt::format("\"{}\" is the architecture of several targets: {}", shown,
                                                        fmt::join(same_arch, ", ")))
                    .with_hint("Name one of them."));
  }
  std::vector<std::string> ids;
  for (const Target& target : targets) ids.push_back(target.id);
  const std::string hint = did_you_mean(shown, known);
  return fail(Error(Code::kUnknownTarget, fmt::format("no target \"{}\"; there are {}", shown, fmt::join(ids, ", ")))
                  .with_hint(hint.empty() ? "htpipe targets lists every target and its names." : hint));
}

}  // namespace htpipe
