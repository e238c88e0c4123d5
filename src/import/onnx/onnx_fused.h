// The activation that fused operators of com.microsoft carry as an attribute.
#pragma once

#include <string>
#include <vector>

#include "import/onnx/call.h"

namespace htpipe::onnx_import {

/// `activation` by its ONNX name, empty for none; the result has the name of the node.
/// Errors: unsupported-form for an activation that these operators do not have.
Result<Value*> fused_activation(Call& call, Value* value, const std::string& activation,
                                const std::vector<float>& parameters);

}  // namespace htpipe::onnx_import
