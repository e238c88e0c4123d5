#include "pipeline/provenance.h"

#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "base/version.h"

namespace htpipe {

Json provenance_json(const Session& session, const Target& target) {
  const Json options = to_json(session.config);
  return {{"htpipe", kVersion},
          {"model_id", session.config.model.id},
          {"model_sha", session.model_sha},
          {"graph_sha", session.graph_digest},
          {"calibration_sha", session.calibration.digest()},
          {"evaluation_sha", session.evaluation.digest()},
          {"options", options},
          {"options_sha", sha256_hex(as_bytes(options.dump()))},
          {"target", target.id},
          {"producer", session.producer},
          {"vendor", session.vendor_versions}};
}

}  // namespace htpipe
