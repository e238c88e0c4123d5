// The leaves of the schema: arguments, symbolic numbers, tensor metadata and torch's codes of data types.
#include <algorithm>
#include <array>

#include "import/pt2/schema_reader.h"
#include "tensor/checked_size.h"

namespace htpipe::pt2 {
namespace {

constexpr std::int64_t kStrided = 7;
constexpr std::size_t kMostDimensions = 64;

/// torch/_export/serde/schema.py, ScalarType.
struct ScalarType {
  std::int64_t code;
  std::string_view name;
  std::optional<DType> dtype;
};
constexpr std::array<ScalarType, 21> kScalarTypes = {{
    {1, "uint8", DType::kU8},       {2, "int8", DType::kI8},     {3, "int16", DType::kI16},
    {4, "int32", DType::kI32},      {5, "int64", DType::kI64},   {6, "float16", DType::kF16},
    {7, "float32", DType::kF32},    {8, "float64", DType::kF64}, {9, "complex32", {}},
    {10, "complex64", {}},          {11, "complex128", {}},      {12, "bool", DType::kBool},
    {13, "bfloat16", DType::kBF16}, {28, "uint16", DType::kU16}, {29, "float8_e4m3fn", {}},
    {30, "float8_e5m2", {}},        {31, "float8_e4m3fnuz", {}}, {32, "float8_e5m2fnuz", {}},
    {33, "float8_e8m0fnu", {}},     {34, "uint32", DType::kU32}, {35, "uint64", DType::kU64},
}};

/// The symbols of a sympy expression such as "Symbol('s77', positive=True, integer=True)", or all of it without one.
std::string symbols_of(std::string_view expression) {
  constexpr std::string_view kSymbol = "Symbol('";
  std::string names;
  for (std::size_t at = expression.find(kSymbol); at != std::string_view::npos; at = expression.find(kSymbol, at)) {
    at += kSymbol.size();
    names += fmt::format("{}{}", names.empty() ? "" : ", ", expression.substr(at, expression.find('\'', at) - at));
  }
  return names.empty() ? std::string(expression) : names;
}

void fail_dynamic(SchemaReader& in, const Spot& spot, std::string_view expression) {
  in.fail_at(spot, fmt::format("depends on {}", symbols_of(expression.substr(0, 1000))), Code::kDynamicShape,
             "Export without dynamic_shapes and without sizes that depend on data.");
}

/// SymInt: {"as_int": 3} or {"as_expr": {"expr_str": "s77", …}}.
std::int64_t symbolic_integer(SchemaReader& in, const Spot& spot) {
  std::int64_t value = 0;
  in.on_union(spot, [&](std::string_view kind, const Spot& member) {
    if (kind == "as_int") {
      value = in.integer(member);
    } else if (kind == "as_expr") {
      fail_dynamic(in, spot, in.text(member, "expr_str"));
    } else {
      in.fail_at(member, "is of an unknown kind");
    }
  });
  return value;
}

/// SymIntArgument and its kin: {"as_int": 3} or {"as_name": "sym_size"}.
template <typename Read>
void symbolic_argument(SchemaReader& in, const Spot& spot, std::string_view plain, const Read& read) {
  in.on_union(spot, [&](std::string_view kind, const Spot& member) {
    if (kind == plain) {
      read(member);
    } else if (kind == "as_name") {
      fail_dynamic(in, spot, in.text(member));
    } else {
      in.fail_at(member, "is of an unknown kind");
    }
  });
}

std::optional<std::string> optional_tensor(SchemaReader& in, const Spot& spot) {
  std::optional<std::string> name;
  in.on_union(spot, [&](std::string_view kind, const Spot& member) {
    if (kind == "as_tensor") {
      name = in.text(member, "name");
    } else if (kind != "as_none") {
      in.fail_at(member, "is of an unknown kind");
    }
  });
  return name;
}

const ScalarType* scalar_type(std::int64_t code) {
  const auto* const found = std::find_if(kScalarTypes.begin(), kScalarTypes.end(),
                                         [code](const ScalarType& row) { return row.code == code; });
  return found == kScalarTypes.end() ? nullptr : found;
}

Argument argument_of_kind(SchemaReader& in, std::string_view kind, const Spot& spot) {
  const auto integer = [&in](const Spot& item) { return in.integer(item); };
  const auto number = [&in](const Spot& item) { return in.number(item); };
  const auto boolean = [&in](const Spot& item) { return in.boolean(item); };
  const auto text = [&in](const Spot& item) { return in.text(item); };
  const auto name = [&in](const Spot& item) { return in.text(item, "name"); };
  if (kind == "as_none") return std::monostate{};
  if (kind == "as_tensor") return TensorName{name(spot)};
  if (kind == "as_tensors") return TensorNames{list_of<std::string>(in, spot, name)};
  if (kind == "as_int") return integer(spot);
  if (kind == "as_ints") return list_of<std::int64_t>(in, spot, integer);
  if (kind == "as_float") return number(spot);
  if (kind == "as_floats") return list_of<double>(in, spot, number);
  if (kind == "as_bool") return boolean(spot);
  if (kind == "as_bools") return list_of<bool>(in, spot, boolean);
  if (kind == "as_string") return text(spot);
  if (kind == "as_strings") return list_of<std::string>(in, spot, text);
  if (kind == "as_optional_tensors") {
    return OptionalTensorNames{
        list_of<std::optional<std::string>>(in, spot, [&in](const Spot& item) { return optional_tensor(in, item); })};
  }
  if (kind == "as_optional_tensor") {
    const auto tensor = optional_tensor(in, spot);
    return tensor ? Argument(TensorName{*tensor}) : Argument(std::monostate{});
  }
  Argument value;
  if (kind == "as_sym_int") {
    symbolic_argument(in, spot, "as_int", [&](const Spot& item) { value = in.integer(item); });
  } else if (kind == "as_sym_float") {
    symbolic_argument(in, spot, "as_float", [&](const Spot& item) { value = in.number(item); });
  } else if (kind == "as_sym_bool") {
    symbolic_argument(in, spot, "as_bool", [&](const Spot& item) { value = in.boolean(item); });
  } else if (kind == "as_sym_ints") {
    value = list_of<std::int64_t>(in, spot, [&in](const Spot& item) {
      std::int64_t number_of_item = 0;
      symbolic_argument(in, item, "as_int", [&](const Spot& plain) { number_of_item = in.integer(plain); });
      return number_of_item;
    });
  } else if (kind == "as_scalar_type") {
    const ScalarType* const type = scalar_type(in.integer(spot));
    value = type != nullptr && type->dtype ? Argument(*type->dtype)
                                           : Argument(Unsupported{type ? std::string(type->name) : "unknown dtype"});
  } else if (kind == "as_device" || kind == "as_layout" || kind == "as_memory_format") {
    value = Ignored{std::string(kind)};
  } else {
    value = Unsupported{std::string(kind)};
  }
  return value;
}

}  // namespace

Argument read_argument(SchemaReader& in, const Spot& spot) {
  Argument value;
  in.on_union(spot, [&](std::string_view kind, const Spot& member) { value = argument_of_kind(in, kind, member); });
  return value;
}

std::vector<Argument> read_arguments(SchemaReader& in, const Spot& spot) {
  return list_of<Argument>(in, spot, [&in](const Spot& item) { return read_argument(in, item); });
}

TensorMeta read_tensor_meta(SchemaReader& in, const Spot& spot) {
  TensorMeta meta;
  const auto dimension = [&in](const Spot& item) { return symbolic_integer(in, item); };
  const Spot dtype = in.field(spot, "dtype");
  const std::int64_t code = in.integer(dtype);
  const Spot sizes = in.field(spot, "sizes");
  meta.sizes = list_of<std::int64_t>(in, sizes, dimension);
  const Spot strides = in.field(spot, "strides");
  meta.strides = list_of<std::int64_t>(in, strides, dimension);
  const Spot offset = in.field(spot, "storage_offset");
  meta.storage_offset = symbolic_integer(in, offset);
  const Spot layout = in.field(spot, "layout");
  const std::int64_t layout_code = in.integer(layout);
  if (!in.ok()) return meta;

  const ScalarType* const type = scalar_type(code);
  if (type == nullptr) {
    in.fail_at(dtype, fmt::format("unknown data type {}", code));
  } else if (!type->dtype) {
    in.fail_at(dtype, fmt::format("data type {} has no counterpart here", type->name), Code::kUnsupportedForm);
  } else if (layout_code != kStrided) {
    in.fail_at(layout, fmt::format("layout {} is not strided", layout_code), Code::kUnsupportedForm);
  } else if (meta.strides.size() != meta.sizes.size() || meta.sizes.size() > kMostDimensions) {
    in.fail_at(spot, fmt::format("{} sizes and {} strides", meta.sizes.size(), meta.strides.size()));
  } else if (!checked_size_bytes(meta.sizes, *type->dtype)) {
    in.fail_at(sizes, fmt::format("absurd shape {}", to_string(meta.sizes)));
  } else if (meta.storage_offset < 0 ||
             std::any_of(meta.strides.begin(), meta.strides.end(), [](std::int64_t stride) { return stride < 0; })) {
    in.fail_at(spot, "a negative stride or offset");
  } else {
    meta.dtype = *type->dtype;
  }
  return meta;
}

}  // namespace htpipe::pt2
