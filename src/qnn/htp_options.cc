// The table of HTP compiler options.
#include "qnn/htp_options.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

namespace htpipe::qnn {
namespace {

enum class Form { kOptimization, kU32, kU64, kFlag };

struct Row {
  std::string_view name;
  Form form;
  std::uint32_t number;  ///< option, or type of an optimization
  double low;
  double high;
};

constexpr std::uint32_t kOptimizationOption = 1;

constexpr std::array<Row, 12> kRows = {{
    {"optimization_level", Form::kOptimization, 3, 1, 3},
    {"dlbc", Form::kOptimization, 4, 0, 1},
    {"dlbc_weights", Form::kOptimization, 5, 0, 1},
    {"precision", Form::kU32, 2, 0, 1},
    {"vtcm_mb", Form::kU32, 3, 1, 64},
    {"fold_relu_off", Form::kFlag, 4, 0, 1},
    {"short_depth_conv_off", Form::kFlag, 5, 0, 1},
    {"hvx_threads", Form::kU64, 6, 1, 16},
    {"num_cores", Form::kU32, 8, 1, 16},
    {"weights_packing", Form::kFlag, 12, 0, 1},
    {"advanced_activation_fusion", Form::kFlag, 15, 0, 1},
    {"high_precision_sigmoid", Form::kFlag, 16, 0, 1},
}};

Result<abi::HtpGraphConfig> config_of(std::string_view name, double value) {
  const auto row = std::find_if(kRows.begin(), kRows.end(), [name](const Row& r) { return r.name == name; });
  if (row == kRows.end()) return fail(Code::kUsage, fmt::format("no HTP compiler option is named {}", name));
  if (!(value >= row->low && value <= row->high) || std::floor(value) != value) {
    return fail(Code::kUsage, fmt::format("HTP compiler option {} must be a whole number of {} to {}, not {}", name,
                                          row->low, row->high, value));
  }
  abi::HtpGraphConfig config{};
  config.option = row->form == Form::kOptimization ? kOptimizationOption : row->number;
  switch (row->form) {
    case Form::kOptimization:
      config.optimization = {row->number, static_cast<float>(value)};
      break;
    case Form::kU32:
      config.u32 = static_cast<std::uint32_t>(value);
      break;
    case Form::kU64:
      config.u64 = static_cast<std::uint64_t>(value);
      break;
    case Form::kFlag:
      config.flag = value != 0 ? 1 : 0;
      break;
  }
  return config;
}

}  // namespace

void HtpGraphConfigs::add(const abi::HtpGraphConfig& config) {
  custom_.push_back(config);
  configs_.push_back({abi::kConfigCustom, &custom_.back()});
  pointers_.insert(pointers_.end() - 1, &configs_.back());
}

Result<std::unique_ptr<HtpGraphConfigs>> HtpGraphConfigs::make(const ContextOptions& options) {
  std::vector<std::pair<std::string, double>> all = {{"optimization_level", options.optimization_level}};
  if (options.vtcm_mb != 0) all.emplace_back("vtcm_mb", options.vtcm_mb);
  all.insert(all.end(), options.custom.begin(), options.custom.end());
  auto configs = std::make_unique<HtpGraphConfigs>();
  for (const auto& [name, value] : all) {
    HTPIPE_TRY(const abi::HtpGraphConfig config, config_of(name, value));
    configs->add(config);
  }
  return configs;
}

}  // namespace htpipe::qnn
