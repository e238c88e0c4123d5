// Fuzz target of the YAML readers: pipeline files, and the files of targets.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "pipeline/config.h"
#include "target/strict_yaml.h"
#include "target/target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto node = htpipe::parse_yaml(text, "fuzz.yaml");
  if (!node) {
    (void)node.error().summary();
    return 0;
  }
  if (const auto config = htpipe::config_of(*node, "fuzz.yaml"); !config) (void)config.error().summary();
  if (const auto target = htpipe::target_of(*node, "fuzz.yaml"); !target) (void)target.error().summary();
  return 0;
}
