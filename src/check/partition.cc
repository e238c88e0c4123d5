#include "check/partition.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace htpipe::check {
namespace {

/// Changes of engine on the longest way to a node, and its engine.
using Stage = std::pair<int, bool>;

void add_once(std::vector<std::string>& names, const std::string& name) {
  if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
}

Cut cut_of(const Value& value, const Graph& assumed) {
  const Value* twin = assumed.find_value(value.name);
  const TensorType& stored = twin != nullptr ? twin->type : value.type;
  Cut cut;
  cut.value = value.name;
  cut.type = to_string(stored);
  cut.shape = value.type.shape;
  cut.chip_bytes = stored.size_bytes();
  cut.other_bytes = value.type.size_bytes();
  return cut;
}

class Partitioner {
 public:
  Partitioner(const Graph& graph, const Graph& assumed, const std::function<bool(const Node&)>& on_chip)
      : graph_(graph), assumed_(assumed), on_chip_(on_chip) {}

  Partition run() {
    number_parts();
    for (const auto& node : graph_.nodes()) add(*node);
    for (const Value* output : graph_.outputs()) {
      if (output->producer != nullptr) add_once(part(*output->producer).outputs, output->name);
    }
    return std::move(out_);
  }

 private:
  void number_parts() {
    std::map<Stage, int> numbers;
    for (const auto& node : graph_.nodes()) {
      const bool here = on_chip_(*node);
      int changes = 0;
      for (const Value* operand : node->operands) {
        if (operand == nullptr || operand->producer == nullptr) continue;
        const Stage& from = stages_.at(operand->producer);
        changes = std::max(changes, from.first + (from.second != here ? 1 : 0));
      }
      stages_[node.get()] = {changes, here};
      numbers[{changes, here}] = 0;
    }
    for (auto& [stage, number] : numbers) {
      number = static_cast<int>(out_.parts.size());
      out_.parts.emplace_back().on_chip = stage.second;
    }
    for (const auto& [node, stage] : stages_) out_.part_of[node->name()] = numbers.at(stage);
  }

  Part& part(const Node& node) { return out_.parts[static_cast<std::size_t>(out_.part_of.at(node.name()))]; }

  void add(const Node& node) {
    Part& own = part(node);
    own.nodes.push_back(node.name());
    for (const Value* operand : node.operands) {
      if (operand == nullptr || operand->is_constant()) continue;
      const Node* producer = operand->producer;
      if (producer != nullptr && &part(*producer) == &own) continue;
      add_once(own.inputs, operand->name);
      if (producer != nullptr) cross(*operand, *producer, node);
    }
  }

  void cross(const Value& value, const Node& from, const Node& to) {
    Part& source = part(from);
    Part& target = part(to);
    const auto [at, fresh] = cut_at_.emplace(&value, out_.cuts.size());
    if (fresh) {
      out_.cuts.push_back(cut_of(value, assumed_));
      out_.cuts.back().from = out_.part_of.at(from.name());
      add_once(source.outputs, value.name);
    }
    Cut& cut = out_.cuts[at->second];
    const int number = out_.part_of.at(to.name());
    if (std::find(cut.to.begin(), cut.to.end(), number) != cut.to.end()) return;
    cut.to.push_back(number);
    if (source.on_chip == target.on_chip) {
      // Two parts of one engine, with another engine between them: the value waits in memory.
      cut.moved_bytes += 2 * (source.on_chip ? cut.chip_bytes : cut.other_bytes);
      return;
    }
    cut.moved_bytes += cut.chip_bytes + cut.other_bytes;
    if (cut.chip_bytes != cut.other_bytes) cut.converted_elements += static_cast<std::uint64_t>(value.type.count());
  }

  const Graph& graph_;
  const Graph& assumed_;
  const std::function<bool(const Node&)>& on_chip_;
  Partition out_;
  std::unordered_map<const Node*, Stage> stages_;
  std::unordered_map<const Value*, std::size_t> cut_at_;
};

}  // namespace

Partition partition(const Graph& optimised, const Graph& assumed, const std::function<bool(const Node&)>& on_chip) {
  return Partitioner(optimised, assumed, on_chip).run();
}

}  // namespace htpipe::check
