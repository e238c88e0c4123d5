// Import of a 7-billion-parameter FP16 ONNX model with external data: anonymous memory, and speed against reading the
// file. Usage: import_weights_bench [FOLDER] [BLOCKS]; needs 14 GB in FOLDER (default: the current folder) for the 34 blocks.
#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "bench/bench_tools.h"
#include "import/onnx/import.h"
#include "import/onnx/model.h"
#include "ops/registry.h"

namespace htpipe {
namespace {

constexpr std::int64_t kWidth = 4096;
constexpr std::int64_t kHidden = 11008;
constexpr std::int64_t kWords = 32000;

/// Anonymous memory of this process, now and at most, in megabytes; file pages are not in it.
double anonymous_mb() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("RssAnon:", 0) == 0) return std::stod(line.substr(8)) / 1024;
  }
  return 0;
}

class Writer {
 public:
  explicit Writer(const std::filesystem::path& folder) : folder_(folder), data_(folder / "large.onnx.data") {
    model_.set_ir_version(8);
    model_.add_opset_import()->set_version(17);
    model_.mutable_graph()->set_name("large");
    noise_.resize(std::size_t{1} << 20);
    std::uint64_t state = 1;
    for (std::uint16_t& word : noise_) {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      word = static_cast<std::uint16_t>((state >> 48) & 0x8FFFU);  // small halves of either sign
    }
  }

  std::string weight(const std::string& name, std::int64_t rows, std::int64_t columns) {
    onnx::TensorProto& tensor = *model_.mutable_graph()->add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(onnx::TensorProto::FLOAT16);
    tensor.add_dims(rows);
    tensor.add_dims(columns);
    tensor.set_data_location(onnx::TensorProto::EXTERNAL);
    const std::int64_t bytes = rows * columns * 2;
    for (const auto& [key, value] : {std::pair<std::string, std::string>{"location", "large.onnx.data"},
                                     {"offset", std::to_string(offset_)},
                                     {"length", std::to_string(bytes)}}) {
      auto& entry = *tensor.add_external_data();
      entry.set_key(key);
      entry.set_value(value);
    }
    for (std::int64_t left = bytes; left > 0;) {
      const std::int64_t part = std::min<std::int64_t>(left, static_cast<std::int64_t>(noise_.size()) * 2);
      data_.write(reinterpret_cast<const char*>(noise_.data()), part);
      left -= part;
    }
    offset_ += bytes;
    parameters_ += rows * columns;
    return name;
  }

  void node(const std::string& type, const std::vector<std::string>& inputs, const std::string& output) {
    onnx::NodeProto& node = *model_.mutable_graph()->add_node();
    node.set_op_type(type);
    for (const std::string& input : inputs) node.add_input(input);
    node.add_output(output);
  }

  void interface(onnx::ValueInfoProto& info, const std::string& name, std::int64_t width) {
    info.set_name(name);
    auto& type = *info.mutable_type()->mutable_tensor_type();
    type.set_elem_type(onnx::TensorProto::FLOAT16);
    for (const std::int64_t size : {std::int64_t{1}, std::int64_t{32}, width}) {
      type.mutable_shape()->add_dim()->set_dim_value(size);
    }
  }

  /// The decoder of a Llama without its attention's elementwise parts: all of its matrices are there.
  void write(int blocks) {
    interface(*model_.mutable_graph()->add_input(), "x", kWidth);
    std::string last = "x";
    for (int block = 0; block < blocks; ++block) {
      const std::string b = fmt::format("layer{}.", block);
      for (const char* name : {"q", "k", "v", "o"}) {
        node("MatMul", {last, weight(b + name + "_proj", kWidth, kWidth)}, b + name);
        last = b + name;
      }
      node("MatMul", {last, weight(b + "gate_proj", kWidth, kHidden)}, b + "gate");
      node("MatMul", {last, weight(b + "up_proj", kWidth, kHidden)}, b + "up");
      node("Mul", {b + "gate", b + "up"}, b + "product");
      node("MatMul", {b + "product", weight(b + "down_proj", kHidden, kWidth)}, b + "down");
      node("Add", {b + "down", last}, b + "out");
      last = b + "out";
    }
    node("MatMul", {last, weight("lm_head", kWidth, kWords)}, "logits");
    interface(*model_.mutable_graph()->add_output(), "logits", kWords);
    std::ofstream stream(folder_ / "large.onnx", std::ios::binary);
    model_.SerializeToOstream(&stream);
    data_.close();
  }

  [[nodiscard]] std::int64_t parameters() const { return parameters_; }

 private:
  std::filesystem::path folder_;
  std::ofstream data_;
  onnx::ModelProto model_;
  std::vector<std::uint16_t> noise_;
  std::int64_t offset_ = 0;
  std::int64_t parameters_ = 0;
};

/// Plain reads of the whole file. Dropping its pages first is asked of the kernel; it need not obey.
double read_seconds(const std::filesystem::path& file) {
  const int descriptor = ::open(file.c_str(), O_RDONLY);
  std::vector<char> block(std::size_t{8} << 20);
  ::posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
  const double seconds = bench::seconds_of([&] {
    while (::read(descriptor, block.data(), block.size()) > 0) {
    }
  });
  ::posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
  ::close(descriptor);
  return seconds;
}

Status run(const std::filesystem::path& folder, int blocks) {
  register_all_ops();
  const auto model = folder / "large.onnx";
  const auto data = folder / "large.onnx.data";
  Writer writer(folder);
  writer.write(blocks);
  const double gigabytes = static_cast<double>(std::filesystem::file_size(data)) / 1e9;
  fmt::print("{:.2f} billion parameters, {:.1f} GB\n", static_cast<double>(writer.parameters()) / 1e9, gigabytes);
  const double reading = read_seconds(data);
  fmt::print("reading the file: {:.2f} s, {:.2f} GB/s\n", reading, gigabytes / reading);
  const double before = anonymous_mb();
  Result<Imported> imported = fail(Code::kBug, "not run");
  const double importing = bench::seconds_of([&] { imported = import_onnx(model); });
  if (!imported) return fail(std::move(imported.error()));
  fmt::print("import: {:.3f} s, anonymous memory {:.1f} MB (before {:.1f})\n", importing, anonymous_mb(), before);
  std::string text;
  const double digesting = bench::seconds_of([&] { text = digest(imported->graph); });
  fmt::print("digest of every weight: {:.2f} s, {:.2f} of the speed of reading; anonymous memory {:.1f} MB\n",
             digesting, reading / digesting, anonymous_mb());
  fmt::print("import and digest against reading: {:.2f}\n", reading / (importing + digesting));
  std::filesystem::remove(model);
  std::filesystem::remove(data);
  return {};
}

}  // namespace
}  // namespace htpipe

int main(int argc, char** argv) {
  const std::filesystem::path folder = argc > 1 ? argv[1] : ".";
  const int blocks = argc > 2 ? std::stoi(argv[2]) : 34;
  if (const auto status = htpipe::run(folder, blocks); !status) {
    fmt::print(stderr, "{}\n", status.error().summary());
    return 1;
  }
}
