#include "import/compose/attention.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace htpipe::compose {
namespace {

/// What a score becomes that takes no part: exp of it is 0 beside any real score, and no sum with it overflows.
constexpr float kMasked = -1.0e30F;

std::int64_t from_end(const Shape& shape, std::size_t axis) { return shape[shape.size() - axis]; }

/// True for a constant mask in which every row has something that takes part.
bool every_row_takes_part(const Tensor& mask) {
  if (mask.shape().empty()) return mask.real(0) != 0.0;
  const std::int64_t columns = mask.shape().back();
  for (std::int64_t row = 0; columns > 0 && row < mask.count() / columns; ++row) {
    bool any = false;
    for (std::int64_t column = 0; column < columns && !any; ++column) any = mask.real(row * columns + column) != 0.0;
    if (!any) return false;
  }
  return true;
}

class Composer {
 public:
  Composer(Builder& builder, std::string_view suffix) : builder_(builder), suffix_(suffix) {}

  Result<Value*> compose(const Attention& in) {
    const Shape& q = in.query->type.shape;
    const Shape& k = in.key->type.shape;
    const Shape& v = in.value->type.shape;
    if (q.size() < 2 || k.size() < 2 || v.size() < 2 || q.back() != k.back() || from_end(k, 2) != from_end(v, 2)) {
      return fail(Code::kShapeMismatch,
                  fmt::format("attention of {}, {} and {}", to_string(q), to_string(k), to_string(v)));
    }
    const double scale = in.scale.value_or(1.0 / std::sqrt(static_cast<double>(std::max<std::int64_t>(q.back(), 1))));
    Value* query = in.query;
    if (scale != 1.0) {
      HTPIPE_TRY(query, builder_.binary("multiply", query, number("scale", static_cast<float>(scale)), part("scaled")));
    }
    // Query heads that share a key head lie behind one another: they are rows of one product.
    const std::int64_t groups = groups_of(q, k);
    if (groups < 1) return fail(Code::kShapeMismatch, "query heads are no multiple of key heads");
    Shape rows = q;
    if (groups > 1) {
      rows[q.size() - 3] /= groups;
      rows[q.size() - 2] *= groups;
      HTPIPE_TRY(query, builder_.reshape(query, rows, part("grouped")));
    }
    HTPIPE_TRY(Value * scores, builder_.add("MatMul", {{"transpose_in1", true}}, {query, in.key}, part("scores")));
    const Shape grouped = scores->type.shape;
    if (groups > 1) {
      Shape apart = grouped;
      apart[apart.size() - 3] *= groups;
      apart[apart.size() - 2] /= groups;
      HTPIPE_TRY(scores, builder_.reshape(scores, apart, part("heads")));
    }
    if (in.softcap != 0.0) {
      HTPIPE_TRY(scores,
                 builder_.binary("divide", scores, number("cap", static_cast<float>(in.softcap)), part("small")));
      HTPIPE_TRY(scores, builder_.neuron("tanh", scores, part("bounded")));
      HTPIPE_TRY(scores,
                 builder_.binary("multiply", scores, number("cap", static_cast<float>(in.softcap)), part("capped")));
    }
    HTPIPE_TRY(Value * weights, masked_softmax(in, scores));
    if (groups > 1) {
      HTPIPE_TRY(weights, builder_.reshape(weights, grouped, part("weights")));
    }
    if (groups == 1) return builder_.add("MatMul", {}, {weights, in.value}, suffix_);
    HTPIPE_TRY(Value * result, builder_.add("MatMul", {}, {weights, in.value}, part("product")));
    Shape shape = result->type.shape;
    shape[shape.size() - 3] *= groups;
    shape[shape.size() - 2] /= groups;
    return builder_.reshape(result, shape, suffix_);
  }

 private:
  [[nodiscard]] std::string part(std::string_view name) const {
    return suffix_.empty() ? std::string(name) : fmt::format("{}_{}", suffix_, name);
  }

  /// A number that broadcasts; QNN has no tensors of rank 0.
  Value* number(std::string_view name, float value) { return builder_.floats(part(name), {1}, {value}); }

  static std::int64_t groups_of(const Shape& q, const Shape& k) {
    if (q.size() < 3 || k.size() < 3) return 1;
    const std::int64_t heads = from_end(q, 3);
    const std::int64_t shared = from_end(k, 3);
    if (heads == shared || shared == 1 || heads == 1) return 1;  // equal, or broadcast by the product itself
    return shared > 0 && heads % shared == 0 ? heads / shared : 0;
  }

  Result<Value*> softmax(Value* scores) {
    return builder_.add("Softmax", {{"axis", static_cast<std::int64_t>(scores->type.shape.size()) - 1}}, {scores},
                        part("softmax"));
  }

  /// Adds 0 where something takes part and kMasked elsewhere.
  Result<Value*> add_constant_mask(Value* scores, const Tensor& mask, std::string_view name) {
    std::vector<float> values;
    for (std::int64_t i = 0; i < mask.count(); ++i) values.push_back(mask.real(i) != 0.0 ? 0.0F : kMasked);
    return builder_.binary("add", scores, builder_.floats(part(fmt::format("{}_values", name)), mask.shape(), values),
                           part(name));
  }

  Result<Value*> masked_softmax(const Attention& in, Value* scores) {
    Value* zero = nullptr;
    if (in.causal) {
      const std::int64_t rows = from_end(scores->type.shape, 2);
      const std::int64_t columns = from_end(scores->type.shape, 1);
      constexpr std::int64_t kMostElements = std::int64_t{1} << 28;
      if (rows > kMostElements || columns > kMostElements || rows * columns > kMostElements) {
        return fail(Code::kUnsupportedForm, "a causal mask of this size");
      }
      Tensor mask({DType::kBool, {rows, columns}, std::nullopt});
      const auto data = mask.mutable_data<std::uint8_t>();
      for (std::int64_t row = 0; row < rows; ++row) {
        for (std::int64_t column = 0; column < columns; ++column) {
          data[static_cast<std::size_t>(row * columns + column)] = column <= row + in.causal_offset ? 1 : 0;
        }
      }
      if (!every_row_takes_part(mask)) return fail(Code::kUnsupportedForm, "a causal mask with rows that see nothing");
      HTPIPE_TRY(scores, add_constant_mask(scores, mask, "causal"));
    }
    if (in.mask == nullptr) return softmax(scores);
    if (in.mask->type.dtype == DType::kBool) {
      const bool constant = in.mask->is_constant();
      if (constant && every_row_takes_part(in.mask->constant)) {
        HTPIPE_TRY(scores, add_constant_mask(scores, in.mask->constant, "masked"));
        return softmax(scores);
      }
      HTPIPE_TRY(scores, builder_.add("ElementWiseSelect", {}, {in.mask, scores, number("masked_score", kMasked)},
                                      part("masked")));
      HTPIPE_TRY(Value * weights, softmax(scores));
      // Changes only rows in which nothing takes part.
      zero = number("zero", 0.0F);
      return builder_.add("ElementWiseSelect", {}, {in.mask, weights, zero}, part("weighted"));
    }
    if (in.mask->type.dtype != DType::kF32) return fail(Code::kDtypeMismatch, "a mask that is neither bool nor float");
    HTPIPE_TRY(scores, builder_.binary("add", scores, in.mask, part("masked")));
    if (in.mask->is_constant()) {
      const std::vector<float> values = to_floats(in.mask->constant);
      if (std::none_of(values.begin(), values.end(), [](float x) { return std::isinf(x); })) return softmax(scores);
    }
    // Rows of -infinity only have no softmax: they give zeros.
    const auto axis = static_cast<std::int64_t>(scores->type.shape.size()) - 1;
    HTPIPE_TRY(Value * high, builder_.add("ReduceMax", {{"axes", std::vector<std::int64_t>{axis}}, {"keep_dims", true}},
                                          {scores}, part("highest")));
    HTPIPE_TRY(Value * some, builder_.binary("greater", high,
                                             number("nothing", -std::numeric_limits<float>::infinity()), part("some")));
    HTPIPE_TRY(Value * weights, softmax(scores));
    zero = number("zero", 0.0F);
    return builder_.add("ElementWiseSelect", {}, {some, weights, zero}, part("weighted"));
  }

  Builder& builder_;
  std::string_view suffix_;
};

}  // namespace

Result<Value*> attend(Builder& builder, const Attention& attention, std::string_view suffix) {
  return Composer(builder, suffix).compose(attention);
}

}  // namespace htpipe::compose
