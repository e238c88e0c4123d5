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

/// SymIntArgument and its kin: {"as_int": 3} or {"as_name": "sym_size"}.
Argument symbolic_argument(SchemaReader& in, const Spot& spot) {
  Argument value;
  in.on_union(spot, [&](std::string_view kind, const Spot& member) {
    if (kind == "as_int") {
      value = in.integer(member);
    } else if (kind == "as_float") {
      value = in.number(member);
    } else if (kind == "as_bool") {
      value = in.boolean(member);
    } else if (kind == "as_name") {
      const std::string name = in.text(member);
      const auto known = in.numbers.find(name);
      value = known != in.numbers.end() ? known->second
                                        : Argument(Unsupported{fmt::format("{}, which depends on the data", name)});
    } else {
      in.fail_at(member, "is of an unknown kind");
    }
  });
  return value;
}

/// A list of SymInts; Unsupported when one of them is not known.
Argument symbolic_integers(SchemaReader& in, const Spot& spot) {
  std::vector<std::int64_t> numbers;
  std::optional<Unsupported> unknown;
  in.for_each(spot, [&](const Spot& item) {
    const Argument value = symbolic_argument(in, item);
    if (const auto* number = std::get_if<std::int64_t>(&value)) {
      numbers.push_back(*number);
    } else if (const auto* problem = std::get_if<Unsupported>(&value)) {
      unknown = *problem;
    } else {
      unknown = Unsupported{"a size that is no integer"};
    }
  });
  return unknown ? Argument(*unknown) : Argument(std::move(numbers));
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
  if (kind == "as_sym_int" || kind == "as_sym_float" || kind == "as_sym_bool") {
    value = symbolic_argument(in, spot);
  } else if (kind == "as_sym_ints") {
    value = symbolic_integers(in, spot);
  } else if (kind == "as_graph") {
    // Names of numbers are those of the inner graph while it is read.
    auto body = std::make_shared<Body>();
    auto outer = in.numbers;
    const Spot graph = in.field(spot, "graph");
    read_body(in, graph, *body);
    in.numbers = std::move(outer);
    value = Subgraph(std::move(body));
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

std::optional<std::int64_t> symbolic_integer(SchemaReader& in, const Spot& spot) {
  std::optional<std::int64_t> value;
  in.on_union(spot, [&](std::string_view kind, const Spot& member) {
    if (kind == "as_int") {
      value = in.integer(member);
    } else if (kind == "as_expr") {
      const std::string expression = in.text(member, "expr_str");
      value = evaluate(expression, in.symbols, in.missing);
      if (value && *value < 0) value.reset();
    } else {
      in.fail_at(member, "is of an unknown kind");
    }
  });
  return value;
}

TensorMeta read_tensor_meta(SchemaReader& in, const Spot& spot) {
  TensorMeta meta;
  bool known = true;
  const auto size = [&](const Spot& item) {
    const auto number = symbolic_integer(in, item);
    known = known && number;
    return number.value_or(0);
  };
  // A stride that is no number says nothing: only the strides of weights are used, and those are plain.
  const auto stride = [&in](const Spot& item) { return symbolic_integer(in, item).value_or(0); };
  const Spot dtype = in.field(spot, "dtype");
  const std::int64_t code = in.integer(dtype);
  const Spot sizes = in.field(spot, "sizes");
  meta.sizes = list_of<std::int64_t>(in, sizes, size);
  const Spot strides = in.field(spot, "strides");
  meta.strides = list_of<std::int64_t>(in, strides, stride);
  const Spot offset = in.field(spot, "storage_offset");
  meta.storage_offset = symbolic_integer(in, offset).value_or(0);
  const Spot layout = in.field(spot, "layout");
  const std::int64_t layout_code = in.integer(layout);
  if (!in.ok()) return meta;

  const ScalarType* const type = scalar_type(code);
  if (type == nullptr) {
    in.fail_at(dtype, fmt::format("unknown data type {}", code));
  } else if (!type->dtype) {
    meta.problem = fmt::format("data type {} has no counterpart here", type->name);
  } else if (layout_code != kStrided) {
    meta.problem = fmt::format("layout {} is not strided", layout_code);
  } else if (!known) {
    meta.problem = "its shape depends on the data";
  } else if (meta.strides.size() != meta.sizes.size() || meta.sizes.size() > kMostDimensions) {
    in.fail_at(spot, fmt::format("{} sizes and {} strides", meta.sizes.size(), meta.strides.size()));
  } else if (!checked_size_bytes(meta.sizes, *type->dtype)) {
    in.fail_at(sizes, fmt::format("absurd shape {}", to_string(meta.sizes)));
  } else if (meta.storage_offset < 0 ||
             std::any_of(meta.strides.begin(), meta.strides.end(), [](std::int64_t s) { return s < 0; })) {
    in.fail_at(spot, "a negative stride or offset");
  } else {
    meta.dtype = *type->dtype;
  }
  return meta;
}

}  // namespace htpipe::pt2
