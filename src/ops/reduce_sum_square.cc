// ReduceSumSquare: Sum of squares over axes. Source: QNN operator ReduceSumSquare.
#include "ops/reduce.h"
#include "ops/registry.h"

namespace htpipe::ops {

const OpDef& reduce_sum_square() {
  static const OpDef op = reduce_op("ReduceSumSquare", "Sum of squares over axes.", Reduction::kSumSquare);
  return op;
}

}  // namespace htpipe::ops
