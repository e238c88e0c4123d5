// The mappers of ONNX operators, named after them; each family in a file of its own (onnx_math.cc, onnx_shape.cc …).
#pragma once

#include "import/onnx/call.h"

namespace htpipe::onnx_import::map {

#define HTPIPE_ONNX(domain, op_type, mapper) Result<Values> mapper(Call& call);
#include "import/onnx/onnx_ops.inc"
#undef HTPIPE_ONNX

}  // namespace htpipe::onnx_import::map
