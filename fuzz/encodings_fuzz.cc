// Fuzz target of the reader of encodings files (AIMET and QAIRT 0.6.1, 1.0.0, 2.0.0).
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "quant/encodings_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto file = htpipe::parse_encodings(text); !file) (void)file.error().summary();
  return 0;
}
