// ReduceMin: Minimum over axes. Source: QNN operator ReduceMin.
#include "ops/reduce.h"
#include "ops/registry.h"

namespace htpipe::ops {

const OpDef& reduce_min() {
  static const OpDef op = reduce_op("ReduceMin", "Minimum over axes.", Reduction::kMin);
  return op;
}

}  // namespace htpipe::ops
