// A small QNN graph written by hand, for the tests of this room.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/io.h"
#include "qnn/graph_spec.h"
#include "qnn/vendor.h"

namespace htpipe::qnn::testing {

/// Deterministic bytes without a pattern that a wrong layout would keep.
inline std::uint32_t noise(std::uint32_t& state) {
  state = state * 1664525U + 1013904223U;
  return state >> 16;
}

template <typename T>
Tensor noise_tensor(TensorType type, std::int64_t low, std::int64_t high, std::uint32_t seed) {
  Tensor tensor(std::move(type));
  for (T& value : tensor.mutable_data<T>()) {
    value = static_cast<T>(low + static_cast<std::int64_t>(noise(seed)) % (high - low + 1));
  }
  return tensor;
}

inline TensorSpec native(std::string name, TensorType type, TensorRole role = TensorRole::kNative) {
  return {std::move(name), role, std::move(type), {}};
}

inline TensorSpec fixed(std::string name, Tensor data) {
  TensorType type = data.type();
  return {std::move(name), TensorRole::kStatic, std::move(type), std::move(data)};
}

inline Encoding per_channel(std::size_t channels, float scale, int axis, int bits) {
  Encoding encoding{{}, {}, axis, bits};
  for (std::size_t i = 0; i < channels; ++i) {
    encoding.scales.push_back(scale * (1.0F + 0.25F * static_cast<float>(i)));
    encoding.zero_points.push_back(0);
  }
  return encoding;
}

inline Encoding bias_encoding(float input_scale, const Encoding& weights) {
  Encoding encoding = weights;
  encoding.axis = 0;
  encoding.bits = 32;
  for (float& scale : encoding.scales) scale *= input_scale;
  return encoding;
}

inline Tensor u32_tensor(Shape shape, std::vector<std::uint32_t> values) {
  return Tensor::from<std::uint32_t>({DType::kU32, std::move(shape), {}}, values);
}

/// x[1,8,8,3] u8 → Conv2d 3x3 (8 channels, i8 per channel) → Relu → Reshape → FullyConnected (10, i8 per tensor) u8.
inline GraphSpec conv_graph() {
  const Encoding x = Encoding::per_tensor(0.02F, 128, 8);
  const Encoding conv = Encoding::per_tensor(0.03F, 120, 8);
  const Encoding y = Encoding::per_tensor(0.1F, 131, 8);
  const Encoding conv_weight = per_channel(8, 0.004F, 3, 8);
  const Encoding fc_weight = Encoding::per_tensor(0.005F, 0, 8);
  GraphSpec graph;
  graph.name = "conv_graph";
  graph.tensors = {
      native("x", {DType::kU8, {1, 8, 8, 3}, x}, TensorRole::kInput),
      fixed("conv.weight", noise_tensor<std::int8_t>({DType::kI8, {3, 3, 3, 8}, conv_weight}, -100, 100, 1)),
      fixed("conv.bias",
            noise_tensor<std::int32_t>({DType::kI32, {8}, bias_encoding(0.02F, conv_weight)}, -900, 900, 2)),
      native("conv_out", {DType::kU8, {1, 8, 8, 8}, conv}),
      native("relu_out", {DType::kU8, {1, 8, 8, 8}, conv}),
      native("flat", {DType::kU8, {1, 512}, conv}),
      fixed("fc.weight", noise_tensor<std::int8_t>({DType::kI8, {10, 512}, fc_weight}, -100, 100, 3)),
      fixed("fc.bias",
            noise_tensor<std::int32_t>({DType::kI32, {10}, Encoding::per_tensor(0.00015F, 0, 32)}, -900, 900, 4)),
      native("y", {DType::kU8, {1, 10}, y}, TensorRole::kOutput),
  };
  graph.ops = {
      {"conv1",
       "Conv2d",
       {{"stride", u32_tensor({2}, {1, 1})},
        {"pad_amount", u32_tensor({2, 2}, {1, 1, 1, 1})},
        {"group", std::uint32_t{1}}},
       {"x", "conv.weight", "conv.bias"},
       {"conv_out"}},
      {"relu1", "Relu", {}, {"conv_out"}, {"relu_out"}},
      {"flatten", "Reshape", {}, {"relu_out"}, {"flat"}},
      {"fc1", "FullyConnected", {}, {"flat", "fc.weight", "fc.bias"}, {"y"}},
  };
  return graph;
}

/// A MatMul with per-channel weights and, unless `explicit_transpose`, without the two transpose parameters: release
/// 2.51 crashes when it validates that. Relu operators around it.
inline GraphSpec matmul_graph(bool explicit_transpose) {
  const Encoding activation = Encoding::per_tensor(0.02F, 128, 8);
  GraphSpec graph;
  graph.name = "matmul_graph";
  graph.tensors = {
      native("x", {DType::kU8, {1, 16, 64}, activation}, TensorRole::kInput),
      native("a", {DType::kU8, {1, 16, 64}, activation}),
      fixed("w", noise_tensor<std::int8_t>({DType::kI8, {1, 64, 32}, per_channel(32, 0.004F, 2, 8)}, -100, 100, 5)),
      native("b", {DType::kU8, {1, 16, 32}, activation}),
      native("y", {DType::kU8, {1, 16, 32}, activation}, TensorRole::kOutput),
  };
  graph.ops = {
      {"before", "Relu", {}, {"x"}, {"a"}},
      {"matmul", "MatMul", {}, {"a", "w"}, {"b"}},
      {"after", "Relu", {}, {"b"}, {"y"}},
  };
  if (explicit_transpose) graph.ops[1].params = {{"transpose_in0", false}, {"transpose_in1", false}};
  return graph;
}

/// `samples` inputs for conv_graph.
inline std::map<std::string, Tensor> conv_inputs(std::int64_t samples) {
  TensorType type = conv_graph().tensors.front().type;
  type.shape.front() = samples;
  return {{"x", noise_tensor<std::uint8_t>(std::move(type), 0, 255, 77)}};
}

/// The vendor, also when the build folder lies outside the repository; empty when it is not installed.
inline Result<Vendor> find_vendor(VendorOptions options = {}) {
  if (!find_install(options.folder).complete()) {
    const auto repository = std::filesystem::path(__FILE__).parent_path().parent_path().parent_path();
    std::error_code error;
    for (std::filesystem::directory_iterator entry(repository / ".venv" / "lib", error), end; !error && entry != end;
         entry.increment(error)) {
      options.folder = entry->path() / "site-packages" / "onnxruntime_qnn";
    }
  }
  return Vendor::find(std::move(options));
}

}  // namespace htpipe::qnn::testing
