#include "check/csv.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <map>
#include <string_view>
#include <vector>

namespace htpipe::check {
namespace {

constexpr const char* kNone = "N/A";

std::string csv_cell(std::string_view cell) {
  if (cell.find_first_of("\",\r\n") == std::string_view::npos) return std::string(cell);
  std::string text = "\"";
  for (const char letter : cell) {
    if (letter == '"') text += '"';
    text += letter;
  }
  return text + "\"";
}

void add_line(std::string& csv, const std::vector<std::string>& cells) {
  for (std::size_t i = 0; i < cells.size(); ++i) csv += (i == 0 ? "" : ",") + csv_cell(cells[i]);
  csv += "\r\n";
}

std::string or_none(const std::string& text) { return text.empty() ? kNone : text; }

/// "input:[1,3,224,224], weight:[32,3,3,3]"
std::string tensors(const std::vector<Operand>& operands) {
  std::string text;
  for (const Operand& operand : operands) {
    text += fmt::format("{}{}:{}", text.empty() ? "" : ", ", operand.name, to_string(operand.shape));
  }
  return or_none(text);
}

class Writer {
 public:
  explicit Writer(const CheckReport& report) : report_(report) {
    add_line(csv_, {"", "Graph / Layer name", "Issue", "Recommendation", "Type", "Input_tensor_name:[dims]",
                    "Output_tensor_name:[dims]", "Parameters", "Previous layer", "Next layers", "Modification",
                    "Modification_info"});
    for (const NodeReport& node : report.nodes) nodes_.emplace(node.node, &node);
  }

  std::string run() {
    for (const NodeReport& node : report_.nodes) {
      if (node.fate != Fate::kFallback && node.fate != Fate::kImpossible) continue;
      add(node.node, &node, fmt::format("{}: {}", name_of(node.fate), node.reason),
          node.fate == Fate::kFallback ? "Choose another precision or target, or change the model." : kNone, kNone,
          kNone);
    }
    for (const Advice& advice : report_.advice) {
      const auto at = nodes_.find(advice.node);
      add(advice.node.empty() ? report_.model : advice.node, at == nodes_.end() ? nullptr : at->second, advice.issue,
          advice.text, advice.fix == Fix::kApplied ? "Done" : kNone, advice.fix_info);
    }
    return std::move(csv_);
  }

 private:
  void add(const std::string& name, const NodeReport* node, const std::string& issue, const std::string& recommendation,
           const std::string& modification, const std::string& info) {
    std::vector<std::string> cells = {std::to_string(++rows_), or_none(name), or_none(issue), or_none(recommendation)};
    if (node == nullptr) {
      cells.insert(cells.end(), 6, kNone);
    } else {
      cells.insert(cells.end(),
                   {or_none(node->op), tensors(node->inputs), tensors(node->outputs), or_none(node->parameters),
                    or_none(node->previous), or_none(fmt::format("{}", fmt::join(node->next, ", ")))});
    }
    cells.insert(cells.end(), {modification, or_none(info)});
    add_line(csv_, cells);
  }

  const CheckReport& report_;
  std::string csv_;
  std::map<std::string_view, const NodeReport*> nodes_;
  int rows_ = 0;
};

}  // namespace

std::string to_csv(const CheckReport& report) { return Writer(report).run(); }

}  // namespace htpipe::check
