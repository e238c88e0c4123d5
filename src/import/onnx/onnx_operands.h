// The two operands of elementwise operators.
#pragma once

#include "import/onnx/call.h"

namespace htpipe::onnx_import {

struct Operands {
  Value* a;
  Value* b;
};

/// Inputs 0 and 1 of an operator with numpy's broadcasting. Before opset 7 the attributes `broadcast` and `axis` say
/// which axes of the first one the second one has: it gets axes of size 1 behind them.
Result<Operands> two_operands(Call& call);

}  // namespace htpipe::onnx_import
