// ReduceMax: Maximum over axes. Source: QNN operator ReduceMax.
#include "ops/reduce.h"
#include "ops/registry.h"

namespace htpipe::ops {

const OpDef& reduce_max() {
  static const OpDef op = reduce_op("ReduceMax", "Maximum over axes.", Reduction::kMax);
  return op;
}

}  // namespace htpipe::ops
