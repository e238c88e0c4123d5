// ReduceSum: Sum over axes. Source: QNN operator ReduceSum.
#include "ops/reduce.h"
#include "ops/registry.h"

namespace htpipe::ops {

const OpDef& reduce_sum() {
  static const OpDef op = reduce_op("ReduceSum", "Sum over axes.", Reduction::kSum);
  return op;
}

}  // namespace htpipe::ops
