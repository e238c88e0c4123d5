// htpipe targets: the chips and every name that they are known by.
#include <fmt/core.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/answer.h"
#include "cli/table.h"
#include "target/target.h"

namespace htpipe::cli {

Result<Answer> targets(const Arguments& /*arguments*/) {
  HTPIPE_TRY(const std::vector<Target> known, load_targets());
  Answer answer;
  Table table({"target", "chip", "soc_model>", "htp", "fp16", "int16 weights", "vtcm>", "also known as"});
  Json list = Json::array();
  for (const Target& target : known) {
    std::vector<std::string> names = {target.name};
    names.insert(names.end(), target.aliases.begin(), target.aliases.end());
    table.add({target.id, target.soc, std::to_string(target.soc_model), target.arch(),
               target.supports_fp16 ? "yes" : "no", target.supports_int16_weights ? "yes" : "no",
               fmt::format("{} MB", target.vtcm_mb), fmt::format("{}", fmt::join(names, ", "))});
    list.push_back({{"id", target.id},
                    {"name", target.name},
                    {"soc", target.soc},
                    {"soc_model", target.soc_model},
                    {"htp_version", target.htp_version},
                    {"supports_fp16", target.supports_fp16},
                    {"supports_int16_activations", target.supports_int16_activations},
                    {"supports_int16_weights", target.supports_int16_weights},
                    {"supports_weight_sharing", target.supports_weight_sharing},
                    {"vtcm_mb", target.vtcm_mb},
                    {"aliases", target.aliases}});
    answer.brief += target.id + "\n";
  }
  *answer.json = {{"targets", std::move(list)}};
  answer.text = table.text();
  return answer;
}

}  // namespace htpipe::cli
