// ReduceMean: Mean over axes. Source: QNN operator ReduceMean.
#include "ops/reduce.h"
#include "ops/registry.h"

namespace htpipe::ops {

const OpDef& reduce_mean() {
  static const OpDef op = reduce_op("ReduceMean", "Mean over axes.", Reduction::kMean);
  return op;
}

}  // namespace htpipe::ops
