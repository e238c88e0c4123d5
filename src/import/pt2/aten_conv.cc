// Convolutions.
#include <fmt/core.h>

#include "import/compose/conv.h"
#include "import/pt2/mappers.h"

namespace htpipe::pt2 {
namespace {

/// padding="same" pads so that the output is as large as the input, the odd element behind.
Status read_padding(Call& call, std::size_t dimensions, const Shape& weight, compose::ConvSpec& spec) {
  const Argument* argument = call.node().input("padding");
  const auto* word = argument != nullptr ? std::get_if<std::string>(argument) : nullptr;
  if (word == nullptr) {
    HTPIPE_TRY(spec.pad_begin, call.integers("padding", dimensions, IntList(dimensions, 0)));
    spec.pad_end = spec.pad_begin;
    return {};
  }
  spec.pad_begin = spec.pad_end = IntList(dimensions, 0);
  if (*word == "valid") return {};
  if (*word != "same") return fail(Code::kUnsupportedForm, "padding " + *word);
  for (std::size_t i = 0; i < dimensions; ++i) {
    const std::int64_t total = spec.dilation[i] * (weight[i + 2] - 1);
    spec.pad_begin[i] = total / 2;
    spec.pad_end[i] = total - total / 2;
  }
  return {};
}

}  // namespace

/// conv1d … conv3d, conv_transpose1d … 3d, convolution and _convolution; an input without a batch gets one.
One convolution(Call& call) {
  HTPIPE_TRY(Value * input, call.tensor("input"));
  HTPIPE_TRY(Value * weight, call.tensor("weight"));
  HTPIPE_TRY(Value * bias, call.optional_tensor("bias"));
  const Shape& shape = weight->type.shape;
  if (shape.size() < 3 || shape.size() > 5) return fail(Code::kUnsupportedForm, "convolution by " + to_string(shape));
  const std::size_t dimensions = shape.size() - 2;
  compose::ConvSpec spec;
  HTPIPE_TRY(const bool transposed, call.flag("transposed", false));
  spec.transposed = transposed || call.argument() == "transposed";
  HTPIPE_TRY(spec.stride, call.integers("stride", dimensions, IntList(dimensions, 1)));
  HTPIPE_TRY(spec.dilation, call.integers("dilation", dimensions, IntList(dimensions, 1)));
  if (spec.transposed) {
    HTPIPE_TRY(spec.output_padding, call.integers("output_padding", dimensions, IntList(dimensions, 0)));
  }
  HTPIPE_TRY(spec.group, call.integer("groups", 1));
  HTPIPE_CHECK_OK(read_padding(call, dimensions, shape, spec));
  const Shape& given = input->type.shape;
  const bool single = given.size() == dimensions + 1;
  if (!single && given.size() != dimensions + 2) {
    return fail(Code::kUnsupportedForm, fmt::format("convolution of {} by {}", to_string(given), to_string(shape)));
  }
  if (!single) return compose::conv(call.builder(), input, weight, bias, spec);
  Shape batch = given;
  batch.insert(batch.begin(), 1);
  HTPIPE_TRY(Value * batched, call.reshape(input, batch, "batch"));
  HTPIPE_TRY(Value * result, compose::conv(call.builder(), batched, weight, bias, spec));
  Shape without(result->type.shape.begin() + 1, result->type.shape.end());
  return call.reshape(result, without, "single");
}

}  // namespace htpipe::pt2
