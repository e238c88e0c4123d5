// One sample in the type that an input has.
#pragma once

#include "base/result.h"
#include "pipeline/input_file.h"

namespace htpipe {

/// `given`, of as many elements as the port, in the port's type: see InputFile::samples. Shares the bytes where nothing
/// is converted. Errors: data-dtype, data-not-finite, with the port.
Result<Tensor> convert_input(const Tensor& given, const Port& port);

/// Whether convert_input takes elements of that type at all. Errors: data-dtype.
Status check_convertible(const TensorType& given, const Port& port);

}  // namespace htpipe
