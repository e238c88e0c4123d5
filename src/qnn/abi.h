// The part of Qualcomm's C interface that htpipe calls, declared by us from measured layouts (release 2.51).
// Invariant: every struct that crosses the boundary has its size and offsets asserted below; no other is used.
#pragma once

#include <cstdarg>
#include <cstddef>
#include <cstdint>

namespace htpipe::qnn::abi {

using Handle = void*;
using ErrorCode = std::uint64_t;
using Size = std::uint64_t;
inline constexpr ErrorCode kSuccess = 0;

inline constexpr std::uint32_t kBackendHtp = 6;
inline constexpr std::uint32_t kBackendIr = 9;
inline constexpr const char* kOpPackage = "qti.aisw";

struct Version {
  std::uint32_t major, minor, patch;
};

enum LogLevel : std::uint32_t { kLogError = 1, kLogWarning = 2, kLogInfo = 3 };
/// Formats like vprintf; may be called from any thread.
using LogCallback = void (*)(const char* format, std::uint32_t level, std::uint64_t timestamp, va_list arguments);

// ---- values ---------------------------------------------------------------------------------------------------------

enum DataType : std::uint32_t {
  kInt8 = 0x008,
  kInt16 = 0x016,
  kInt32 = 0x032,
  kInt64 = 0x064,
  kUint8 = 0x108,
  kUint16 = 0x116,
  kUint32 = 0x132,
  kUint64 = 0x164,
  kFloat16 = 0x216,
  kBfloat16 = 0x226,
  kFloat32 = 0x232,
  kFloat64 = 0x264,
  kSfixed4 = 0x304,
  kSfixed8 = 0x308,
  kSfixed16 = 0x316,
  kSfixed32 = 0x332,
  kUfixed4 = 0x404,
  kUfixed8 = 0x408,
  kUfixed16 = 0x416,
  kUfixed32 = 0x432,
  kBool8 = 0x508,
  kString = 0x608,
};

struct Scalar {
  std::uint32_t data_type;
  union {
    float f32;
    double f64;
    std::uint64_t u64;
    std::int64_t i64;
    std::uint32_t u32;
    std::int32_t i32;
    std::uint16_t u16;
    std::int16_t i16;
    std::uint8_t u8;
    std::int8_t i8;
    const char* text;
  };
};
static_assert(sizeof(Scalar) == 16 && offsetof(Scalar, f32) == 8);

struct ScaleOffset {
  float scale;
  std::int32_t offset;
};
struct BwScaleOffset {
  std::uint32_t bits;
  float scale;
  std::int32_t offset;
};
struct AxisScaleOffset {
  std::int32_t axis;
  std::uint32_t count;
  ScaleOffset* values;
};
struct BwAxisScaleOffset {
  std::uint32_t bits;
  std::int32_t axis;
  std::uint32_t count;
  float* scales;
  std::int32_t* offsets;
};
static_assert(sizeof(ScaleOffset) == 8 && sizeof(BwScaleOffset) == 12 && sizeof(AxisScaleOffset) == 16);
static_assert(sizeof(BwAxisScaleOffset) == 32 && offsetof(BwAxisScaleOffset, scales) == 16);

/// Scales per block: that of a channel times a small integer.
struct BlockwiseExpansion {
  std::int32_t axis;  ///< of the channels
  ScaleOffset* scale_offsets;
  std::uint32_t blocks_per_axis;
  std::uint32_t block_scale_bits;
  std::uint32_t block_scale_storage;  ///< 0: 8 bits
  std::uint8_t* block_scales;         ///< [channel][block]
};
static_assert(sizeof(BlockwiseExpansion) == 40 && offsetof(BlockwiseExpansion, block_scales) == 32);

enum EncodingKind : std::uint32_t {
  kScaleOffset = 0,
  kAxisScaleOffset = 1,
  kBwScaleOffset = 2,
  kBwAxisScaleOffset = 3,
  kBlockwiseExpansion = 5,
  kUndefinedEncoding = 0x7fffffff,
};
enum Definition : std::uint32_t { kDefined = 1, kUndefined = 0x7fffffff };

struct QuantizeParams {
  std::uint32_t definition;
  std::uint32_t kind;
  union {
    ScaleOffset scale_offset;
    AxisScaleOffset axis;
    BwScaleOffset bw;
    BwAxisScaleOffset bw_axis;
    BlockwiseExpansion* blockwise;
    void* other;
  };
};
static_assert(sizeof(QuantizeParams) == 40 && offsetof(QuantizeParams, scale_offset) == 8);

enum TensorKind : std::uint32_t {
  kAppWrite = 0,
  kAppRead = 1,
  kAppReadWrite = 2,
  kNative = 3,
  kStatic = 4,
  kNull = 5,
};
enum MemoryKind : std::uint32_t { kRaw = 0 };

struct ClientBuffer {
  void* data;
  std::uint32_t size;
};

/// The body of a tensor of version 1 or 2. Version 1 ends at `dynamic_dimensions`; what follows is then not looked at.
struct TensorBody {
  std::uint32_t id;
  const char* name;
  std::uint32_t kind;
  std::uint32_t data_format;
  std::uint32_t data_type;
  QuantizeParams quantization;
  std::uint32_t rank;
  std::uint32_t* dimensions;
  std::uint32_t memory_kind;
  ClientBuffer buffer;
  std::uint8_t* dynamic_dimensions;
  std::uint32_t sparse_type;
  std::uint32_t sparse_layout[2];
  std::uint8_t is_produced;
};
struct Tensor {
  std::uint32_t version;
  TensorBody body;
};
static_assert(sizeof(Tensor) == 144 && offsetof(Tensor, body) == 8 && sizeof(TensorBody) == 136);
static_assert(offsetof(TensorBody, name) == 8 && offsetof(TensorBody, kind) == 16);
static_assert(offsetof(TensorBody, data_type) == 24 && offsetof(TensorBody, quantization) == 32);
static_assert(offsetof(TensorBody, rank) == 72 && offsetof(TensorBody, dimensions) == 80);
static_assert(offsetof(TensorBody, memory_kind) == 88 && offsetof(TensorBody, buffer) == 96);
static_assert(offsetof(TensorBody, dynamic_dimensions) == 112 && offsetof(TensorBody, sparse_type) == 120);
static_assert(offsetof(TensorBody, is_produced) == 132);

enum ParamKind : std::uint32_t { kScalarParam = 0, kTensorParam = 1 };
struct Param {
  std::uint32_t kind;
  const char* name;
  union {
    Scalar scalar;
    Tensor tensor;
  };
};
static_assert(sizeof(Param) == 160 && offsetof(Param, scalar) == 16);

struct OpConfig {
  std::uint32_t version;
  const char* name;
  const char* package;
  const char* type;
  std::uint32_t param_count;
  Param* params;
  std::uint32_t input_count;
  Tensor* inputs;
  std::uint32_t output_count;
  Tensor* outputs;
};
static_assert(sizeof(OpConfig) == 80 && offsetof(OpConfig, name) == 8 && offsetof(OpConfig, param_count) == 32);
static_assert(offsetof(OpConfig, params) == 40 && offsetof(OpConfig, inputs) == 56 &&
              offsetof(OpConfig, outputs) == 72);

// ---- configurations -------------------------------------------------------------------------------------------------

/// QnnGraph_Config_t, QnnContext_Config_t and QnnDevice_Config_t share this form when the option is "custom" (0).
struct Config {
  std::uint32_t option;
  void* custom;
};
static_assert(sizeof(Config) == 16 && offsetof(Config, custom) == 8);
inline constexpr std::uint32_t kConfigCustom = 0;

/// HTP device option. The union stands at 8 in release 2.51 (earlier releases: 4).
struct HtpDeviceConfig {
  std::uint32_t option;
  std::uint32_t padding;
  std::uint32_t value[4];
};
static_assert(offsetof(HtpDeviceConfig, value) == 8);
inline constexpr std::uint32_t kHtpDeviceSoc = 0;

struct HtpOptimization {
  std::uint32_t type;
  float value;
};
struct HtpGraphConfig {
  std::uint32_t option;
  union {
    HtpOptimization optimization;
    std::uint32_t u32;
    std::uint64_t u64;
    std::uint8_t flag;
    std::uint8_t storage[48];
  };
};
static_assert(sizeof(HtpGraphConfig) == 56 && offsetof(HtpGraphConfig, u64) == 8);

struct IrGraphConfig {
  std::uint32_t option;  // 1 = serialization
  std::uint32_t padding;
  std::uint32_t serialization;  // 1 = flat buffer
  const char* path;
};
static_assert(sizeof(IrGraphConfig) == 24 && offsetof(IrGraphConfig, serialization) == 8);

// ---- the backend interface ------------------------------------------------------------------------------------------

using AnyFunction = void (*)();

/// Function table in the order of the library. Entries that htpipe does not call are placeholders.
struct BackendTable {
  AnyFunction property_has_capability;
  ErrorCode (*backend_create)(Handle log, const Config** configs, Handle* backend);
  AnyFunction backend_set_config;
  AnyFunction backend_get_api_version;
  ErrorCode (*backend_get_build_id)(const char** id);
  AnyFunction unused_5_6[2];
  ErrorCode (*backend_validate_op_config)(Handle backend, OpConfig op);
  ErrorCode (*backend_free)(Handle backend);
  ErrorCode (*context_create)(Handle backend, Handle device, const Config** configs, Handle* context);
  AnyFunction context_set_config;
  ErrorCode (*context_get_binary_size)(Handle context, Size* size);
  ErrorCode (*context_get_binary)(Handle context, void* buffer, Size size, Size* written);
  ErrorCode (*context_create_from_binary)(Handle backend, Handle device, const Config** configs, const void* buffer,
                                          Size size, Handle* context, Handle profile);
  ErrorCode (*context_free)(Handle context, Handle profile);
  ErrorCode (*graph_create)(Handle context, const char* name, const Config** configs, Handle* graph);
  AnyFunction unused_16_17[2];
  ErrorCode (*graph_add_node)(Handle graph, OpConfig op);
  ErrorCode (*graph_finalize)(Handle graph, Handle profile, Handle signal);
  ErrorCode (*graph_retrieve)(Handle context, const char* name, Handle* graph);
  ErrorCode (*graph_execute)(Handle graph, const Tensor* inputs, std::uint32_t input_count, Tensor* outputs,
                             std::uint32_t output_count, Handle profile, Handle signal);
  AnyFunction unused_22_23[2];
  ErrorCode (*tensor_create_graph_tensor)(Handle graph, Tensor* tensor);
  ErrorCode (*log_create)(LogCallback callback, std::uint32_t level, Handle* log);
  AnyFunction unused_26_39[14];
  ErrorCode (*device_create)(Handle log, const Config** configs, Handle* device);
  AnyFunction unused_41_47[7];
  ErrorCode (*error_get_message)(ErrorCode error, const char** message);
  AnyFunction unused_49_74[26];
};
static_assert(sizeof(BackendTable) == 600);
static_assert(offsetof(BackendTable, backend_validate_op_config) == 7 * 8 &&
              offsetof(BackendTable, graph_create) == 15 * 8);
static_assert(offsetof(BackendTable, graph_add_node) == 18 * 8 && offsetof(BackendTable, graph_execute) == 21 * 8);
static_assert(offsetof(BackendTable, tensor_create_graph_tensor) == 24 * 8 &&
              offsetof(BackendTable, device_create) == 40 * 8);
static_assert(offsetof(BackendTable, error_get_message) == 48 * 8);

/// Passed by value to system_dlc_compose_graphs, so its size matters: 640 bytes in release 2.51.
struct BackendInterface {
  std::uint32_t backend_id;
  const char* provider;
  Version core_api;
  Version backend_api;
  BackendTable table;
};
static_assert(sizeof(BackendInterface) == 640 && offsetof(BackendInterface, core_api) == 16);
static_assert(offsetof(BackendInterface, table) == 40);

using GetBackendProviders = ErrorCode (*)(const BackendInterface*** providers, std::uint32_t* count);

// ---- the system interface -------------------------------------------------------------------------------------------

struct GraphInfo {
  std::uint32_t version;  // 1 ends at `outputs`, 2 at `updateable`, 3 is whole
  const char* name;
  std::uint32_t input_count;
  Tensor* inputs;
  std::uint32_t output_count;
  Tensor* outputs;
  std::uint32_t updateable_count;
  Tensor* updateable;
  std::uint32_t blob_info_size;
  const std::byte* blob_info;
  std::uint32_t start_op;
  std::uint32_t end_op;
};
static_assert(sizeof(GraphInfo) == 88 && offsetof(GraphInfo, name) == 8 && offsetof(GraphInfo, outputs) == 40);
static_assert(offsetof(GraphInfo, blob_info_size) == 64 && offsetof(GraphInfo, blob_info) == 72);

/// Version 3; earlier versions have another layout and are refused.
struct BinaryInfo {
  std::uint32_t version;
  std::uint32_t padding;
  std::uint32_t backend_id;
  const char* build_id;
  Version core_api;
  Version backend_api;
  const char* soc_version;
  Version blob_version;
  Size blob_size;
  std::uint32_t context_tensor_count;
  Tensor* context_tensors;
  std::uint32_t graph_count;
  GraphInfo* graphs;
  void* platform_info;
  std::uint32_t metadata_size;
  const std::byte* metadata;
  std::uint32_t soc_model;
};
static_assert(sizeof(BinaryInfo) == 144 && offsetof(BinaryInfo, build_id) == 16 &&
              offsetof(BinaryInfo, core_api) == 24);
static_assert(offsetof(BinaryInfo, blob_version) == 56 && offsetof(BinaryInfo, blob_size) == 72);
static_assert(offsetof(BinaryInfo, graph_count) == 96 && offsetof(BinaryInfo, metadata) == 128);
static_assert(offsetof(BinaryInfo, soc_model) == 136);

/// Planned sizes of a compiled graph, as two blocks one after the other.
struct GraphBlobInfo {
  std::uint32_t version_1;
  std::uint64_t spill_fill;
  std::uint32_t vtcm;  // bytes
  std::uint32_t optimization_level;
  std::uint8_t dlbc;
  std::uint64_t hvx_threads;
  std::uint32_t version_2;
  std::uint64_t native_k;
  std::uint64_t native_v;
  std::uint32_t share_io;
  std::uint64_t io;
  std::uint64_t op_data;
  std::uint64_t constants;
  std::uint64_t ddr_tensors;
  std::uint64_t shared_weights;
};
static_assert(sizeof(GraphBlobInfo) == 112 && offsetof(GraphBlobInfo, version_2) == 40);
static_assert(offsetof(GraphBlobInfo, io) == 72 && offsetof(GraphBlobInfo, shared_weights) == 104);

struct DlcGraphConfig {
  std::uint32_t version;
  const char* graph_name;
  const Config** configs;
  std::uint32_t config_count;
};
static_assert(sizeof(DlcGraphConfig) == 32 && offsetof(DlcGraphConfig, graph_name) == 8);

struct SystemTable {
  ErrorCode (*context_create)(Handle* context);
  AnyFunction context_get_binary_info;
  ErrorCode (*context_get_metadata)(Handle context, const void* buffer, Size size, const BinaryInfo** info);
  ErrorCode (*context_free)(Handle context);
  AnyFunction tensor_get_memory_footprint;
  ErrorCode (*log_create)(LogCallback callback, std::uint32_t level, Handle* log);
  AnyFunction unused_6_7[2];
  ErrorCode (*dlc_create_from_file)(Handle log, const char* path, Handle* dlc);
  AnyFunction dlc_create_from_binary;
  ErrorCode (*dlc_compose_graphs)(Handle dlc, const DlcGraphConfig** configs, std::uint32_t config_count,
                                  Handle backend, Handle context, BackendInterface interface,
                                  std::uint32_t graph_info_version, GraphInfo** graphs, std::uint32_t* graph_count);
  AnyFunction dlc_get_op_mappings;
  ErrorCode (*dlc_free)(Handle dlc);
};
static_assert(offsetof(SystemTable, dlc_create_from_file) == 8 * 8 &&
              offsetof(SystemTable, dlc_compose_graphs) == 10 * 8);

struct SystemInterface {
  std::uint32_t backend_id;
  const char* provider;
  Version system_api;
  SystemTable table;
};
static_assert(offsetof(SystemInterface, table) == 32);

using GetSystemProviders = ErrorCode (*)(const SystemInterface*** providers, std::uint32_t* count);

}  // namespace htpipe::qnn::abi
