#include "quant/encodings_file.h"

#include <fmt/core.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/io.h"
#include "base/json.h"

namespace htpipe {
namespace {

constexpr int kMaxBits = 32;

tl::unexpected<Error> invalid(std::string_view tensor, std::string why) {
  const std::string place = tensor.empty() ? std::string() : fmt::format("tensor {}: ", tensor);
  return fail(Code::kEncodingsInvalid, place + std::move(why));
}

/// One entry of a file, with checked access to its keys.
class Entry {
 public:
  Entry(const Json& json, std::string name) : json_(json), name_(std::move(name)) {}

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const Json* find(const char* key) const {
    const auto at = json_.find(key);
    return at == json_.end() || at->is_null() ? nullptr : &*at;
  }
  [[nodiscard]] tl::unexpected<Error> bad(const char* key, std::string_view why) const {
    return invalid(name_, fmt::format("\"{}\" {}", key, why));
  }

  Result<std::int64_t> integer(const char* key, std::int64_t low, std::int64_t high) const {
    const Json* value = find(key);
    if (value == nullptr) return bad(key, "is missing");
    return integer_of(*value, key, low, high);
  }
  Result<std::string> text(const char* key) const {
    const Json* value = find(key);
    if (value == nullptr) return bad(key, "is missing");
    if (!value->is_string()) return bad(key, "is no text");
    return value->get<std::string>();
  }
  /// true, false, "True", "False"; absent gives the fallback.
  Result<bool> flag(const char* key, bool fallback) const {
    const Json* value = find(key);
    if (value == nullptr) return fallback;
    if (value->is_boolean()) return value->get<bool>();
    if (value->is_string()) {
      const auto& text = value->get_ref<const std::string&>();
      if (text == "True" || text == "true") return true;
      if (text == "False" || text == "false") return false;
    }
    return bad(key, "is neither true nor false");
  }
  /// A number, a list, or a list of lists, as one list.
  Result<std::vector<double>> numbers(const char* key) const {
    std::vector<double> values;
    if (const Json* value = find(key)) HTPIPE_CHECK_OK(flatten(*value, key, 0, values));
    return values;
  }
  Result<std::vector<std::int64_t>> integers(const char* key) const {
    HTPIPE_TRY(const std::vector<double> values, numbers(key));
    std::vector<std::int64_t> result;
    for (const double value : values) {
      if (value != std::floor(value) || std::fabs(value) > 4.0e9) return bad(key, "holds a number that is no integer");
      result.push_back(static_cast<std::int64_t>(value));
    }
    return result;
  }

 private:
  Result<std::int64_t> integer_of(const Json& value, const char* key, std::int64_t low, std::int64_t high) const {
    if (!value.is_number()) return bad(key, "is no number");
    const double number = value.get<double>();
    if (number != std::floor(number) || number < static_cast<double>(low) || number > static_cast<double>(high)) {
      return bad(key, fmt::format("is no integer from {} to {}", low, high));
    }
    return static_cast<std::int64_t>(number);
  }
  Status flatten(const Json& value, const char* key, int depth, std::vector<double>& values) const {
    if (value.is_number()) {
      values.push_back(value.get<double>());
      return {};
    }
    if (!value.is_array() || depth > 8) return bad(key, "is neither a number nor a list of numbers");
    for (const Json& item : value) HTPIPE_CHECK_OK(flatten(item, key, depth + 1, values));
    return {};
  }

  const Json& json_;
  std::string name_;
};

Status check(const TensorEncoding& tensor) {
  if (tensor.floating) return {};
  if (tensor.scales.empty()) return invalid(tensor.name, "there is no scale");
  for (const double scale : tensor.scales) {
    if (!(scale > 0.0) || !std::isfinite(static_cast<float>(scale))) {
      return invalid(tensor.name, fmt::format("the scale {} is not positive and finite", scale));
    }
  }
  if (!tensor.zero_points.empty() && tensor.zero_points.size() != tensor.scales.size()) {
    return invalid(tensor.name,
                   fmt::format("{} offsets for {} scales", tensor.zero_points.size(), tensor.scales.size()));
  }
  const std::int64_t low = tensor.is_signed ? -(std::int64_t{1} << (tensor.bits - 1)) : 0;
  const std::int64_t high = (std::int64_t{1} << (tensor.is_signed ? tensor.bits - 1 : tensor.bits)) - 1;
  for (const std::int64_t zero : tensor.zero_points) {
    if (zero < low || zero > high) {
      return invalid(tensor.name, fmt::format("the zero point {} is outside {} to {}", zero, low, high));
    }
  }
  if (!tensor.block_factors.empty() && tensor.block_factors.size() % tensor.scales.size() != 0) {
    return invalid(tensor.name, "the block factors do not fit the scales");
  }
  return {};
}

// --- schema 0.6.1 ----------------------------------------------------------------------------------------------------

/// A scale and an offset, given as such or by the range that they span.
Status add_range(const Entry& entry, TensorEncoding& tensor) {
  HTPIPE_TRY(const std::vector<double> scale, entry.numbers("scale"));
  HTPIPE_TRY(const std::vector<std::int64_t> offset, entry.integers("offset"));
  if (scale.size() == 1 && offset.size() == 1) {
    tensor.scales.push_back(scale.front());
    tensor.zero_points.push_back(-offset.front());
    return {};
  }
  HTPIPE_TRY(const std::vector<double> low, entry.numbers("min"));
  HTPIPE_TRY(const std::vector<double> high, entry.numbers("max"));
  if (low.size() != 1 || high.size() != 1)
    return entry.bad("scale", "and \"offset\", or \"min\" and \"max\", are missing");
  const double steps = static_cast<double>((std::int64_t{1} << tensor.bits) - 1);
  const double step = (high.front() - low.front()) / steps;
  tensor.scales.push_back(step);
  const double zero = std::nearbyint(-low.front() / step);
  if (!(std::fabs(zero) <= steps)) return entry.bad("min", "and \"max\" do not contain 0");
  tensor.zero_points.push_back(static_cast<std::int64_t>(zero));
  return {};
}

Result<TensorEncoding> read_061(const Json& list, const std::string& name, bool parameter) {
  if (!list.is_array() || list.empty()) return invalid(name, "its encodings are no list");
  TensorEncoding tensor;
  tensor.name = name;
  tensor.parameter = parameter;
  for (const Json& item : list) {
    if (!item.is_object()) return invalid(name, "an encoding is no object");
    const Entry entry(item, name);
    HTPIPE_TRY(const std::int64_t bits, entry.integer("bitwidth", 1, kMaxBits));
    HTPIPE_TRY(const bool symmetric, entry.flag("is_symmetric", false));
    const Json* dtype = entry.find("dtype");
    const bool floating = dtype != nullptr && dtype->is_string() && dtype->get_ref<const std::string&>() == "float";
    if (&item != &list.front() && (bits != tensor.bits || floating != tensor.floating)) {
      return invalid(name, "its channels differ in bit width or data type");
    }
    tensor.bits = static_cast<int>(bits);
    tensor.symmetric = symmetric;
    tensor.floating = floating;
    if (!floating) HTPIPE_CHECK_OK(add_range(entry, tensor));
  }
  return tensor;
}

Status read_section_061(const Json& json, const char* section, bool parameter, EncodingsFile& file) {
  const auto at = json.find(section);
  if (at == json.end()) return {};
  if (!at->is_object()) return invalid("", fmt::format("\"{}\" is no object", section));
  for (const auto& [name, list] : at->items()) {
    HTPIPE_TRY(TensorEncoding tensor, read_061(list, name, parameter));
    file.tensors.push_back(std::move(tensor));
  }
  return {};
}

// --- schema 1.0.0 ----------------------------------------------------------------------------------------------------

Result<TensorEncoding> read_100(const Json& json, bool parameter) {
  if (!json.is_object()) return invalid("", "an encoding is no object");
  HTPIPE_TRY(const std::string name, Entry(json, "").text("name"));
  const Entry entry(json, name);
  TensorEncoding tensor;
  tensor.name = name;
  tensor.parameter = parameter;
  HTPIPE_TRY(const std::int64_t bits, entry.integer("bw", 1, kMaxBits));
  tensor.bits = static_cast<int>(bits);
  HTPIPE_TRY(const std::string dtype, entry.text("dtype"));
  if (dtype != "INT" && dtype != "FLOAT") return entry.bad("dtype", "is neither INT nor FLOAT");
  tensor.floating = dtype == "FLOAT";
  if (tensor.floating) return tensor;
  HTPIPE_TRY(const std::string kind, entry.text("enc_type"));
  const bool blocks = kind == "PER_BLOCK" || kind == "LPBQ";
  if (!blocks && kind != "PER_TENSOR" && kind != "PER_CHANNEL") return entry.bad("enc_type", "is of no known kind");
  HTPIPE_TRY(tensor.symmetric, entry.flag("is_sym", false));
  HTPIPE_TRY(tensor.scales, entry.numbers("scale"));
  HTPIPE_TRY(const std::vector<std::int64_t> offsets, entry.integers("offset"));
  for (const std::int64_t offset : offsets) tensor.zero_points.push_back(-offset);
  if (kind == "PER_TENSOR" && tensor.scales.size() != 1) return entry.bad("scale", "has not one element");
  if (blocks) {
    HTPIPE_TRY(tensor.block_size, entry.integer("block_size", 1, std::numeric_limits<std::int32_t>::max()));
  }
  if (kind == "LPBQ") {
    HTPIPE_TRY(const std::int64_t compressed, entry.integer("compressed_bw", 1, bits));
    tensor.compressed_bits = static_cast<int>(compressed);
    HTPIPE_TRY(tensor.block_factors, entry.integers("per_block_int_scale"));
    if (tensor.block_factors.empty()) return entry.bad("per_block_int_scale", "is missing");
  }
  return tensor;
}

Status read_section_100(const Json& json, const char* section, bool parameter, EncodingsFile& file) {
  const auto at = json.find(section);
  if (at == json.end()) return {};
  if (!at->is_array()) return invalid("", fmt::format("\"{}\" is no list", section));
  for (const Json& item : *at) {
    HTPIPE_TRY(TensorEncoding tensor, read_100(item, parameter));
    file.tensors.push_back(std::move(tensor));
  }
  return {};
}

// --- schema 2.0.0 ----------------------------------------------------------------------------------------------------

struct IntegerType {
  int bits;
  bool is_signed;
};

/// "int8", "uint4" …; nullopt for anything else.
std::optional<IntegerType> integer_type(std::string_view text) {
  IntegerType type{0, true};
  if (text.substr(0, 1) == "u") {
    type.is_signed = false;
    text.remove_prefix(1);
  }
  if (text.substr(0, 3) != "int") return std::nullopt;
  text.remove_prefix(3);
  for (const int bits : {2, 4, 8, 16, 32}) {
    if (text == std::to_string(bits)) type.bits = bits;
  }
  return type.bits == 0 ? std::nullopt : std::optional(type);
}

Result<TensorEncoding> read_200(const Json& json) {
  if (!json.is_object()) return invalid("", "an encoding is no object");
  HTPIPE_TRY(const std::string name, Entry(json, "").text("name"));
  const Entry entry(json, name);
  TensorEncoding tensor;
  tensor.name = name;
  HTPIPE_TRY(const std::string dtype, entry.text("output_dtype"));
  const auto type = integer_type(dtype);
  if (!type) return entry.bad("output_dtype", fmt::format("is {}, which is no integer type", dtype));
  tensor.bits = type->bits;
  tensor.is_signed = type->is_signed;
  if (entry.find("axis") != nullptr) {
    HTPIPE_TRY(const std::int64_t axis, entry.integer("axis", -8, 8));
    tensor.axis = static_cast<int>(axis);
  }
  if (entry.find("block_size") != nullptr) {
    HTPIPE_TRY(tensor.block_size, entry.integer("block_size", 1, std::numeric_limits<std::int32_t>::max()));
  }
  HTPIPE_TRY(tensor.zero_points, entry.integers("y_zero_point"));
  tensor.symmetric = tensor.zero_points.empty();
  const bool lpbq = entry.find("per_block_int_scale") != nullptr;
  HTPIPE_TRY(tensor.scales, entry.numbers(lpbq ? "per_channel_float_scale" : "y_scale"));
  if (lpbq) {
    HTPIPE_TRY(tensor.block_factors, entry.integers("per_block_int_scale"));
    tensor.compressed_bits = tensor.bits;
  }
  return tensor;
}

}  // namespace

Result<EncodingsFile> parse_encodings(std::string_view text) {
  HTPIPE_TRY(const Json json, parse_json(text));
  if (!json.is_object()) return invalid("", "the file is no JSON object");
  EncodingsFile file;
  if (json.contains("version")) {
    HTPIPE_TRY(file.version, Entry(json, "").text("version"));
  } else {
    file.version = "0.6.1";  // overrides written by hand leave it out
  }
  if (file.version == "0.6.1" || file.version == "0.5.0" || file.version == "0.6.0") {
    HTPIPE_CHECK_OK(read_section_061(json, "activation_encodings", false, file));
    HTPIPE_CHECK_OK(read_section_061(json, "param_encodings", true, file));
  } else if (file.version == "1.0.0") {
    HTPIPE_CHECK_OK(read_section_100(json, "activation_encodings", false, file));
    HTPIPE_CHECK_OK(read_section_100(json, "param_encodings", true, file));
  } else if (file.version == "2.0.0") {
    const auto at = json.find("encodings");
    if (at == json.end() || !at->is_array()) return invalid("", "\"encodings\" is no list");
    for (const Json& item : *at) {
      HTPIPE_TRY(TensorEncoding tensor, read_200(item));
      file.tensors.push_back(std::move(tensor));
    }
  } else {
    return invalid("", fmt::format("version {}; read are 0.6.1, 1.0.0 and 2.0.0", file.version));
  }
  std::set<std::string_view> names;
  for (const TensorEncoding& tensor : file.tensors) {
    HTPIPE_CHECK_OK(check(tensor));
    if (!names.insert(tensor.name).second) return invalid(tensor.name, "it is listed twice");
  }
  return file;
}

Result<EncodingsFile> read_encodings(const std::filesystem::path& path) {
  HTPIPE_TRY(const std::string text, read_text(path));
  auto file = parse_encodings(text);
  if (!file && file.error().place.file.empty()) file.error().place.file = path.string();
  return file;
}

}  // namespace htpipe
