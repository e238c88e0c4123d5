// Operators that move elements.
#include "export/onnx/operators.h"

namespace htpipe::onnx_export::write {

Status reshape(NodeWriter& out) {
  out.emit("Reshape", {out.in(0), out.integers("shape", out.result_type().shape)}, out.out());
  return {};
}

Status transpose(NodeWriter& out) {
  set(out.emit("Transpose", {out.in(0)}, out.out()), "perm", out.attributes().integers("perm"));
  return {};
}

}  // namespace htpipe::onnx_export::write
