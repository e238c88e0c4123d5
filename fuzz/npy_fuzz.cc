// Fuzz target of the readers of data sets: .npy, .npz and idx (plain and gzip), chosen by the input's first byte.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tensor/idx.h"
#include "tensor/npy.h"

namespace {

std::uint64_t sum_of(const htpipe::Tensor& tensor) {
  std::uint64_t sum = 0;
  for (const std::byte value : tensor.bytes()) sum += std::to_integer<std::uint64_t>(value);
  return sum;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // A copy of exactly this size: reads beyond it are seen.
  const htpipe::Bytes input = std::as_bytes(std::span(data, size));
  const auto owner = std::make_shared<const std::vector<std::byte>>(input.begin(), input.end());
  const auto first = size > 0 ? data[0] : std::uint8_t{0};
  volatile std::uint64_t sum = 0;
  if (first == 0x93) {
    if (const auto tensor = htpipe::read_npy(*owner, owner)) sum = sum_of(*tensor);
  } else if (first == 'P') {
    if (const auto tensors = htpipe::read_npz(*owner, owner, "fuzz.npz")) {
      for (const auto& member : *tensors) sum = sum + sum_of(member.tensor);
    }
  } else if (const auto tensor = htpipe::read_idx(htpipe::Bytes(*owner))) {
    sum = sum_of(*tensor);
  }
  return 0;
}
