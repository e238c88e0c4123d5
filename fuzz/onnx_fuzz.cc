// Fuzz target of the ONNX importer: the message, its tensors, and the walk over its nodes.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "import/onnx/import.h"
#include "ops/registry.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  htpipe::register_all_ops();
  // A copy of exactly this size: reads beyond it are seen.
  const htpipe::Bytes input = std::as_bytes(std::span(data, size));
  const std::vector<std::byte> copy(input.begin(), input.end());
  const auto imported = htpipe::import_onnx(htpipe::Bytes(copy), "no-such-folder/fuzz.onnx", {});
  if (!imported) {
    (void)imported.error().summary();
    return 0;
  }
  volatile std::uint64_t sum = 0;
  for (const auto& value : imported->graph.values()) {
    if (!value->is_constant()) continue;
    for (const std::byte byte : value->constant.bytes()) sum = sum + std::to_integer<std::uint64_t>(byte);
  }
  return 0;
}
