#include "quant/quantize.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "quant/assume.h"
#include "quant/weights.h"

namespace htpipe::quant {
namespace {

struct Key {
  const Value* value;
  Precision precision;
  bool operator<(const Key& other) const {
    return std::tie(value->name, precision) < std::tie(other.value->name, other.precision);
  }
};

int bits_of(Precision precision) { return precision == Precision::kInt16 ? 16 : 8; }

/// The chip has no integers of 64 bits.
DType narrow(DType dtype) { return dtype == DType::kI64 ? DType::kI32 : dtype; }

Result<Tensor> narrow(const Tensor& tensor) {
  if (tensor.dtype() != DType::kI64) return tensor;
  Tensor result({DType::kI32, tensor.shape(), std::nullopt});
  const auto to = result.mutable_data<std::int32_t>();
  for (std::size_t i = 0; i < to.size(); ++i) {
    const std::int64_t value = tensor.data<std::int64_t>()[i];
    to[i] = static_cast<std::int32_t>(value);
    if (to[i] != value) return fail(Code::kUnsupportedForm, fmt::format("{} does not fit 32 bits", value));
  }
  return result;
}

/// Whether a constant holds values that stand for an infinity.
bool has_infinite(const Value& value) {
  if (!value.is_constant() || !is_float(value.type.dtype)) return false;
  Histogram histogram;
  histogram.add(to_floats(value.constant));
  return histogram.reaches_below() || histogram.reaches_above();
}

/// Enlarges an 8-bit scale to a whole number of 2^-16.
void round_to_units(TensorType& type) {
  if (!type.encoding || size_of(type.dtype) != 1) return;
  float& scale = type.encoding->scales.front();
  scale = std::ldexp(std::ceil(std::ldexp(scale, 16)), -16);
}

class Quantizer {
 public:
  Quantizer(const Graph& source, const Ranges& ranges, const QuantizeOptions& options)
      : source_(source), ranges_(ranges), options_(options), graph_(source.name()) {}

  Result<Graph> run() {
    share_ranges();
    for (const Value* input : source_.inputs()) {
      const Precision precision = precision_of(input->name);
      TensorType type = input->type;
      if (is_float(type.dtype)) {
        HTPIPE_TRY(type, type_of(*input, precision, "none"));
      }
      type.dtype = narrow(type.dtype);
      bind(input, precision, graph_.add_input(input->name, type));
    }
    for (const auto& node : source_.nodes()) {
      const Status status = add(*node);
      if (!status) {
        Error error = status.error();
        if (error.place.node.empty()) error.place.node = node->name();
        return fail(std::move(error));
      }
    }
    std::vector<Value*> outputs;
    for (const Value* output : source_.outputs()) outputs.push_back(made_.at({output, own_.at(output->name)}));
    graph_.set_outputs(std::move(outputs));
    HTPIPE_CHECK_OK(verify(graph_));
    return std::move(graph_);
  }

 private:
  [[nodiscard]] Precision precision_of(const std::string& name) const {
    const auto at = options_.precisions.find(name);
    return at == options_.precisions.end() ? options_.default_precision : at->second;
  }

  /// What only a Concat or a Select reads gets the range of its result: nothing is converted there. (The chip computes
  /// some operators in the encoding of the one behind them, whatever their own.)
  void share_ranges() {
    for (auto node = source_.nodes().rbegin(); node != source_.nodes().rend(); ++node) {
      const auto whole = ranges_.find((*node)->name());
      if (!((*node)->is("Concat") || (*node)->is("ElementWiseSelect")) || whole == ranges_.end()) continue;
      for (const Value* operand : (*node)->operands) {
        const auto own = ranges_.find(operand->name);
        if (own == ranges_.end() || operand->producer == nullptr || operand->users.size() != 1) continue;
        const bool calibrated = operand->producer->op->result_encoding == ResultEncoding::kCalibrated;
        if (calibrated && !source_.is_output(operand) && activation_of(operand) == "none") own->second = whole->second;
      }
    }
  }

  /// The second factor of 16 bits, with the zero point in the middle: the chip takes no other.
  Result<Value*> symmetric(Value& value, const Node& user) {
    constexpr std::int32_t kMiddle = 32768;
    const Encoding& own = *value.type.encoding;
    if (own.zero_point() == kMiddle || value.is_constant()) return &value;
    HTPIPE_TRY(Node * made, graph_.add_node("Convert", value.name + "_symmetric", {{"to", std::string("u16")}},
                                            {&value}, user.source));
    const std::int32_t reach = std::max(own.zero_point(), 65535 - own.zero_point());
    const auto scale = static_cast<float>(static_cast<double>(own.scale()) * reach / 32767);
    made->result()->type.encoding = Encoding::per_tensor(scale, kMiddle, 16);
    return made->result();
  }

  /// Gives what is joined the encoding of the whole by conversions of its own: the chip merges those that it makes
  /// itself into some of the operators in front.
  Status convert_for_concat(const Node& node, std::vector<Value*>& operands) {
    if (!is_float(node.result()->type.dtype)) return {};
    HTPIPE_TRY(const TensorType whole, type_of(*node.result(), precision_of(node.name()), "none"));
    for (Value*& operand : operands) {
      if (operand->producer == nullptr || operand->type.dtype != whole.dtype) continue;
      if (operand->type.encoding == whole.encoding) continue;
      const std::string name = fmt::format("{}_in_{}", operand->name, node.name());
      HTPIPE_TRY(Node * made, graph_.add_node("Convert", name, {{"to", std::string(htpipe::name_of(whole.dtype))}},
                                              {operand}, node.source));
      made->result()->type.encoding = whole.encoding;
      operand = made->result();
    }
    return {};
  }

  [[nodiscard]] DType storage(Precision precision) const {
    const DType dtype = storage_of(precision);
    if (!options_.signed_activations || is_float(dtype)) return dtype;
    return dtype == DType::kU8 ? DType::kI8 : DType::kI16;
  }

  /// Signed values are the unsigned ones less half their range.
  [[nodiscard]] Encoding encoding_of(Range range, Precision precision) const {
    Encoding encoding = asymmetric_encoding(range, bits_of(precision));
    if (options_.signed_activations) encoding.zero_points.front() -= 1 << (bits_of(precision) - 1);
    return encoding;
  }

  void bind(const Value* value, Precision precision, Value* made) {
    made_[{value, precision}] = made;
    own_.emplace(value->name, precision);
  }

  Result<TensorType> type_of(const Value& value, Precision precision, const std::string& activation) const {
    // Indices, masks and the like are what they are in every precision.
    if (!is_float(value.type.dtype)) return value.type;
    TensorType type{storage(precision), value.type.shape, std::nullopt};
    if (precision == Precision::kFp16) return type;
    const auto at = ranges_.find(value.name);
    if (at == ranges_.end()) {
      return fail(Error(Code::kNoEncoding, "calibration never saw this value").at_node(value.name));
    }
    Range range = at->second;
    if (activation != "none") range.low = 0.0F;
    if (activation == "relu6") range.high = std::min(range.high, 6.0F);
    // In 16 bits the chip stores a hard_sigmoid in steps of 1/65535, whatever the encoding says.
    const Node* producer = value.producer;
    if (precision == Precision::kInt16 && producer != nullptr && producer->is("ElementWiseNeuron") &&
        producer->attributes.text("operation") == "hard_sigmoid") {
      range = {0.0F, 1.0F};
    }
    type.encoding = encoding_of(range, precision);
    return type;
  }

  /// The value in the precision wanted, converted when it is made in another.
  Result<Value*> at(const Value* value, Precision wanted, const Node& user) {
    if (!is_float(value->type.dtype)) {  // indices and masks stay what they are
      if (!value->is_constant()) return made_.at({value, own_.at(value->name)});
      if (leaves_unread(value->constant) && value->type.dtype == DType::kI64) {
        return graph_.add_constant(value->name, unread({DType::kI32, value->type.shape, std::nullopt}));
      }
      HTPIPE_TRY(const Tensor constant, narrow(value->constant));
      return graph_.add_constant(value->name, constant);
    }
    if (value->is_constant()) return constant_data(*value, wanted);
    if (const auto found = made_.find({value, wanted}); found != made_.end()) return found->second;
    const Precision own = own_.at(value->name);
    Value* from = made_.at({value, own});
    const std::string_view to = htpipe::name_of(storage(wanted));
    const std::string_view op = wanted == Precision::kFp16 ? "Dequantize"
                                : own == Precision::kFp16  ? "Quantize"
                                                           : "Convert";
    const std::string name = fmt::format("{}_{}", value->name, to);
    HTPIPE_TRY(Node * node, graph_.add_node(op, name, {{"to", std::string(to)}}, {from}, user.source));
    const std::string activation = activation_of(value);
    HTPIPE_TRY(const TensorType type, type_of(*value, wanted, activation));
    node->result()->type = type;
    made_[{value, wanted}] = node->result();
    return node->result();
  }

  static std::string activation_of(const Value* value) {
    if (value->producer == nullptr) return "none";
    const Attribute* attribute = value->producer->attributes.find("activation");
    return attribute == nullptr ? "none" : std::get<std::string>(*attribute);
  }

  [[nodiscard]] bool leaves_unread(const Tensor& constant) const { return options_.types_only && is_unread(constant); }

  /// A constant data operand (not a weight), by its own range.
  Result<Value*> constant_data(const Value& value, Precision precision) {
    TensorType type{storage(precision), value.type.shape, std::nullopt};
    if (leaves_unread(value.constant)) {
      if (precision != Precision::kFp16) type.encoding = encoding_of({-1.0F, 1.0F}, precision);
      return graph_.add_constant(value.name, unread(std::move(type)));
    }
    if (precision != Precision::kFp16) {
      Histogram histogram;
      const std::vector<float> values = to_floats(value.constant);
      histogram.add(values);
      type.encoding = encoding_of(choose_range(histogram, RangeMethod::kMinMax, 100, bits_of(precision)), precision);
    }
    return graph_.add_constant(value.name, store_as(value.constant, type));
  }

  /// A Cast from integers: stored numbers that mean themselves. Between integers of the chip it changes nothing.
  Status add_cast(const Node& node) {
    const Value* result = node.result();
    const Value* operand = node.operands[0];
    const Precision precision = precision_of(node.name());
    if (is_float(operand->type.dtype)) {
      if (!is_float(result->type.dtype)) {
        return fail(Code::kUnsupportedForm, "a quantised value cannot become an integer on the chip");
      }
      // Numbers of another width are the same numbers.
      own_[result->name] = own_.at(operand->name);
      made_[{result, own_.at(operand->name)}] = made_.at({operand, own_.at(operand->name)});
      return {};
    }
    HTPIPE_TRY(Value * from, at(operand, precision, node));
    const bool to_float = is_float(result->type.dtype);
    const DType to = to_float ? storage_of(precision) : narrow(result->type.dtype);
    if (to == from->type.dtype && !source_.is_output(result)) {
      bind(result, precision, from);
      return {};
    }
    HTPIPE_TRY(Node * made,
               graph_.add_node("Cast", node.name(), {{"to", std::string(htpipe::name_of(to))}}, {from}, node.source));
    if (to_float && precision != Precision::kFp16) {
      const auto at = ranges_.find(result->name);
      const int bits = bits_of(precision);
      if (at != ranges_.end() && (at->second.low < 0 || at->second.high > std::ldexp(1.0F, bits) - 1)) {
        return fail(Code::kUnsupportedForm,
                    fmt::format("integers from {} to {} do not fit {} bits", at->second.low, at->second.high, bits));
      }
      made->result()->type.encoding = Encoding::per_tensor(1.0F, 0, bits);
    }
    bind(result, precision, made->result());
    return {};
  }

  Status add(const Node& node) {
    if (node.is("Cast")) return add_cast(node);
    const bool copies = node.op->result_encoding == ResultEncoding::kSameAsInput;
    // What copies stays in the precision of its operand; a constant has none of its own.
    const bool follows = copies && !node.operands[0]->is_constant();
    const Precision precision = follows ? own_.at(node.operands[0]->name) : precision_of(node.name());
    std::vector<Value*> operands(node.operands.size(), nullptr);
    const auto role = [&node](std::size_t i) {
      return node.op->operands[std::min(i, node.op->operands.size() - 1)].role;
    };
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (node.operands[i] == nullptr || role(i) != Role::kData) continue;
      if (precision != Precision::kFp16 && !copies && !leaves_unread(node.operands[i]->constant) &&
          has_infinite(*node.operands[i])) {
        // The end of the result's range stands for it, in a comparison that of what it is compared with.
        const Value* ranged = is_float(node.result()->type.dtype) ? node.result() : node.operands[i == 0 ? 1 : 0];
        HTPIPE_TRY(const TensorType type, type_of(*ranged, precision, "none"));
        const Tensor& constant = node.operands[i]->constant;
        operands[i] = graph_.add_constant(node.operands[i]->name,
                                          store_as(constant, {type.dtype, constant.shape(), type.encoding}));
        continue;
      }
      const bool narrow_factor =
          node.is("MatMul") && i == 1 && precision == Precision::kInt16 && !options_.wide_products;
      HTPIPE_TRY(operands[i], at(node.operands[i], narrow_factor ? Precision::kInt8 : precision, node));
      if (node.is("MatMul") && i == 1 && operands[i]->type.dtype == DType::kU16) {
        HTPIPE_TRY(operands[i], symmetric(*operands[i], node));
      }
    }
    if (node.is("Concat") && precision != Precision::kFp16) HTPIPE_CHECK_OK(convert_for_concat(node, operands));
    HTPIPE_CHECK_OK(add_parameters(node, precision, operands));
    Attributes attributes = node.attributes;
    if (node.op->attribute("to") != nullptr && is_float(node.result()->type.dtype)) {
      attributes.set("to", std::string(htpipe::name_of(storage(precision))));
    }
    HTPIPE_TRY(Node * made, graph_.add_node(node.op->name, node.name(), attributes, operands, node.source));
    for (std::size_t i = 0; i < node.results.size(); ++i) {
      const Value* result = node.results[i];
      if (!is_float(result->type.dtype)) {
        bind(result, precision, made->results[i]);
        continue;
      }
      if (copies) {
        made->results[i]->type.encoding = operands[0]->type.encoding;
      } else {
        HTPIPE_TRY(made->results[i]->type, type_of(*result, precision, activation_of(result)));
        if (node.op->result_encoding == ResultEncoding::kWholeUnits) round_to_units(made->results[i]->type);
      }
      bind(result, precision, made->results[i]);
    }
    return {};
  }

  /// Weights and bias of a node, in the form that its precision asks for.
  Status add_parameters(const Node& node, Precision precision, std::vector<Value*>& operands) {
    std::size_t weight = operands.size();
    std::size_t bias = operands.size();
    for (std::size_t i = 0; i < operands.size() && i < node.op->operands.size(); ++i) {
      if (node.operands[i] == nullptr) continue;
      if (node.op->operands[i].role == Role::kWeight && weight < operands.size()) {
        return fail(Code::kUnsupportedForm, fmt::format("the weights of {} have no stored form", node.op->name));
      }
      if (node.op->operands[i].role == Role::kWeight) weight = i;
      if (node.op->operands[i].role == Role::kBias) bias = i;
    }
    const Value* bias_value = bias < operands.size() ? node.operands[bias] : nullptr;
    if (weight == operands.size()) {
      if (bias_value == nullptr) return {};
      return fail(Code::kUnsupportedForm, "a bias without weights: its scale is not known");
    }
    const Value* weight_value = node.operands[weight];
    if (!weight_value->is_constant() || (bias_value != nullptr && !bias_value->is_constant())) {
      return fail(Code::kUnsupportedForm, "weights and bias must be constant");
    }
    if (precision == Precision::kFp16) {
      const auto half = [this](const Tensor& tensor) {
        TensorType type{DType::kF16, tensor.shape(), std::nullopt};
        return leaves_unread(tensor) ? unread(std::move(type)) : store_as(tensor, type);
      };
      operands[weight] = graph_.add_constant(weight_value->name, half(weight_value->constant));
      if (bias_value != nullptr) operands[bias] = graph_.add_constant(bias_value->name, half(bias_value->constant));
      return {};
    }
    // The channel axis of a weight is that of the channel-last form.
    if (!node.op->weight_to_nhwc.empty() && node.attributes.text("data_layout") != "nhwc") {
      return fail(Code::kUnsupportedForm, "only channel-last data can be quantised; run the pass to_channel_last");
    }
    HTPIPE_TRY(const Parameters parameters,
               integer_parameters(node, *operands[0]->type.encoding, weight_value->constant,
                                  bias_value != nullptr ? bias_value->constant : Tensor()));
    operands[weight] = graph_.add_constant(weight_value->name, parameters.weight);
    if (bias_value != nullptr) operands[bias] = graph_.add_constant(bias_value->name, parameters.bias);
    return {};
  }

  Result<Parameters> integer_parameters(const Node& node, const Encoding& input, const Tensor& weight,
                                        const Tensor& bias) {
    const int bits = options_.weight_bits == 16 && input.bits < 16 ? 8 : options_.weight_bits;
    if (node.op->weight_channel_axis >= 0 && leaves_unread(weight)) {
      return assumed_parameters(weight.type(), bias, node.op->weight_channel_axis, input.scale(), bits);
    }
    // Without channels they are the factors of a normalisation.
    if (node.op->weight_channel_axis < 0) return quantize_vectors(weight, bias, input.scale());
    if (options_.weight_scale == WeightScale::kAsymmetric) return quantize_vectors(weight, bias, input.scale());
    HTPIPE_TRY(const TensorType result,
               type_of(*node.result(), precision_of(node.name()), activation_of(node.result())));
    const float least_scale = result.encoding ? least_weight_scale(input, *result.encoding) : 0.0F;
    const int axis = options_.weight_scale == WeightScale::kTensor ? -1 : node.op->weight_channel_axis;
    return quantize_parameters(weight, bias, axis, input.scale(), bits, least_scale, options_.weight_block);
  }

  const Graph& source_;
  Ranges ranges_;
  const QuantizeOptions& options_;
  Graph graph_;
  std::map<Key, Value*> made_;
  std::map<std::string, Precision> own_;
};

}  // namespace

DType storage_of(Precision precision) {
  switch (precision) {
    case Precision::kInt8:
      return DType::kU8;
    case Precision::kInt16:
      return DType::kU16;
    case Precision::kFp16:
      return DType::kF16;
  }
  return DType::kF32;
}

Result<Graph> quantize(const Graph& graph, const Ranges& ranges, const QuantizeOptions& options) {
  return Quantizer(graph, ranges, options).run();
}

PrecisionMap precisions_of(const Graph& quantized) {
  PrecisionMap map;
  for (const auto& node : quantized.nodes()) {
    if (node->is("Convert") || node->is("Quantize") || node->is("Dequantize")) continue;
    const DType dtype = node->result()->type.dtype;
    map[node->name()] = dtype == DType::kF16   ? Precision::kFp16
                        : dtype == DType::kU16 ? Precision::kInt16
                                               : Precision::kInt8;
  }
  return map;
}

}  // namespace htpipe::quant
