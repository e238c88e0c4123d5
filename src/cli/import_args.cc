#include "cli/import_args.h"

#include <fmt/core.h>

#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include "tensor/npy.h"

namespace htpipe::cli {
namespace {

template <typename T>
std::optional<T> number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

/// NAME and what stands behind the first "=".
Result<std::pair<std::string, std::string>> parts_of(std::string_view flag, const std::string& text,
                                                     std::string_view example) {
  const std::size_t at = text.find('=');
  if (at == std::string::npos || at == 0 || at + 1 == text.size()) {
    return fail(Error(Code::kUsage, fmt::format("{} {}: no NAME=VALUE", flag, text))
                    .with_hint(fmt::format("Write it like {} {}.", flag, example)));
  }
  return std::pair(text.substr(0, at), text.substr(at + 1));
}

template <typename Map, typename Value>
Status put(Map& map, std::string_view flag, std::string name, Value value) {
  if (!map.emplace(name, std::move(value)).second) {
    return fail(Code::kUsage, fmt::format("{} {} is given twice", flag, name));
  }
  return {};
}

Result<std::int64_t> size_of(std::string_view flag, const std::string& whole, std::string_view text) {
  const auto size = number<std::int64_t>(text);
  if (size && *size >= 0 && *size <= std::int64_t{1} << 40) return *size;
  return fail(Code::kUsage, fmt::format("{} {}: {} is no size", flag, whole, text.empty() ? "nothing" : text));
}

Result<Shape> shape_of(const std::string& whole, std::string_view text) {
  if (text.front() == '[' && text.back() == ']') text = text.substr(1, text.size() - 2);
  Shape shape;
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    HTPIPE_TRY(const std::int64_t size, size_of("--shape", whole, text.substr(0, comma)));
    shape.push_back(size);
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
    if (text.empty()) return fail(Code::kUsage, fmt::format("--shape {} ends in a comma", whole));
  }
  return shape;
}

Result<Tensor> value_of(const std::string& whole, const std::string& text) {
  if (text.size() > 4 && text.substr(text.size() - 4) == ".npy") return read_npy(std::filesystem::path(text));
  if (text == "true" || text == "false") return filled({DType::kBool, {}, std::nullopt}, text == "true" ? 1 : 0);
  if (const auto integer = number<std::int64_t>(text)) {
    Tensor tensor({DType::kI64, {}, std::nullopt});
    tensor.mutable_data<std::int64_t>()[0] = *integer;
    return tensor;
  }
  if (const auto real = number<double>(text); real && std::isfinite(*real)) {
    return filled({DType::kF32, {}, std::nullopt}, *real);
  }
  return fail(Code::kUsage,
              fmt::format("--fix {}: {} is neither a number, true or false, nor a .npy file", whole, text));
}

}  // namespace

Result<ImportOptions> import_options(const Arguments& arguments) {
  ImportOptions options;
  for (const std::string& text : arguments.dims) {
    HTPIPE_TRY(auto parts, parts_of("--dim", text, "batch=1"));
    HTPIPE_TRY(const std::int64_t size, size_of("--dim", text, parts.second));
    HTPIPE_CHECK_OK(put(options.dims, "--dim", std::move(parts.first), size));
  }
  for (const std::string& text : arguments.shapes) {
    HTPIPE_TRY(auto parts, parts_of("--shape", text, "image=1,3,224,224"));
    HTPIPE_TRY(Shape shape, shape_of(text, parts.second));
    HTPIPE_CHECK_OK(put(options.shapes, "--shape", std::move(parts.first), std::move(shape)));
  }
  for (const std::string& text : arguments.fixed) {
    HTPIPE_TRY(auto parts, parts_of("--fix", text, "rate=16000"));
    HTPIPE_TRY(Tensor value, value_of(text, parts.second));
    HTPIPE_CHECK_OK(put(options.fix, "--fix", std::move(parts.first), std::move(value)));
  }
  return options;
}

}  // namespace htpipe::cli
