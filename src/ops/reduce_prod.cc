// ReduceProd: Product over axes. Source: QNN operator ReduceProd.
#include "ops/reduce.h"
#include "ops/registry.h"

namespace htpipe::ops {

const OpDef& reduce_prod() {
  static const OpDef op = reduce_op("ReduceProd", "Product over axes.", Reduction::kProd);
  return op;
}

}  // namespace htpipe::ops
