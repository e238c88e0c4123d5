// Fourier transforms by products with constant matrices, window functions, mel filters.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "import/onnx/onnx_helpers.h"
#include "import/onnx/onnx_map.h"

namespace htpipe::onnx_import::map {
namespace {

constexpr std::int64_t kMostElements = std::int64_t{1} << 24;  ///< of a transform's matrix
constexpr std::int64_t kLongest = 1 << 20;

struct Transform {
  std::int64_t in = 0;          ///< samples that are there; those behind them count as 0
  std::int64_t components = 1;  ///< of a sample: real, or real and imaginary
  std::int64_t length = 0;
  bool inverse = false;
  bool onesided = false;  ///< of the result; of the operand when inverse, whose result is real then

  [[nodiscard]] std::int64_t out() const { return onesided && !inverse ? length / 2 + 1 : length; }
  [[nodiscard]] std::int64_t out_components() const { return onesided && inverse ? 1 : 2; }
};

/// [in * components, out * out_components]: a transform of samples laid out one behind the other.
/// `window` has a factor for each sample, or is empty.
std::vector<float> matrix_of(const Transform& t, const std::vector<float>& window) {
  const std::int64_t columns = t.out() * t.out_components();
  std::vector<float> matrix(static_cast<std::size_t>(t.in * t.components * columns), 0.0F);
  // Samples of the operand that exist: a one-sided spectrum ends in the middle.
  const std::int64_t used = t.onesided && t.inverse ? t.length / 2 + 1 : t.length;
  for (std::int64_t sample = 0; sample < std::min(t.in, used); ++sample) {
    double factor = window.empty() ? 1.0 : static_cast<double>(window[static_cast<std::size_t>(sample)]);
    if (t.inverse) factor /= static_cast<double>(t.length);
    // Every frequency but the first, and the middle one of an even length, stands for its mirror image too.
    const bool mirrored = t.onesided && t.inverse && sample != 0 && 2 * sample != t.length;
    if (mirrored) factor *= 2.0;
    for (std::int64_t k = 0; k < t.out(); ++k) {
      const double turns = static_cast<double>(sample * k % t.length) / static_cast<double>(t.length);
      const double angle = (t.inverse ? 2.0 : -2.0) * std::numbers::pi * turns;
      const double cosine = factor * std::cos(angle);
      const double sine = factor * std::sin(angle);
      float* real_row = matrix.data() + sample * t.components * columns + k * t.out_components();
      real_row[0] = static_cast<float>(cosine);
      if (t.out_components() == 2) real_row[1] = static_cast<float>(sine);
      if (t.components == 1) continue;
      float* imaginary_row = real_row + columns;
      imaginary_row[0] = static_cast<float>(-sine);
      if (t.out_components() == 2) imaginary_row[1] = static_cast<float>(cosine);
    }
  }
  return matrix;
}

/// `input` [..., in, components] -> [..., out, out_components].
Result<Value*> transform(Call& call, Value* input, const Transform& t, const std::vector<float>& window,
                         std::string_view suffix) {
  const std::int64_t rows = t.in * t.components;
  const std::int64_t columns = t.out() * t.out_components();
  if (t.length < 1 || t.length > kLongest || t.in > kLongest || rows * columns > kMostElements) {
    return fail(Code::kUnsupportedForm, fmt::format("a Fourier transform of length {}", t.length));
  }
  HTPIPE_TRY(Value * matrix,
             call.cast(call.floats("fourier", {rows, columns}, matrix_of(t, window)), input->type.dtype, "fourier"));
  Shape flat(input->type.shape.begin(), input->type.shape.end() - 2);
  Shape shape = flat;
  flat.push_back(rows);
  shape.push_back(t.out());
  shape.push_back(t.out_components());
  HTPIPE_TRY(Value * samples, call.reshape(input, flat, "samples"));
  HTPIPE_TRY(Value * product, mat_mul(call, samples, matrix, false, false, "spectrum"));
  return call.reshape(product, shape, suffix);
}

Result<DType> output_type(const Call& call) {
  HTPIPE_TRY(const std::int64_t code, call.integer("output_datatype", 1));
  const auto dtype = dtype_of(static_cast<std::int32_t>(code));
  if (!dtype) return fail(Code::kUnsupportedForm, fmt::format("output_datatype {}", code));
  return *dtype;
}

/// A sum of cosines: a0 - a1 cos(2 pi i / n) + a2 cos(4 pi i / n).
Result<Values> window(Call& call, double a0, double a1, double a2) {
  HTPIPE_TRY(const double size, number_input(call, 0));
  HTPIPE_TRY(const std::int64_t periodic, call.integer("periodic", 1));
  HTPIPE_TRY(const DType dtype, output_type(call));
  if (!(size >= 0 && size <= static_cast<double>(kLongest))) {
    return fail(Code::kOnnxInvalid, fmt::format("a window of {} samples", size));
  }
  const auto count = static_cast<std::int64_t>(size);
  const double length = periodic != 0 ? size : size - 1.0;
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i) {
    const double angle = length > 0 ? 2.0 * std::numbers::pi * static_cast<double>(i) / length : 0.0;
    values.push_back(static_cast<float>(a0 - a1 * std::cos(angle) + a2 * std::cos(2.0 * angle)));
  }
  return one(call.cast(call.floats("samples", {count}, values), dtype));
}

}  // namespace

Result<Values> dft(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  const std::int64_t rank = rank_of(input);
  if (rank < 2 || (input->type.shape.back() != 1 && input->type.shape.back() != 2)) {
    return fail(Code::kUnsupportedForm, fmt::format("DFT of {}", to_string(input->type.shape)));
  }
  std::int64_t axis = -2;
  if (call.opset() < 20) {
    HTPIPE_TRY(axis, call.integer("axis", 1));
  } else if (call.has(2)) {
    HTPIPE_TRY(const double given, number_input(call, 2));
    if (!(std::abs(given) < 64)) return fail(Code::kOnnxInvalid, fmt::format("axis {}", given));
    axis = static_cast<std::int64_t>(given);
  }
  HTPIPE_TRY(axis, normal_axis(axis, input->type.shape.size()));
  if (axis == rank - 1) return fail(Code::kUnsupportedForm, "DFT along the axis of real and imaginary parts");
  HTPIPE_TRY(const std::int64_t inverse, call.integer("inverse", 0));
  HTPIPE_TRY(const std::int64_t onesided, call.integer("onesided", 0));
  Transform t;
  t.in = input->type.shape[static_cast<std::size_t>(axis)];
  t.components = input->type.shape.back();
  t.inverse = inverse != 0;
  t.onesided = onesided != 0;
  t.length = t.inverse && t.onesided ? 2 * (t.in - 1) : t.in;
  if (call.has(1)) {
    HTPIPE_TRY(const double length, number_input(call, 1));
    if (!(length >= 1 && length <= static_cast<double>(kLongest))) return fail(Code::kOnnxInvalid, "dft_length");
    t.length = static_cast<std::int64_t>(length);
  }
  // The axis goes to the last but one place.
  IntList perm = count_up(0, rank);
  perm.erase(perm.begin() + axis);
  perm.insert(perm.end() - 1, axis);
  IntList back(perm.size(), 0);
  for (std::size_t i = 0; i < perm.size(); ++i) back[static_cast<std::size_t>(perm[i])] = static_cast<std::int64_t>(i);
  const bool moves = axis != rank - 2;
  HTPIPE_TRY(Value * moved, call.transpose(input, perm, "moved"));
  HTPIPE_TRY(Value * result, transform(call, moved, t, {}, moves ? "transform" : ""));
  return one(call.transpose(result, back));
}

Result<Values> stft(Call& call) {
  HTPIPE_TRY(Value * signal, call.input(0));
  HTPIPE_TRY(const double step_input, number_input(call, 1));
  HTPIPE_TRY(const std::int64_t onesided, call.integer("onesided", 1));
  const Shape shape = signal->type.shape;
  // [batch, samples, 1 or 2]; some writers leave the last axis out.
  if (shape.size() != 2 && shape.size() != 3) {
    return fail(Code::kUnsupportedForm, fmt::format("STFT of {}", to_string(shape)));
  }
  Transform t;
  t.components = shape.size() == 3 ? shape[2] : 1;
  t.onesided = onesided != 0;
  std::vector<float> factors;
  t.length = shape[1];
  if (call.has(2)) {
    HTPIPE_TRY(factors, call.floats_input(2));
    t.length = static_cast<std::int64_t>(factors.size());
  }
  if (call.has(3)) {
    HTPIPE_TRY(const double length, number_input(call, 3));
    if (!(length >= 1 && length <= static_cast<double>(shape[1]))) return fail(Code::kOnnxInvalid, "frame_length");
    t.length = static_cast<std::int64_t>(length);
  }
  const bool sane_step = step_input >= 1 && step_input <= static_cast<double>(kLongest);
  const std::int64_t step = sane_step ? static_cast<std::int64_t>(step_input) : 1;
  if (!sane_step || shape[1] > kMostElements || t.components < 1 || t.components > 2 || t.length < 1 ||
      t.length > shape[1] || (!factors.empty() && static_cast<std::int64_t>(factors.size()) != t.length)) {
    return fail(Code::kUnsupportedForm, fmt::format("STFT of {} in frames of {}", to_string(shape), t.length));
  }
  t.in = t.length;
  const std::int64_t frames = (shape[1] - t.length) / step + 1;
  if (t.length > kLongest || frames * t.length > kMostElements) {
    return fail(Code::kUnsupportedForm, fmt::format("STFT in {} frames of {}", frames, t.length));
  }
  IntList places;
  for (std::int64_t frame = 0; frame < frames; ++frame) {
    for (std::int64_t i = 0; i < t.length; ++i) places.push_back(frame * step + i);
  }
  HTPIPE_TRY(Value * samples, call.reshape(signal, {shape[0], shape[1], t.components}, "signal"));
  HTPIPE_TRY(Value * framed, call.add("Gather", {{"axis", std::int64_t{1}}},
                                      {samples, call.integers("places", {frames, t.length}, places)}, "frames"));
  return one(transform(call, framed, t, factors, ""));
}

Result<Values> hann_window(Call& call) { return window(call, 0.5, 0.5, 0.0); }
Result<Values> hamming_window(Call& call) { return window(call, 25.0 / 46.0, 21.0 / 46.0, 0.0); }
Result<Values> blackman_window(Call& call) { return window(call, 0.42, 0.5, 0.08); }

Result<Values> mel_weight_matrix(Call& call) {
  HTPIPE_TRY(const double bins_input, number_input(call, 0));
  HTPIPE_TRY(const double length_input, number_input(call, 1));
  HTPIPE_TRY(const double rate, number_input(call, 2));
  HTPIPE_TRY(const double low, number_input(call, 3));
  HTPIPE_TRY(const double high, number_input(call, 4));
  HTPIPE_TRY(const DType dtype, output_type(call));
  const bool fits = bins_input >= 1 && bins_input <= 4096 && length_input >= 1 && length_input <= 65536 && rate > 0 &&
                    low >= 0 && high > low && high <= 1e9;
  if (!fits) return fail(Code::kOnnxInvalid, "MelWeightMatrix");
  const auto bins = static_cast<std::int64_t>(bins_input);
  const std::int64_t rows = static_cast<std::int64_t>(length_input) / 2 + 1;
  const auto to_mel = [](double hertz) { return 2595.0 * std::log10(1.0 + hertz / 700.0); };
  const double first = to_mel(low);
  const double step = (to_mel(high) - first) / (bins_input + 2.0);
  // The row on which each filter begins, peaks or ends.
  IntList edges;
  for (std::int64_t i = 0; i < bins + 2; ++i) {
    const double mel = static_cast<double>(i) * step + first;
    const double hertz = 700.0 * (std::pow(10.0, mel / 2595.0) - 1.0);
    edges.push_back(static_cast<std::int64_t>(std::floor((length_input + 1.0) * hertz / rate)));
    if (edges.back() > rows) return fail(Code::kOnnxInvalid, "MelWeightMatrix above half of the sample rate");
  }
  std::vector<float> values(static_cast<std::size_t>(rows * bins), 0.0F);
  const auto set = [&](std::int64_t row, std::int64_t bin, double value) {
    if (row < rows) values[static_cast<std::size_t>(row * bins + bin)] = static_cast<float>(value);
  };
  for (std::int64_t bin = 0; bin < bins; ++bin) {
    const std::int64_t begin = edges[static_cast<std::size_t>(bin)];
    const std::int64_t peak = edges[static_cast<std::size_t>(bin) + 1];
    const std::int64_t end = edges[static_cast<std::size_t>(bin) + 2];
    if (peak == begin) set(peak, bin, 1.0);
    for (std::int64_t row = begin; row <= peak && peak > begin; ++row) {
      set(row, bin, static_cast<double>(row - begin) / static_cast<double>(peak - begin));
    }
    for (std::int64_t row = peak; row < end; ++row) {
      set(row, bin, static_cast<double>(end - row) / static_cast<double>(end - peak));
    }
  }
  return one(call.cast(call.floats("filters", {rows, bins}, values), dtype));
}

}  // namespace htpipe::onnx_import::map
