// Convolutions on stored integers, as they run, against sums taken one by one and requantised one by one.
#include "ops/fixed_product.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "kernels/fixed/column_weights.h"
#include "kernels/fixed/elementwise.h"
#include "ops/depth_wise_form.h"
#include "ops/evaluate.h"
#include "ops/registry.h"

namespace htpipe::ops {
namespace {

struct Case {
  std::string op = "Conv2d";
  std::int64_t n = 1, in_h = 1, in_w = 1, channels = 1, outputs = 1, group = 1;
  std::int64_t kernel_h = 1, kernel_w = 1, stride = 1, dilation = 1, pad_before = 0, pad_after = 0;
  DType dtype = DType::kU8;
  int version = 73;

  [[nodiscard]] std::int64_t out_size(std::int64_t in, std::int64_t kernel) const {
    return (in + pad_before + pad_after - (kernel - 1) * dilation - 1) / stride + 1;
  }
  [[nodiscard]] std::string text() const {
    return op + " " + std::to_string(n) + "x" + std::to_string(in_h) + "x" + std::to_string(in_w) + "x" +
           std::to_string(channels) + " to " + std::to_string(outputs) + ", groups " + std::to_string(group) +
           ", kernel " + std::to_string(kernel_h) + "x" + std::to_string(kernel_w) + ", stride " +
           std::to_string(stride) + ", dilation " + std::to_string(dilation) + ", pads " + std::to_string(pad_before) +
           "," + std::to_string(pad_after) + ", " + std::string(name_of(dtype)) + " v" + std::to_string(version);
  }
};

Case any_case(std::mt19937& random, bool depthwise) {
  const auto pick = [&random](std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random() % static_cast<unsigned>(high - low + 1));
  };
  Case c;
  c.n = random() % 4 == 0 ? 2 : 1;
  c.kernel_h = pick(1, 4);
  c.kernel_w = pick(1, 4);
  if (random() % 3 == 0) c.kernel_h = c.kernel_w = 1;
  c.stride = pick(1, 3);
  c.dilation = pick(1, 2);
  c.pad_before = pick(0, 2);
  c.pad_after = pick(0, 2);
  c.in_h = pick(8, 20);
  c.in_w = pick(8, 20);
  c.dtype = std::array{DType::kU8, DType::kI8, DType::kU16, DType::kI16}[random() % 4];
  c.version = std::array{68, 73, 75}[random() % 3];
  if (depthwise) {
    c.op = "DepthWiseConv2d";
    c.channels = c.outputs = pick(1, 80);
    c.group = c.channels;
    return c;
  }
  c.group = random() % 3 == 0 ? pick(2, 3) : 1;
  c.channels = c.group * (random() % 2 == 0 ? 4 * pick(1, 10) : pick(1, 13));
  c.outputs = c.group * pick(1, 100);
  return c;
}

Tensor stored(std::mt19937& random, TensorType type) {
  Tensor tensor(std::move(type));
  for (std::byte& byte : tensor.mutable_data<std::byte>()) byte = static_cast<std::byte>(random());
  return tensor;
}

struct Nodes {
  Graph graph{"one"};
  Node* node = nullptr;
  Tensor input, weight, bias;
};

void make(Nodes& nodes, const Case& c, std::mt19937& random) {
  const bool wide = size_of(c.dtype) == 2;
  const bool is_signed = c.dtype == DType::kI8 || c.dtype == DType::kI16;
  const int half = wide ? 32768 : 128;
  const auto zero = [&] {
    return static_cast<int>(random() % static_cast<unsigned>(2 * half)) - (is_signed ? half : 0);
  };
  const bool depthwise = c.op != "Conv2d";
  const std::int64_t inner = depthwise ? 1 : c.channels / c.group;
  const float in_scale = 0.02F / (wide ? 256 : 1);
  const auto terms = static_cast<double>(inner * c.kernel_h * c.kernel_w);
  const auto out_scale = static_cast<float>(static_cast<double>(in_scale) * 0.01 * 60 * std::sqrt(terms));
  std::vector<float> scales(static_cast<std::size_t>(c.outputs));
  for (float& scale : scales) scale = 0.01F * std::exp2(-static_cast<float>(random() % 200) / 50);
  const int bits = wide ? 16 : 8;
  nodes.input =
      stored(random, {c.dtype, {c.n, c.in_h, c.in_w, c.channels}, Encoding::per_tensor(in_scale, zero(), bits)});
  TensorType weight{DType::kI8, {c.kernel_h, c.kernel_w, inner, c.outputs}, Encoding::per_tensor(1, 0, 8)};
  weight.encoding->axis = 3;
  weight.encoding->scales = scales;
  weight.encoding->zero_points.assign(scales.size(), 0);
  nodes.weight = stored(random, weight);
  TensorType bias{DType::kI32, {c.outputs}, Encoding::per_tensor(in_scale * 0.01F, 0, 32)};
  nodes.bias = Tensor(bias);
  for (std::int32_t& b : nodes.bias.mutable_data<std::int32_t>())
    b = static_cast<std::int32_t>(random() % 20001) - 10000;
  Attributes attributes;
  attributes.set("data_layout", std::string("nhwc"));
  attributes.set("stride", std::vector<std::int64_t>{c.stride, c.stride});
  attributes.set("dilation", std::vector<std::int64_t>{c.dilation, c.dilation});
  attributes.set("pad_amount", std::vector<std::int64_t>{c.pad_before, c.pad_after, c.pad_before, c.pad_after});
  if (!depthwise) attributes.set("group", c.group);
  const auto node =
      nodes.graph.add_node(c.op, "y", attributes,
                           {nodes.graph.add_input("x", nodes.input.type()), nodes.graph.add_constant("w", nodes.weight),
                            nodes.graph.add_constant("b", nodes.bias)});
  ASSERT_TRUE(node) << node.error().message;
  nodes.node = *node;
  nodes.node->results[0]->type.encoding = Encoding::per_tensor(out_scale, zero(), bits);
}

/// What the kernel should give, element by element.
std::vector<std::int64_t> plain(const Nodes& nodes, const Case& c, kernels::ConvForm form) {
  const TensorType& out = nodes.node->results[0]->type;
  const auto columns = kernels::column_weights(nodes.weight.type(), nodes.weight.bytes().data(), {c.outputs, 1});
  const auto& w = columns->values;
  std::vector<std::int64_t> sums(static_cast<std::size_t>(c.outputs), 0);
  for (std::size_t i = 0; i < w.size(); ++i) sums[i % sums.size()] += w[i];
  const auto bias = nodes.bias.data<std::int32_t>();
  const auto requant = kernels::ConvRequant::make(
      {nodes.input.type(), columns->scales, out, bias, sums, 1.0F, c.outputs, form, c.version});
  const auto grid = kernels::Grid::of(nodes.input.type());
  const std::int64_t centre = requant->uncentred() ? 0 : grid->zero;
  const std::int64_t inner = c.channels / c.group;
  const std::int64_t part = c.outputs / c.group;
  const std::int64_t out_h = c.out_size(c.in_h, c.kernel_h);
  const std::int64_t out_w = c.out_size(c.in_w, c.kernel_w);
  std::vector<std::int64_t> result;
  for (std::int64_t i = 0; i < c.n * out_h * out_w * c.outputs; ++i) {
    const std::int64_t channel = i % c.outputs;
    const std::int64_t column = i / c.outputs % out_w;
    const std::int64_t row = i / c.outputs / out_w % out_h;
    const std::int64_t image = i / c.outputs / out_w / out_h;
    std::int64_t sum = 0;
    for (std::int64_t tap = 0; tap < c.kernel_h * c.kernel_w; ++tap) {
      const std::int64_t y = row * c.stride - c.pad_before + tap / c.kernel_w * c.dilation;
      const std::int64_t x = column * c.stride - c.pad_before + tap % c.kernel_w * c.dilation;
      const bool inside = y >= 0 && y < c.in_h && x >= 0 && x < c.in_w;
      for (std::int64_t k = 0; k < inner; ++k) {
        const std::int64_t at = ((image * c.in_h + y) * c.in_w + x) * c.channels + channel / part * inner + k;
        const std::int64_t value = inside ? kernels::load(nodes.input.bytes().data(), c.dtype, at) : grid->zero;
        sum += (value - centre) * w[static_cast<std::size_t>((tap * inner + k) * c.outputs + channel)];
      }
    }
    result.push_back(requant->apply(sum, static_cast<std::size_t>(channel)));
  }
  return result;
}

kernels::ConvForm form_of(const Nodes& nodes, const Case& c) {
  if (c.op == "Conv2d") {
    return c.dilation > 1 && c.stride > 1 ? kernels::ConvForm::kExact : kernels::ConvForm::kStandard;
  }
  kernels::Window window;
  window.in_h = c.in_h;
  window.in_w = c.in_w;
  window.channels = c.channels;
  window.kernel_h = c.kernel_h;
  window.kernel_w = c.kernel_w;
  window.stride_h = window.stride_w = c.stride;
  window.dilation_h = window.dilation_w = c.dilation;
  window.pad_top = window.pad_left = c.pad_before;
  window.out_h = c.out_size(c.in_h, c.kernel_h);
  window.out_w = c.out_size(c.in_w, c.kernel_w);
  window.n = c.n;
  const auto form = depth_wise_form(window, 1, nodes.input.type(), nodes.weight.type(), c.version);
  return form ? *form : kernels::ConvForm::kStandard;
}

/// False when the chip has no such layer.
bool check(const Case& c, std::mt19937& random) {
  SCOPED_TRACE(c.text());
  Nodes nodes;
  make(nodes, c, random);
  if (nodes.node == nullptr) return false;
  const auto kernel = make_kernel(*nodes.node, c.version);
  if (!kernel) {
    EXPECT_NE(c.op, "Conv2d") << kernel.error().message;
    return false;
  }
  const std::vector<std::int64_t> want = plain(nodes, c, form_of(nodes, c));
  for (const int lanes : {1, 2}) {
    Tensor out(nodes.node->results[0]->type);
    const std::array<const void*, 3> operands = {nodes.input.bytes().data(), nodes.weight.bytes().data(),
                                                 nodes.bias.bytes().data()};
    std::array<void*, 1> results = {out.mutable_data<std::byte>().data()};
    const CallMemory memory(*kernel, lanes);
    kernel->run({operands, results, memory.scratch(), memory.lanes()});
    const std::int64_t moved = c.dtype == DType::kI8 ? 128 : c.dtype == DType::kI16 ? 32768 : 0;
    for (std::size_t i = 0; i < want.size(); ++i) {
      const std::int64_t got = kernels::load(out.bytes().data(), c.dtype, static_cast<std::int64_t>(i));
      EXPECT_EQ(got - moved, want[i]) << "element " << i << " of " << want.size() << ", " << lanes << " lanes";
      if (got - moved != want[i]) return true;
    }
  }
  return true;
}

TEST(FixedProduct, ConvolutionsAreTheirPlainSums) {
  register_all_ops();
  std::mt19937 random(11);
  for (int i = 0; i < 120; ++i) check(any_case(random, false), random);
  // More pixels than an item has, panels of all widths, a long sum.
  for (const std::int64_t outputs : {16, 17, 33, 48, 64, 65, 144, 200}) {
    Case c;
    c.in_h = c.in_w = 18;
    c.channels = 32;
    c.outputs = outputs;
    c.kernel_h = c.kernel_w = 3;
    c.pad_before = c.pad_after = 1;
    check(c, random);
    c.dtype = DType::kU16;
    check(c, random);
  }
  Case c;
  c.in_h = c.in_w = 2;
  c.channels = 4096;
  c.outputs = 70;
  check(c, random);
}

TEST(FixedProduct, DepthwiseConvolutionsAreTheirPlainSums) {
  register_all_ops();
  std::mt19937 random(12);
  int checked = 0;
  for (int i = 0; i < 200; ++i) checked += check(any_case(random, true), random) ? 1 : 0;
  EXPECT_GT(checked, 50);
}

}  // namespace
}  // namespace htpipe::ops
