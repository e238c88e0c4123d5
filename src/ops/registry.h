// Registration of all operators, explicit so that it depends neither on link order nor on static initialisers.
#pragma once

#include "ir/op.h"

namespace htpipe {

/// Makes find_op work; may be called any number of times, from any thread.
void register_all_ops();

namespace ops {
#define HTPIPE_OP(name) [[nodiscard]] const OpDef& name();
#include "ops/op_list.inc"
#undef HTPIPE_OP
}  // namespace ops

}  // namespace htpipe
