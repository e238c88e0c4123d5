// Argmax: Index of the largest element along one axis. Source: QNN operator Argmax; select_last is ours.
#include "ops/ranking.h"
#include "ops/registry.h"

namespace htpipe::ops {

const OpDef& argmax() {
  static const OpDef op = arg_op("Argmax", "Index of the largest element along one axis.", true);
  return op;
}

}  // namespace htpipe::ops
