#include "kernels/vector_math.h"

#include "kernels/isa.h"

namespace htpipe::kernels {

const VectorMath& vector_math() {
  switch (isa()) {
    case Isa::kAvx512:
      return avx512::kVectorMath;
    case Isa::kAvx2:
      return avx2::kVectorMath;
    case Isa::kGeneric:
      break;
  }
  return generic::kVectorMath;
}

}  // namespace htpipe::kernels
