// Advice about what the application gives and takes. `htpipe check --apply` changes it: check/apply.h.
#include <fmt/core.h>

#include <algorithm>

#include "check/advice/adviser.h"
#include "check/apply.h"

namespace htpipe::check {

void advise_interface(Adviser& adviser) {
  const Subject& subject = adviser.subject;
  for (const Value* input : subject.imported.inputs()) {
    const auto bytes = static_cast<double>(stored_bytes_of(*input, subject));
    if (input->users.empty() && !subject.imported.is_output(input)) {
      adviser.add("unused-input", nullptr, input->name, Gain{bytes, "bytes given for nothing"});
      continue;
    }
    if (input->type.dtype == DType::kI64) {
      adviser.add("input-int64", nullptr, fmt::format("{} {}", input->name, to_string(input->type)),
                  Gain{static_cast<double>(input->type.size_bytes()) / 2, "bytes given"});
    }
    const Shape& shape = input->type.shape;
    if (shape.size() == 4 && shape[0] > 1 && is_float(input->type.dtype)) {
      adviser.add("batch-above-one", nullptr, fmt::format("{} {}", input->name, to_string(input->type)));
    }
  }
  for (const Value* input : subject.optimised.inputs()) {
    if (!is_channel_first_image(*input)) continue;
    adviser.add("input-channel-first", input->users.front(), fmt::format("{} {}", input->name, to_string(input->type)),
                Gain{2 * static_cast<double>(stored_bytes_of(*input, subject)), "bytes read and written"});
  }
}

}  // namespace htpipe::check
