// htpipe version.
#include "base/version.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "cli/answer.h"
#include "qnn/install.h"

namespace htpipe::cli {

Result<Answer> version(const Arguments& /*arguments*/) {
  Answer answer;
  *answer.json = {{"version", kVersion},
                  {"supported_vendor_wheel", qnn::kSupportedWheel},
                  {"supported_vendor_build", qnn::kSupportedBuildId}};
  answer.text = fmt::format("htpipe {}\n", kVersion);
  answer.brief = fmt::format("{}\n", kVersion);
  return answer;
}

}  // namespace htpipe::cli
