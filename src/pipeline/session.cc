#include "pipeline/session.h"

#include <fmt/core.h>

#include <chrono>

#include "base/hash.h"
#include "base/log.h"

namespace htpipe {

double now_ms() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string chip_key(const Target& target) {
  return fmt::format("{} {} {}", target.id, target.soc_model, target.htp_version);
}

std::string Session::key(const std::vector<std::string>& parts) const {
  Sha256 hash;
  hash.add(program_digest);
  for (const std::string& part : parts) hash.add(part);
  return hash.hex();
}

void Session::announce(const std::string& name, const std::string& target) {
  log::info("pipeline", "stage {}{}{}", name, target.empty() ? "" : " for ", target);
}

Error Session::in_stage(Error error, const std::string& name, const std::string& target) {
  if (error.place.target.empty()) error.place.target = target;
  error.notes.push_back(fmt::format("stage {}", name));
  return error;
}

}  // namespace htpipe
