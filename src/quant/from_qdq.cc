#include "quant/from_qdq.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "passes/driver.h"
#include "quant/histogram.h"
#include "quant/qdq_pairs.h"
#include "quant/quantize.h"
#include "quant/range.h"

namespace htpipe::quant {
namespace {

class Builder {
 public:
  Builder(const Graph& source, const Stored& stored) : source_(source), stored_(stored), graph_(source.name()) {}

  Result<StoredGraph> run() {
    for (const Value* input : source_.inputs()) {
      const auto type = storage_of_value(*input);
      if (!type || source_.is_output(input)) {
        plain_[input] = graph_.add_input(input->name, input->type);
      } else {
        integers_[input] = graph_.add_input(input->name, *type);
      }
    }
    for (const auto& node : source_.nodes()) {
      if (auto status = add(*node); !status) {
        if (status.error().place.node.empty()) status.error().place.node = node->name();
        return fail(std::move(status.error()));
      }
    }
    HTPIPE_CHECK_OK(add_outputs());
    PassOptions clean;
    clean.order = {"remove_dead_code"};
    HTPIPE_CHECK_OK(run_passes(graph_, clean));
    return StoredGraph{std::move(graph_), std::move(kept_)};
  }

 private:
  static bool copies(const Node& node) { return node.op->result_encoding == ResultEncoding::kSameAsInput; }

  /// How a float value is stored: what the model says of it, or of the copies that are all that is made of it.
  std::optional<TensorType> storage_of_value(const Value& value) const {
    TensorType type;
    if (const auto at = stored_.find(value.name); at != stored_.end()) {
      type = at->second;
    } else {
      if (value.type.dtype != DType::kF32 || value.users.empty() || source_.is_output(&value)) return std::nullopt;
      std::optional<TensorType> common;
      for (const Node* user : value.users) {
        std::optional<TensorType> one;
        if (user->is("Quantize") && has_encoding(user->result())) one = user->result()->type;
        if (copies(*user) && user->operands[0] == &value) one = storage_of_value(*user->result());
        if (!one || (common && !same_storage(*common, *one))) return std::nullopt;
        common = one;
      }
      type = *common;
    }
    if (!type.encoding->per_tensor()) return std::nullopt;
    type.shape = value.type.shape;
    return type;
  }

  /// The value in the new graph with its own type: dequantised where only integers are there.
  Result<Value*> plain(const Value* value) {
    if (const auto at = plain_.find(value); at != plain_.end()) return at->second;
    if (value->is_constant()) return plain_[value] = graph_.add_constant(value->name, value->constant);
    if (const auto stored = stored_constant(value)) {
      return plain_[value] = graph_.add_constant(value->name, Tensor::from<float>(value->type, to_floats(*stored)));
    }
    HTPIPE_TRY(Node * node,
               graph_.add_node("Dequantize", value->name, {{"to", std::string("f32")}}, {integers_.at(value)}));
    return plain_[value] = node->result();
  }

  /// A data operand as integers; null where it stays in float. `like` is the storage of what lies beside it.
  Value* integers(const Value* value, const TensorType* like) {
    if (const auto at = integers_.find(value); at != integers_.end()) return at->second;
    if (const auto tensor = stored_constant(value)) {
      return integers_[value] = graph_.add_constant(value->name, *tensor);
    }
    if (!value->is_constant() || value->type.dtype != DType::kF32 || like == nullptr) return nullptr;
    Histogram histogram;
    histogram.add(to_floats(value->constant));
    const int bits = size_of(like->dtype) == 2 ? 16 : 8;
    TensorType type{bits == 16 ? DType::kU16 : DType::kU8, value->type.shape,
                    asymmetric_encoding(choose_range(histogram, RangeMethod::kMinMax, 100, bits), bits)};
    return integers_[value] = graph_.add_constant(value->name, store_as(value->constant, type));
  }

  static Role role_of(const Node& node, std::size_t operand) {
    return node.op->operands[std::min(operand, node.op->operands.size() - 1)].role;
  }

  /// A bias in steps of input scale times weight scale.
  Value* bias(const Value* value, const TensorType& input, const TensorType& weight) {
    if (const auto tensor = stored_constant(value)) return graph_.add_constant(value->name, *tensor);
    if (!value->is_constant() || value->type.dtype != DType::kF32) return nullptr;
    const std::vector<float>& scales = weight.encoding->scales;
    const auto count = static_cast<std::size_t>(value->type.count());
    Encoding encoding{{}, {}, scales.size() == 1 ? -1 : 0, 32};
    for (std::size_t i = 0; i < (scales.size() == 1 ? 1 : count); ++i) {
      encoding.scales.push_back(input.encoding->scale() * scales[i % scales.size()]);
      encoding.zero_points.push_back(0);
    }
    return graph_.add_constant(value->name, store_as(value->constant, {DType::kI32, value->type.shape, encoding}));
  }

  /// Operands of a node on stored integers; nothing, and why, where it stays in float.
  std::optional<std::vector<Value*>> operands_of(const Node& node, std::string& why) {
    std::vector<Value*> operands(node.operands.size(), nullptr);
    const TensorType* like = nullptr;
    for (const Value* operand : node.operands) {
      if (operand == nullptr) continue;
      if (const auto at = integers_.find(operand); at != integers_.end() && like == nullptr) like = &at->second->type;
    }
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const Value* operand = node.operands[i];
      if (operand == nullptr || role_of(node, i) == Role::kBias) continue;
      if (operand->type.dtype != DType::kF32) {
        const auto at = plain_.find(operand);
        operands[i] = at != plain_.end() ? at->second : graph_.add_constant(operand->name, operand->constant);
        continue;
      }
      operands[i] = integers(operand, role_of(node, i) == Role::kData ? like : nullptr);
      if (operands[i] == nullptr) {
        why = fmt::format("operand %{} is not quantised", operand->name);
        return std::nullopt;
      }
    }
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (node.operands[i] == nullptr || role_of(node, i) != Role::kBias) continue;
      const bool known = i > 1 && has_encoding(operands[0]) && has_encoding(operands[i - 1]);
      operands[i] = known ? bias(node.operands[i], operands[0]->type, operands[i - 1]->type) : nullptr;
      if (operands[i] == nullptr) {
        why = fmt::format("bias %{} cannot be stored", node.operands[i]->name);
        return std::nullopt;
      }
    }
    return operands;
  }

  Status add(const Node& node) {
    if (node.is("Quantize") && has_encoding(node.result())) return add_quantize(node);
    if (node.is("Dequantize") && integers_of_operand(node) != nullptr) {
      integers_[node.result()] = integers_of_operand(node);
      return {};
    }
    const bool real = std::any_of(node.results.begin(), node.results.end(),
                                  [](const Value* result) { return result->type.dtype == DType::kF32; });
    if (!real && std::none_of(node.operands.begin(), node.operands.end(), [&](const Value* operand) {
          return operand != nullptr && integers_.count(operand) != 0;
        })) {
      return add_as_it_is(node);
    }
    // Weights on their way to a node are resolved there.
    if (real && stored_constant(node.result())) return {};
    std::string why;
    std::vector<TensorType> types;
    for (const Value* result : node.results) {
      const auto type = result->type.dtype != DType::kF32 ? result->type : storage_of_value(*result);
      if (!type && !copies(node)) why = fmt::format("result %{} is not quantised", result->name);
      if (type) types.push_back(*type);
    }
    std::optional<std::vector<Value*>> operands;
    if (why.empty()) operands = operands_of(node, why);
    if (!operands) {
      kept_.push_back(fmt::format("{} %{}: {}", node.op->name, node.name(), why));
      HTPIPE_CHECK_OK(add_as_it_is(node));
      return store_results(node);
    }
    return add_stored(node, *operands, types);
  }

  /// Results of a node in float that the model stores all the same: whoever takes them, takes them rounded.
  Status store_results(const Node& node) {
    for (const Value* result : node.results) {
      const auto type = result->type.dtype == DType::kF32 ? storage_of_value(*result) : std::nullopt;
      if (!type) continue;
      const std::string to(name_of(type->dtype));
      HTPIPE_TRY(Node * made, graph_.add_node("Quantize", fmt::format("{}_{}", result->name, to), {{"to", to}},
                                              {plain_.at(result)}, node.source));
      made->result()->type.encoding = type->encoding;
      integers_[result] = made->result();
      plain_.erase(result);
    }
    return {};
  }

  Value* integers_of_operand(const Node& node) const {
    const auto at = plain_.find(node.operands[0]);
    return at != plain_.end() && has_encoding(at->second) ? at->second : nullptr;
  }

  /// Storing does not clamp as the fused activation does: it becomes a node of its own.
  static bool clamps(const std::string& activation, const TensorType& type) {
    const Encoding& encoding = *type.encoding;
    if (encoding.zero_point() != lowest(type.dtype)) return false;
    const auto top = static_cast<float>(highest(type.dtype) - encoding.zero_point()) * encoding.scale();
    return activation != "relu6" || top <= 6.0F + 0.5F * encoding.scale();
  }

  Status add_stored(const Node& node, const std::vector<Value*>& operands, const std::vector<TensorType>& types) {
    Attributes attributes = node.attributes;
    const Attribute* activation = attributes.find("activation");
    const std::string fused = activation == nullptr ? "none" : std::get<std::string>(*activation);
    const bool apart = fused != "none" && !copies(node) && !clamps(fused, types.front());
    if (apart) attributes.set("activation", std::string("none"));
    const std::string name = apart ? node.name() + "_linear" : node.name();
    HTPIPE_TRY(Node * made, graph_.add_node(node.op->name, name, attributes, operands, node.source));
    for (std::size_t i = 0; i < node.results.size(); ++i) {
      Value* result = made->results[i];
      if (node.results[i]->type.dtype != DType::kF32) {
        plain_[node.results[i]] = result;
        continue;
      }
      // A copy has the encoding of what it copies; where the model stores it otherwise, a Quantize follows.
      result->type.encoding = copies(node) ? operands[0]->type.encoding : types[i].encoding;
      result->type.dtype = copies(node) ? operands[0]->type.dtype : types[i].dtype;
      integers_[node.results[i]] = result;
    }
    if (copies(node)) return convert_copies(node, types);
    if (!apart) return {};
    const Attributes clamp{{"operation", std::string(fused == "relu" ? "relu" : "relu_min_max")}};
    HTPIPE_TRY(Node * neuron, graph_.add_node("ElementWiseNeuron", node.name(), clamp, {made->result()}, node.source));
    neuron->result()->type = types.front();
    integers_[node.result()] = neuron->result();
    return {};
  }

  /// Where the model stores the copy in another way than the original.
  Status convert_copies(const Node& node, const std::vector<TensorType>& types) {
    if (types.size() != node.results.size()) return {};
    for (std::size_t i = 0; i < types.size(); ++i) {
      const Value* result = node.results[i];
      if (result->type.dtype != DType::kF32 || same_storage(integers_.at(result)->type, types[i])) continue;
      HTPIPE_CHECK_OK(convert(result, types[i], fmt::format("{}_stored", result->name)));
    }
    return {};
  }

  Status convert(const Value* real, const TensorType& type, const std::string& name) {
    HTPIPE_TRY(Node * node,
               graph_.add_node("Convert", name, {{"to", std::string(name_of(type.dtype))}}, {integers_.at(real)}));
    node->result()->type.encoding = type.encoding;
    integers_[real] = node->result();
    return {};
  }

  Status add_quantize(const Node& node) {
    const Value* real = node.operands[0];
    const auto at = integers_.find(real);
    if (at == integers_.end()) return add_as_it_is(node);
    if (same_storage(at->second->type, node.result()->type)) {
      plain_[node.result()] = at->second;
      return {};
    }
    Value* before = at->second;
    HTPIPE_CHECK_OK(convert(real, node.result()->type, node.name()));
    plain_[node.result()] = integers_.at(real);
    integers_[real] = before;
    return {};
  }

  Status add_as_it_is(const Node& node) {
    std::vector<Value*> operands;
    for (const Value* operand : node.operands) {
      if (operand == nullptr) {
        operands.push_back(nullptr);
        continue;
      }
      HTPIPE_TRY(Value * value, plain(operand));
      operands.push_back(value);
    }
    HTPIPE_TRY(Node * made, graph_.add_node(node.op->name, node.name(), node.attributes, operands, node.source));
    for (std::size_t i = 0; i < node.results.size(); ++i) {
      made->results[i]->type = node.results[i]->type;
      plain_[node.results[i]] = made->results[i];
    }
    return {};
  }

  Status add_outputs() {
    std::vector<Value*> outputs;
    std::set<const Value*> taken(graph_.inputs().begin(), graph_.inputs().end());
    for (const Value* output : source_.outputs()) {
      Value* made = nullptr;
      if (const auto at = integers_.find(output); at != integers_.end() && plain_.count(output) == 0) made = at->second;
      if (made == nullptr || made->is_constant() || taken.count(made) != 0) {
        HTPIPE_TRY(made, plain(output));
      }
      if (made->name != output->name && taken.count(made) == 0) {
        if (Value* other = graph_.find_value(output->name)) graph_.rename(other, graph_.unique_name(output->name));
        graph_.rename(made, output->name);
      }
      taken.insert(made);
      outputs.push_back(made);
    }
    graph_.set_outputs(std::move(outputs));
    return {};
  }

  const Graph& source_;
  const Stored& stored_;
  Graph graph_;
  std::map<const Value*, Value*> plain_;     ///< values of the source by what has their own type
  std::map<const Value*, Value*> integers_;  ///< float values by the integers that they are stored as
  std::vector<std::string> kept_;
};

}  // namespace

bool is_qdq(const Graph& graph) {
  bool any = false;
  for (const auto& node : graph.nodes()) {
    const bool encoded = std::any_of(node->operands.begin(), node->operands.end(), has_encoding) ||
                         std::any_of(node->results.begin(), node->results.end(), has_encoding);
    if (encoded && !node->is("Quantize") && !node->is("Dequantize")) return false;
    any = any || encoded;
  }
  return any;
}

Result<StoredGraph> from_qdq(Graph graph) {
  // Activations are fused while the pairs still tell which of them the model stores in between.
  PassOptions before;
  before.order = {"remove_dead_code", "fold_constants remove_identities", "fuse_activation"};
  HTPIPE_CHECK_OK(run_passes(graph, before));
  const Stored stored = strip_pairs(graph);
  HTPIPE_CHECK_OK(join_products(graph, stored));
  PassOptions after;
  after.order = {"to_channel_last", "cancel_transposes fold_transpose remove_identities fold_constants",
                 "remove_dead_code"};
  HTPIPE_CHECK_OK(run_passes(graph, after));
  return Builder(graph, stored).run();
}

}  // namespace htpipe::quant
