// The data types in which ONNX Runtime computes: our small integers go through a wider one and wrap on the way back.
#pragma once

#include "export/onnx/node_writer.h"

namespace htpipe::onnx_export {

/// i32 for integers of 8 and 16 bits (and bool), i64 for u32; the others as they are.
[[nodiscard]] DType wide_type(DType dtype);

}  // namespace htpipe::onnx_export
