#include "cli/check_text.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <map>
#include <set>
#include <string>
#include <tuple>

#include "cli/table.h"

namespace htpipe::cli {
namespace {

using check::CheckReport;
using check::Fate;
using check::NodeReport;

std::string verdict_line(const CheckReport& report) {
  std::string line =
      fmt::format("{} in {}: {}; {} nodes: {} native, {} rewritten, {} fallback", report.target,
                  name_of(report.precision), report.feasible ? "feasible" : "NOT FEASIBLE", report.nodes.size(),
                  report.count(Fate::kNative), report.count(Fate::kRewritten), report.count(Fate::kFallback));
  if (const auto impossible = report.count(Fate::kImpossible)) line += fmt::format(", {} impossible", impossible);
  return line + (report.vendor.empty() ? " (our rules only)\n" : " (our rules, vendor's validator)\n");
}

std::string all_nodes(const CheckReport& report) {
  Table table({"node", "operator", "layer", "", "why"});
  for (const NodeReport& node : report.nodes) {
    table.add({node.node, node.op, node.layer, std::string(name_of(node.fate)), node.reason});
  }
  return table.empty() ? std::string() : table.text("  ");
}

/// What the chip does not execute, worst first: one line per operator and reason.
std::string groups(const CheckReport& report) {
  struct Group {
    std::int64_t count = 0;
    const NodeReport* first = nullptr;
  };
  std::map<std::tuple<int, std::string, std::string>, Group> found;
  for (const NodeReport& node : report.nodes) {
    if (node.fate != Fate::kFallback && node.fate != Fate::kImpossible) continue;
    // Names of values differ from node to node; the reason of the table and of the validator is what is common.
    Group& group = found[{-static_cast<int>(node.fate), node.op, node.reason}];
    if (group.count++ == 0) group.first = &node;
  }
  if (found.empty()) return {};
  Table table({"nodes>", "operator", "", "first", "layer", "why"});
  for (const auto& [key, group] : found) {
    const NodeReport& node = *group.first;
    table.add(
        {std::to_string(group.count), node.op, std::string(name_of(node.fate)), node.node, node.layer, node.reason});
  }
  return table.text("  ");
}

std::string parts(const CheckReport& report) {
  if (report.parts.size() < 2) return {};
  Table table({"part>", "engine", "nodes>", "takes", "gives"});
  for (std::size_t i = 0; i < report.parts.size(); ++i) {
    const check::Part& part = report.parts[i];
    table.add({std::to_string(i), part.on_chip ? "HTP" : "CPU", std::to_string(part.nodes.size()),
               fmt::format("{}", fmt::join(part.inputs, ", ")), fmt::format("{}", fmt::join(part.outputs, ", "))});
  }
  Table cuts({"cut", "type", "from>", "to>", "moved>", "converted elements>"});
  std::uint64_t moved = 0;
  for (const check::Cut& cut : report.cuts) {
    moved += cut.moved_bytes;
    cuts.add({cut.value, cut.type, std::to_string(cut.from), fmt::format("{}", fmt::join(cut.to, ", ")),
              human_bytes(cut.moved_bytes), grouped(static_cast<long long>(cut.converted_elements))});
  }
  return fmt::format("Parts:\n{}Cuts, {} moved in each run:\n{}", table.text("  "), human_bytes(moved),
                     cuts.text("  "));
}

std::string where(const check::Place& place) {
  std::string text = place.node;
  if (!place.layer.empty()) text += fmt::format(" (layer {})", place.layer);
  return place.line.empty() ? text : fmt::format("{} {}", text, place.line);
}

constexpr std::size_t kMostRows = 5;

std::string more(std::size_t count) {
  return count > kMostRows ? fmt::format("  and {} more (--json has all)\n", count - kMostRows) : std::string();
}

std::string pressure(const check::MemoryReport& memory) {
  if (memory.pressure.empty()) return {};
  Table table({"above VTCM", "layer", "reads>", "writes>", "weights>", "of VTCM>", "least piece>"});
  for (std::size_t i = 0; i < memory.pressure.size() && i < kMostRows; ++i) {
    const check::Pressure& one = memory.pressure[i];
    table.add({one.place.node, one.place.layer, human_bytes(one.read), human_bytes(one.written),
               human_bytes(one.weights), fmt::format("{:.1f} x", one.share),
               human_bytes(one.least) + (one.least > memory.vtcm_bytes ? ", does not fit" : "")});
  }
  return table.text("  ") + more(memory.pressure.size());
}

std::string growth(const check::MemoryReport& memory) {
  if (memory.growth.empty()) return {};
  Table table({"grows", "layer", "", "by>", "to>"});
  for (std::size_t i = 0; i < memory.growth.size() && i < kMostRows; ++i) {
    const check::Growth& one = memory.growth[i];
    table.add(
        {one.place.node, one.place.layer, one.what, fmt::format("{:.1f} x", one.factor), human_bytes(one.written)});
  }
  return table.text("  ") + more(memory.growth.size());
}

std::string pieces(const check::MemoryReport& memory) {
  if (memory.pieces.empty()) return {};
  std::string text =
      fmt::format("One context holds {}; {} are needed:\n", human_bytes(check::kLargestContext), memory.pieces.size());
  Table table({"context>", "first", "last", "size>", "hands on", "bytes>"});
  for (std::size_t i = 0; i < memory.pieces.size(); ++i) {
    const check::Piece& piece = memory.pieces[i];
    table.add({std::to_string(i), piece.first.node, piece.last.node, human_bytes(piece.context_bytes),
               fmt::format("{}", fmt::join(piece.cut, ", ")), human_bytes(piece.cut_bytes)});
  }
  return text + table.text("  ");
}

std::string memory(const CheckReport& report) {
  if (!report.memory) return {};
  const check::MemoryReport& memory = *report.memory;
  std::string types;
  for (const auto& [type, bytes] : memory.weight_bytes_of) {
    types += fmt::format("{}{} {}", types.empty() ? "" : ", ", type, human_bytes(bytes));
  }
  std::string text = fmt::format("Memory: weights {} ({}), context about {}\n", human_bytes(memory.weight_bytes), types,
                                 human_bytes(memory.context_bytes));
  text +=
      fmt::format("  activations at most {} at {}\n", human_bytes(memory.peak_activation_bytes), where(memory.peak));
  text += fmt::format("  VTCM {}, spill to DDR about {}\n", human_bytes(memory.vtcm_bytes),
                      human_bytes(memory.spill_bytes));
  return text + pressure(memory) + growth(memory) + pieces(memory);
}

/// One line per rule: its first place stands for the others.
std::string advice(const CheckReport& report) {
  if (report.advice.empty()) return {};
  std::map<std::string, std::int64_t> count;
  std::map<std::string, double> gain;
  for (const check::Advice& one : report.advice) {
    ++count[one.rule];
    if (one.gain) gain[one.rule] += one.gain->amount;
  }
  Table table({"advice", "", "places>", "first", "issue", "gain", "fix"});
  std::set<std::string> shown;
  for (const check::Advice& one : report.advice) {
    if (!shown.insert(one.rule).second) continue;
    table.add({one.rule, std::string(name_of(one.severity)), std::to_string(count[one.rule]),
               one.node.empty() ? "graph" : one.node, one.issue,
               one.gain ? fmt::format("{:.3g} {}", gain[one.rule], one.gain->unit) : std::string(),
               one.fix == check::Fix::kNone ? std::string() : "--apply"});
  }
  return table.text("  ") + "What each means: docs/rules.md, --json, --html.\n";
}

}  // namespace

std::string check_text(const CheckReport& report, bool all) {
  std::string text = verdict_line(report);
  for (const std::string& warning : report.warnings) text += fmt::format("Warning: {}\n", warning);
  text += all ? all_nodes(report) : groups(report);
  return text + parts(report) + memory(report) + advice(report);
}

}  // namespace htpipe::cli
