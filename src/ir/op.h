// The operator interface: everything that the rest of the program knows of an operator is one OpDef value.
// Invariant: no code outside an operator's own file switches over operator names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ir/attributes.h"
#include "tensor/tensor.h"

namespace htpipe {

/// What an operand is for; the quantiser and the passes act on roles, not on operator names.
enum class Role : std::uint8_t { kData, kWeight, kBias };

struct OperandSpec {
  std::string_view name;
  Role role = Role::kData;
  bool optional = false;
  bool variadic = false;  ///< last operand only: one or more
};

/// Name, default and meaning of an attribute. The default's type is the attribute's type.
struct AttributeSpec {
  std::string_view name;
  Attribute default_value;
  bool required = false;
  std::string_view doc;
};

/// Types and constants of a node's operands, as its hooks see them. An absent optional operand has a null type.
struct NodeView {
  const Attributes& attributes;
  std::span<const TensorType* const> operands;
  std::span<const Tensor* const> constants;  ///< null where the operand is no constant

  [[nodiscard]] bool has(std::size_t operand) const {
    return operand < operands.size() && operands[operand] != nullptr;
  }
  [[nodiscard]] const TensorType& type(std::size_t operand) const { return *operands[operand]; }
};

/// The threads that one execution may use (ops/lanes.h shares work out), each with scratch of its own.
struct Lanes {
  int count = 1;
  std::byte* scratch = nullptr;  ///< of lane 0, aligned to 64 bytes
  std::size_t stride = 0;        ///< from one lane's scratch to the next one's, a multiple of 64

  [[nodiscard]] std::byte* scratch_of(int lane) const { return scratch + static_cast<std::size_t>(lane) * stride; }
};

/// One execution of a node: pointers to contiguous elements. Scratch is private to the call.
struct KernelCall {
  std::span<const void* const> operands;
  std::span<void* const> results;
  std::byte* scratch;
  Lanes lanes = {};

  template <typename T>
  [[nodiscard]] const T* in(std::size_t operand) const {
    return static_cast<const T*>(operands[operand]);
  }
  template <typename T>
  [[nodiscard]] T* out(std::size_t result) const {
    return static_cast<T*>(results[result]);
  }
};

/// A node made ready to run: constants packed, tables and multipliers computed. Const and thread-safe.
struct Kernel {
  std::function<void(const KernelCall&)> run;
  std::size_t scratch_bytes = 0;       ///< of the whole call
  std::size_t lane_scratch_bytes = 0;  ///< of each lane besides
};

/// What a kernel is prepared for.
struct KernelRequest {
  NodeView node;
  std::span<const TensorType* const> results;
  int htp_version;  ///< 68, 73, 75 …: whose integer arithmetic the fixed-point kernel follows
};

/// How an operator reacts when its data operands are permuted.
enum class Layout : std::uint8_t {
  kOpaque,       ///< axes have a meaning; nothing may be moved through it
  kElementwise,  ///< every axis alike: a permutation of all data operands may be moved behind it
  kAxis,         ///< has the attribute axis: a permutation may be moved behind it when the axis follows
  kSpatial,      ///< has the attribute data_layout ("nchw" or "nhwc")
};

/// How the encoding of a result comes about.
enum class ResultEncoding : std::uint8_t {
  kCalibrated,   ///< from the observed range of the result
  kSameAsInput,  ///< the chip copies or compares stored integers: the encoding of operand 0
  kWholeUnits,   ///< calibrated, but the chip cuts 8-bit scales to whole units of 2^-16
};

/// How exact an implementation must be.
enum class Exactness : std::uint8_t { kCopy, kRounded };

/// How one attribute becomes a QNN parameter.
/// kRanges: the attributes begin, end and strides together, as QNN's StridedSlice takes them.
enum class ParamKind : std::uint8_t { kBool, kU32, kI32, kF32, kU32List, kU32Pairs, kRanges, kEnum };
struct ParamLowering {
  std::string_view attribute;
  std::string_view param;
  ParamKind kind;
  std::vector<std::pair<std::string_view, std::uint32_t>> values = {};  ///< kEnum: spelling and number
  bool omit_default = false;
  /// Written only where the attribute `operation` has this value, because QNN refuses it elsewhere; empty = always.
  std::string_view operation = {};
};
struct Lowering {
  std::string_view type;  ///< QNN operator of package qti.aisw
  std::vector<ParamLowering> params = {};
  /// Refuses nodes that QNN cannot express (unsupported-form); absent = none.
  std::function<Status(const NodeView&)> check = nullptr;
};

struct OpDef {
  std::string_view name;
  std::string_view doc;
  std::vector<OperandSpec> operands;
  std::vector<AttributeSpec> attributes = {};

  /// Result types (shape and dtype; encodings are the quantiser's). Doubles as the checker of attributes and operands.
  std::function<Result<std::vector<TensorType>>(const NodeView&)> infer;
  /// Kernel on plain values, those without an encoding: float32, 64-bit integers and bool (see ops/evaluate.h).
  std::function<Result<Kernel>(const KernelRequest&)> float_kernel = nullptr;
  /// The plain kernel takes every data type as it is: it moves elements, or tells them apart itself.
  bool any_dtype = false;
  /// Kernel on float64 operands; absent, or refusing with an error, they are computed in float32.
  std::function<Result<Kernel>(const KernelRequest&)> double_kernel = nullptr;
  /// Kernel on stored integers with the chip's arithmetic; absent = no fixed-point rule.
  std::function<Result<Kernel>(const KernelRequest&)> fixed_kernel = nullptr;
  /// Multiply-adds of one execution; absent = 0.
  std::function<std::int64_t(const NodeView&, std::span<const TensorType* const> results)> macs = nullptr;

  Layout layout = Layout::kOpaque;
  ResultEncoding result_encoding = ResultEncoding::kCalibrated;
  Exactness exactness = Exactness::kRounded;
  /// Axis of a weight operand along which scales are per channel, in the form that is lowered; -1 = per tensor.
  int weight_channel_axis = -1;
  /// Permutation that turns a weight operand of the "nchw" form into the "nhwc" form; empty = the same.
  std::vector<std::int64_t> weight_to_nhwc = {};
  Lowering lowering = {};

  [[nodiscard]] const AttributeSpec* attribute(std::string_view attribute_name) const;
};

/// All operators, sorted by name (ops/op_list.inc). nullptr when there is none of that name.
[[nodiscard]] const OpDef* find_op(std::string_view name);
/// Tells the graph room which operators exist; called once by ops/registry.cc.
void register_ops(std::vector<const OpDef*> ops);
[[nodiscard]] const std::vector<const OpDef*>& registered_ops();

/// Fills defaults in and refuses unknown names and wrong types. Errors: unsupported-form.
Result<Attributes> complete(const OpDef& op, const Attributes& given);

}  // namespace htpipe
