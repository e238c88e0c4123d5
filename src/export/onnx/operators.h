// The functions that write our operators as ONNX, named after the operators; each family in a file of its own.
#pragma once

#include "export/onnx/node_writer.h"

namespace htpipe::onnx_export::write {

#define HTPIPE_WRITER(op, function) Status function(NodeWriter& out);
#include "export/onnx/operator_list.inc"
#undef HTPIPE_WRITER

}  // namespace htpipe::onnx_export::write
