// A vector function of operand 0 into result 0, shared out among the threads of a call.
#pragma once

#include "kernels/vector_math.h"
#include "ops/lanes.h"

namespace htpipe::ops {

inline Kernel map_kernel(kernels::Unary32 function, std::int64_t count) {
  constexpr std::int64_t kGrain = 1 << 13;  // elements that are worth a hand-over to another thread
  Kernel kernel;
  kernel.run = [function, count](const KernelCall& call) {
    for_parts(call, count, kGrain, [&](std::int64_t begin, std::int64_t end, std::byte*) {
      kernels::vector_math().map(function, call.in<float>(0) + begin, call.out<float>(0) + begin, end - begin);
    });
  };
  return kernel;
}

}  // namespace htpipe::ops
