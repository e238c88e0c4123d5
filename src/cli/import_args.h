// What a command line says of the import of a model: --dim, --shape, --fix. The one place that reads them.
#pragma once

#include "cli/answer.h"
#include "import/options.h"

namespace htpipe::cli {

/// NAME=N, NAME=1,3,224,224 and NAME=VALUE or NAME=file.npy. A whole number becomes i64, another number f32, true and
/// false bool; the importer converts to the input's type. Errors: usage; those of read_npy.
Result<ImportOptions> import_options(const Arguments& arguments);

}  // namespace htpipe::cli
