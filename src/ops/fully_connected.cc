// FullyConnected: [.., k] times weights [m, k] transposed, plus bias; the leading axes collapse into the batch.
// Constant weights are packed once, others in every run.
// Source: QNN operator FullyConnected (weights [m, n]).
#include <fmt/core.h>

#include <memory>
#include <vector>

#include "kernels/gemm_f32.h"
#include "ops/activation.h"
#include "ops/fixed_product.h"
#include "ops/packed.h"
#include "ops/product.h"
#include "ops/registry.h"
#include "ops/spatial.h"

namespace htpipe::ops {
namespace {

struct Sizes {
  std::int64_t batch = 1;
  std::int64_t k = 1;
  std::int64_t m = 1;
};

Result<Sizes> sizes_of(const NodeView& node) {
  const Shape& weight = node.type(1).shape;
  const std::int64_t count = node.type(0).count();
  if (weight.size() != 2 || weight[1] < 1 || node.type(0).shape.size() < 2 || node.type(0).shape.back() != weight[1]) {
    return fail(Code::kShapeMismatch,
                fmt::format("input {} does not fit weights {}", to_string(node.type(0).shape), to_string(weight)));
  }
  if (node.has(2) && node.type(2).count() != weight[0]) {
    return fail(Code::kShapeMismatch, fmt::format("bias {} for {} outputs", to_string(node.type(2).shape), weight[0]));
  }
  return Sizes{count / weight[1], weight[1], weight[0]};
}

Result<std::vector<TensorType>> infer(const NodeView& node) {
  HTPIPE_CHECK_OK(check_products(node));
  HTPIPE_TRY(const Sizes sizes, sizes_of(node));
  HTPIPE_CHECK_OK(activation_range(node.attributes.text("activation")));
  Shape shape = {sizes.batch, sizes.m};
  if (node.attributes.flag("keep_dims")) {
    shape = node.type(0).shape;
    shape.back() = sizes.m;
  }
  return std::vector<TensorType>{{node.type(0).dtype, std::move(shape), std::nullopt}};
}

Result<Tensor> transposed_weights(const NodeView& node) {
  const Tensor* weight = node.constants[1];
  if (weight == nullptr) return fail(Code::kUnsupportedForm, "weights must be constant");
  return transpose(*weight, {1, 0});
}

void pack(const Sizes& sizes, const float* weights, float* panels) {
  kernels::pack_f32(weights, sizes.k, sizes.m, 1, sizes.k, panels);
}

const float* packed(const Sizes& sizes, const float* weights, std::byte* scratch) {
  auto* panels = reinterpret_cast<float*>(scratch);
  pack(sizes, weights, panels);
  return panels;
}

Result<Kernel> float_kernel(const KernelRequest& request) {
  const NodeView& node = request.node;
  HTPIPE_CHECK_OK(require_f32(node));
  HTPIPE_TRY(const Sizes sizes, sizes_of(node));
  HTPIPE_TRY(const ActivationRange range, activation_range(node.attributes.text("activation")));
  const auto panel_count = static_cast<std::size_t>(kernels::packed_count_f32(sizes.k, sizes.m));
  std::shared_ptr<const std::vector<float>> constant;
  if (const Tensor* weight = node.constants[1]) {
    constant = shared_packed<std::vector<float>>(*weight, fmt::format("fully connected {}", sizes.m), [&] {
      std::vector<float> panels(panel_count);
      pack(sizes, weight->data<float>().data(), panels.data());
      return panels;
    });
  }
  const bool has_bias = node.has(2);
  Kernel kernel;
  kernel.scratch_bytes = constant ? 0 : panel_count * sizeof(float);
  kernel.lane_scratch_bytes = kProductScratch;
  kernel.run = [sizes, range, constant, has_bias](const KernelCall& call) {
    const float* panels = constant ? constant->data() : packed(sizes, call.in<float>(1), call.scratch);
    const kernels::Epilogue epilogue = {has_bias ? call.in<float>(2) : nullptr, range.low, range.high};
    share_product(call, sizes.batch, kernels::RowsF32{call.in<float>(0), sizes.k}, {sizes.k, sizes.m, panels},
                  call.out<float>(0), sizes.m, epilogue);
  };
  return kernel;
}

Result<Kernel> fixed_kernel(const KernelRequest& request) {
  const NodeView& node = request.node;
  HTPIPE_TRY(const Sizes sizes, sizes_of(node));
  HTPIPE_CHECK_OK(check_activation_encoding(node.attributes.text("activation"), *request.results[0]));
  HTPIPE_TRY(const Tensor weight, transposed_weights(node));
  HTPIPE_TRY(const kernels::ColumnWeights columns,
             kernels::column_weights(weight.type(), weight.bytes().data(), {sizes.m, 1}));
  auto product = std::make_shared<FixedProduct>();
  HTPIPE_TRY(*product, FixedProduct::make(request, columns, sizes.k, sizes.m, 1));
  // A batch of rows is an image of one row with a 1x1 window.
  kernels::Window window;
  window.in_w = window.out_w = sizes.batch;
  window.channels = sizes.k;
  Kernel kernel;
  kernel.scratch_bytes = product->scratch_bytes(window);
  kernel.lane_scratch_bytes = product->lane_scratch_bytes(window);
  kernel.run = [product, window](const KernelCall& call) {
    product->run(window, call.operands[0], call.results[0], call);
  };
  return kernel;
}

}  // namespace

const OpDef& fully_connected() {
  static const OpDef op = [] {
    OpDef def;
    def.name = "FullyConnected";
    def.doc = "Linear layer: input [.., k], weights [m, k], bias [m].";
    def.operands = {{"input"}, {"weight", Role::kWeight}, {"bias", Role::kBias, true}};
    def.attributes = {{"keep_dims", false, false, "keep the leading axes instead of collapsing them into one"},
                      activation_attribute()};
    def.infer = infer;
    def.float_kernel = float_kernel;
    def.fixed_kernel = fixed_kernel;
    def.macs = [](const NodeView& node, std::span<const TensorType* const> results) {
      return results[0]->count() * node.type(1).shape[1];
    };
    def.weight_channel_axis = 0;
    def.lowering = {"FullyConnected", {{"keep_dims", "keep_dims", ParamKind::kBool, {}, true}}};
    return def;
  }();
  return op;
}

}  // namespace htpipe::ops
