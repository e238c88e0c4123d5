// Argmin: Index of the smallest element along one axis. Source: QNN operator Argmin; select_last is ours.
#include "ops/ranking.h"
#include "ops/registry.h"

namespace htpipe::ops {

const OpDef& argmin() {
  static const OpDef op = arg_op("Argmin", "Index of the smallest element along one axis.", false);
  return op;
}

}  // namespace htpipe::ops
