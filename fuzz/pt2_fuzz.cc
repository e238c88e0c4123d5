// Fuzz target of the .pt2 reader and importer. An input that starts with '{' is taken as model.json and as a payload config, so that
// the parser is reached without a zip around it; any other input is an archive. CRCs are not checked: a fuzzer cannot
// guess them, and behind them lies the code that must stand hostile weights.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "import/pt2/archive.h"
#include "import/pt2/import.h"
#include "ops/registry.h"

namespace {

using htpipe::Bytes;

/// Reads every byte, so that the sanitizer sees a view that leaves its owner.
std::uint64_t sum_of(Bytes bytes) {
  std::uint64_t sum = 0;
  for (const std::byte value : bytes) sum += std::to_integer<std::uint64_t>(value);
  return sum;
}

void read_json(Bytes bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  (void)htpipe::pt2::parse_program(text);
  (void)htpipe::pt2::parse_payloads(text);
}

void read_archive(Bytes bytes) {
  // A copy of exactly this size: reads beyond it are seen.
  const auto owner = std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end());
  const auto archive = htpipe::pt2::read_pt2(*owner, owner, "fuzz.pt2", {.check_crc = false});
  if (!archive) {
    (void)archive.error().summary();
    return;
  }
  volatile std::uint64_t sum = 0;
  for (const auto* const map : {&archive->weights, &archive->constants}) {
    for (const auto& member : *map) sum = sum + sum_of(member.second.bytes());
  }
  if (const auto graph = htpipe::pt2::import_archive(*archive, "fuzz"); !graph) (void)graph.error().summary();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  htpipe::register_all_ops();
  const Bytes bytes = std::as_bytes(std::span(data, size));
  if (size > 0 && data[0] == '{') {
    read_json(bytes);
  } else {
    read_archive(bytes);
  }
  return 0;
}
