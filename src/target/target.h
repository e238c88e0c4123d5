// The chips that artifacts can be built for, one data file each (targets/*.yaml).
// Invariant: ids, chip names and vendor numbers are unique; a spelling never means two targets.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace htpipe {

struct YamlNode;

struct Target {
  std::string id;               ///< "snapdragon-8-gen-3": the name in files, reports and the registry
  std::string name;             ///< "Snapdragon 8 Gen 3"
  std::string soc;              ///< "SM8650"
  std::uint32_t soc_model = 0;  ///< Qualcomm's number for the chip, for instance 57
  int htp_version = 0;          ///< 68, 73, 75
  bool supports_fp16 = false;   ///< computes in float16; false also where only the emulator does
  bool supports_int16_activations = false;
  bool supports_int16_weights = false;
  bool supports_weight_sharing = false;
  int vtcm_mb = 0;
  std::vector<std::string> aliases;

  [[nodiscard]] std::string arch() const { return "v" + std::to_string(htp_version); }
};

/// The folder with the data files: $HTPIPE_DATA_DIR/targets, else beside the running executable (../../targets of a
/// build tree, ../share/htpipe/targets of an installation), else ./targets. Errors: file-missing.
Result<std::filesystem::path> targets_folder();

/// All targets, sorted by id. Errors: file-missing, and those of read_target.
Result<std::vector<Target>> load_targets();
Result<std::vector<Target>> load_targets(const std::filesystem::path& folder);

/// Reads one data file. Errors: config-syntax, config-unknown-key, config-type, config-missing-key, each with the line.
Result<Target> read_target(const std::filesystem::path& path);
/// The same for a document that was parsed already.
Result<Target> target_of(const YamlNode& node, const std::filesystem::path& path);

/// The target that `spelling` names: id, chip ("SM8650"), vendor number ("57"), architecture ("v75", "htpv75"; only
/// where one target has it), marketing name or alias. Case, spaces, '-', '_' and the words "qualcomm" and "snapdragon"
/// in front do not matter.
/// Errors: unknown-target with the nearest name, or with the candidates when several targets fit.
Result<Target> find_target(std::string_view spelling);
Result<Target> find_target(std::string_view spelling, const std::vector<Target>& targets);

}  // namespace htpipe
