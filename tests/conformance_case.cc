#include "conformance_case.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "base/io.h"
#include "exec/program.h"
#include "ir/text.h"

namespace htpipe::conformance {
namespace {

constexpr std::string_view kFolder = HTPIPE_SOURCE_DIR "/tests/conformance";

struct Section {
  std::string name;
  int line = 0;
  std::map<std::string, std::string> header;
  std::string graph;
};

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

/// "a=b" split at the first '='.
std::pair<std::string, std::string> assignment(const std::string& word) {
  const std::size_t at = word.find('=');
  if (at == std::string::npos) return {word, ""};
  return {word.substr(0, at), word.substr(at + 1)};
}

Result<std::vector<Section>> split(const std::string& text) {
  constexpr std::string_view kCase = "# case: ";
  constexpr std::string_view kBound = "# bound: ";
  constexpr std::string_view kEngines = "# engines: ";
  std::vector<Section> sections;
  std::string bounds;   // of all cases
  std::string engines;  // of cases that name none
  std::istringstream stream(text);
  int number = 0;
  for (std::string line; std::getline(stream, line);) {
    ++number;
    if (line.rfind(kCase, 0) == 0) {
      if (!sections.empty()) sections.back().header.try_emplace("engines", engines);
      sections.push_back({line.substr(kCase.size()), number, {{"bound", bounds}}, {}});
      continue;
    }
    if (sections.empty()) {
      if (line.rfind(kBound, 0) == 0) bounds += " " + line.substr(kBound.size());
      if (line.rfind(kEngines, 0) == 0) engines += " " + line.substr(kEngines.size());
      continue;
    }
    Section& section = sections.back();
    const std::size_t colon = line.find(": ");
    if (section.graph.empty() && line.rfind("# ", 0) == 0 && colon != std::string::npos) {
      std::string& value = section.header[line.substr(2, colon - 2)];
      value += " " + line.substr(colon + 2);
    } else if (!line.empty()) {
      section.graph += line + "\n";
    }
  }
  if (sections.empty()) return fail(Code::kDataFormat, "no line \"# case: NAME\"");
  sections.back().header.try_emplace("engines", engines);
  return sections;
}

Result<quant::Range> range_of(const std::string& text) {
  const std::size_t dots = text.find("..");
  if (dots == std::string::npos) return fail(Code::kDataFormat, fmt::format("\"{}\" is no range", text));
  return quant::Range{std::stof(text.substr(0, dots)), std::stof(text.substr(dots + 2))};
}

Status read_header(const Section& section, Case& result, int& repeats, double& spread) {
  for (const auto& [key, value] : section.header) {
    const std::vector<std::string> words = words_of(value);
    if (key == "range") {
      for (const std::string& word : words) {
        const auto [name, text] = assignment(word);
        HTPIPE_TRY(result.ranges[name], range_of(text));
      }
    } else if (key == "engines") {
      result.engines = words;
    } else if (key == "bound") {
      std::string engine;
      for (const std::string& word : words) {
        const auto [name, text] = assignment(word);
        if (name == "steps") {
          result.bounds[engine].steps = std::stoll(text);
        } else if (name == "equal") {
          result.bounds[engine].equal = std::stod(text);
        } else {
          engine = name;
        }
      }
    } else if (key == "repeats") {
      repeats = std::stoi(value);
    } else if (key == "spread") {
      spread = std::stod(value);
    } else if (key == "weight_bits") {
      result.weight_bits = std::stoi(value);
    } else if (key == "weights" && words == std::vector<std::string>{"per_tensor"}) {
      result.weight_scale = quant::WeightScale::kTensor;
    } else if (key == "weights" && words == std::vector<std::string>{"asymmetric"}) {
      result.weight_scale = quant::WeightScale::kAsymmetric;
    } else if (key == "block") {
      result.weight_block = std::stoll(value);
    } else if (key == "activations" && words == std::vector<std::string>{"signed"}) {
      result.signed_activations = true;
    } else if (key == "precision") {
      for (const std::string& word : words) {
        const auto [name, text] = assignment(word);
        const auto precision = parse_precision(text);
        if (!precision) return fail(Code::kDataFormat, fmt::format("no precision \"{}\"", text));
        result.precisions[name] = *precision;
      }
    } else {
      return fail(Code::kDataFormat, fmt::format("unknown line \"# {}: …\"", key));
    }
  }
  return {};
}

/// Gives every channel of every weight, and every bias, another size.
void vary_weights(Graph& graph, double spread, Random& random) {
  for (const auto& node : graph.nodes()) {
    for (std::size_t i = 0; i < node->operands.size(); ++i) {
      Value* value = node->operands[i];
      const auto& specs = node->op->operands;
      const Role role = specs[std::min(i, specs.size() - 1)].role;
      if (value == nullptr || !value->is_constant() || role == Role::kData || value->type.dtype != DType::kF32)
        continue;
      const int axis = role == Role::kWeight ? node->op->weight_channel_axis : 0;
      std::size_t inner = 1;
      for (std::size_t a = static_cast<std::size_t>(axis) + 1; axis >= 0 && a < value->type.shape.size(); ++a) {
        inner *= static_cast<std::size_t>(value->type.shape[a]);
      }
      const std::size_t channels =
          axis < 0 ? 1 : static_cast<std::size_t>(value->type.shape[static_cast<std::size_t>(axis)]);
      std::vector<double> factors(channels);
      for (double& factor : factors) factor = std::pow(spread, -random.uniform(0, 1));
      Tensor scaled(value->type);
      const auto from = value->constant.data<float>();
      const auto to = scaled.mutable_data<float>();
      for (std::size_t at = 0; at < from.size(); ++at) {
        to[at] = static_cast<float>(static_cast<double>(from[at]) * factors[at / inner % channels]);
      }
      value->constant = scaled;
    }
  }
}

Encoding vary(const Encoding& encoding, const TensorType& type, Random& random) {
  Encoding result = encoding;
  result.scales[0] = static_cast<float>(static_cast<double>(encoding.scales[0]) * std::exp2(random.uniform(-1, 1)));
  const double low = static_cast<double>(lowest(type.dtype));
  const double high = static_cast<double>(highest(type.dtype));
  result.zero_points[0] = static_cast<std::int32_t>(random.uniform(low, high));
  return result;
}

void vary_encodings(Graph& graph, Random& random) {
  for (const auto& value : graph.values()) {
    if (!value->is_constant() && value->type.encoding)
      value->type.encoding = vary(*value->type.encoding, value->type, random);
  }
  for (const auto& node : graph.nodes()) {
    if (node->op->result_encoding == ResultEncoding::kSameAsInput) {
      node->result()->type.encoding = node->operands[0]->type.encoding;
    }
  }
}

std::uint32_t seed_of(const std::string& name, int repeat) {
  std::uint32_t hash = 2166136261U;  // FNV-1a
  for (const char c : name) hash = (hash ^ static_cast<std::uint8_t>(c)) * 16777619U;
  return hash + static_cast<std::uint32_t>(repeat) * 2654435761U;
}

Result<Case> make_case(const Section& section, const std::string& name, int repeat, int& repeats) {
  HTPIPE_TRY(Graph graph, parse_graph(section.graph));
  Case result{name,  repeat, std::move(graph),     false, {}, {}, {}, 8, quant::WeightScale::kChannel, 0,
              false, {},     seed_of(name, repeat)};
  double spread = 4;
  HTPIPE_CHECK_OK(read_header(section, result, repeats, spread));
  Random random(result.seed);
  for (const Value* input : result.graph.inputs()) {
    result.stored = result.stored || input->type.encoding.has_value();
    quant::Range& range = result.ranges.try_emplace(input->name, quant::Range{-1, 1}).first->second;
    if (repeat == 0) continue;
    range.low *= static_cast<float>(random.uniform(0.2, 1));
    range.high *= static_cast<float>(random.uniform(0.2, 1));
  }
  for (const auto& node : result.graph.nodes()) result.stored = result.stored || node->is("Quantize");
  if (!result.stored) vary_weights(result.graph, spread, random);
  if (result.stored && repeat > 0) vary_encodings(result.graph, random);
  return result;
}

}  // namespace

bool Case::runs_on(const std::string& engine) const {
  if (engines.empty()) return true;
  return std::any_of(engines.begin(), engines.end(),
                     [&](const std::string& prefix) { return engine.rfind(prefix, 0) == 0; });
}

Bound Case::bound(const std::string& engine) const {
  Bound best;
  std::size_t length = 0;
  for (const auto& [prefix, bound] : bounds) {
    if (engine.rfind(prefix, 0) != 0 || prefix.size() < length) continue;
    best = bound;
    length = prefix.size();
  }
  return best;
}

std::vector<std::filesystem::path> files() {
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    if (entry.path().extension() == ".htir") found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

Result<std::vector<Case>> read(const std::filesystem::path& path) {
  HTPIPE_TRY(const std::string text, read_text(path));
  auto sections = split(text);
  if (!sections) return fail(std::move(sections.error()).in_file(path));
  std::vector<Case> cases;
  for (const Section& section : *sections) {
    int repeats = 3;
    for (int repeat = 0; repeat < repeats; ++repeat) {
      auto made = make_case(section, path.stem().string() + "/" + section.name, repeat, repeats);
      if (!made) return fail(std::move(made.error()).in_file(path, section.line));
      cases.push_back(std::move(*made));
    }
  }
  return cases;
}

std::vector<Tensor> inputs_of(const Graph& graph, const quant::Ranges& ranges, std::uint32_t seed) {
  Random random(seed);
  std::vector<Tensor> inputs;
  for (const Value* input : graph.inputs()) {
    Tensor tensor(input->type);
    const quant::Range range = ranges.at(input->name);
    const auto real = [&] {
      return round_f16(
          static_cast<float>(random.uniform(static_cast<double>(range.low), static_cast<double>(range.high))));
    };
    switch (input->type.dtype) {
      case DType::kF32:
        for (float& x : tensor.mutable_data<float>()) x = real();
        break;
      case DType::kF16:
        for (std::uint16_t& x : tensor.mutable_data<std::uint16_t>()) x = to_f16(real());
        break;
      case DType::kBool:
        for (std::byte& x : tensor.mutable_data<std::byte>()) x = static_cast<std::byte>(random.bits() >> 31U);
        break;
      default:
        for (std::byte& x : tensor.mutable_data<std::byte>()) x = static_cast<std::byte>(random.bits() >> 24U);
        break;
    }
    inputs.push_back(std::move(tensor));
  }
  return inputs;
}

Result<quant::Ranges> all_ranges(const Case& test) {
  quant::Ranges seen;
  for (std::uint32_t i = 0; i < 3; ++i) {
    const std::vector<Tensor> inputs = inputs_of(test.graph, test.ranges, test.seed + 101 + i);
    HTPIPE_CHECK_OK(run_once(test.graph, inputs, 0, [&](const Value& value, const Tensor& tensor) {
      quant::Range& range = seen[value.name];
      for (const float x : tensor.data<float>()) {
        range.low = std::min(range.low, x);
        range.high = std::max(range.high, x);
      }
    }));
  }
  Random random(test.seed + 7);
  for (auto& [name, range] : seen) {
    range.low *= static_cast<float>(random.uniform(0.7, 1.2));
    range.high *= static_cast<float>(random.uniform(0.7, 1.2));
  }
  for (const auto& [name, range] : test.ranges) seen[name] = range;
  return seen;
}

Result<std::map<std::string, std::string>> ignored(const std::string& engine) {
  std::map<std::string, std::string> lines;
  const std::filesystem::path path = std::filesystem::path(kFolder) / ("ignore_" + engine + ".txt");
  if (!std::filesystem::exists(path)) return lines;
  HTPIPE_TRY(const std::string text, read_text(path));
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    if (line.empty() || line.front() == '#') continue;
    const std::size_t space = line.find(' ');
    if (space == std::string::npos)
      return fail(Error(Code::kDataFormat, "a case is ignored without a reason").in_file(path));
    lines[line.substr(0, space)] = line.substr(space + 1);
  }
  return lines;
}

}  // namespace htpipe::conformance
