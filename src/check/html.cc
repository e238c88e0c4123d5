#include "check/html.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <string_view>

namespace htpipe::check {
namespace {

constexpr std::string_view kHead = R"(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>htpipe check</title>
<style>
:root { color-scheme: light dark; --line: #8884; --bad: #c62828; --good: #2e7d32; --soft: #8882; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem; }
h2 { margin-top: 2.5rem; border-bottom: 1px solid var(--line); }
table { border-collapse: collapse; width: 100%; font-size: 13px; }
th, td { text-align: left; vertical-align: top; padding: .25rem .6rem; border-bottom: 1px solid var(--line); }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
code { font: 12px ui-monospace, monospace; overflow-wrap: anywhere; }
.verdict { font-weight: 600; padding: .1rem .6rem; border-radius: .3rem; color: #fff; }
.yes { background: var(--good); } .no { background: var(--bad); }
.native { color: var(--good); } .fallback, .impossible, .error { color: var(--bad); font-weight: 600; }
.scroll { max-height: 34rem; overflow: auto; border: 1px solid var(--line); }
.scroll th { position: sticky; top: 0; background: Canvas; }
</style>
</head>
<body>
)";

std::string escaped(std::string_view text) {
  std::string html;
  for (const char letter : text) {
    switch (letter) {
      case '&':
        html += "&amp;";
        break;
      case '<':
        html += "&lt;";
        break;
      case '>':
        html += "&gt;";
        break;
      case '"':
        html += "&quot;";
        break;
      default:
        html += letter;
    }
  }
  return html;
}

std::string code(std::string_view text) { return fmt::format("<code>{}</code>", escaped(text)); }

class Page {
 public:
  std::string run(const std::vector<CheckReport>& reports) {
    html_ = kHead;
    html_ += fmt::format("<h1>{}</h1>\n", reports.empty() ? "" : escaped(reports.front().model));
    for (const CheckReport& report : reports) section(report);
    return std::move(html_) + "</body>\n</html>\n";
  }

 private:
  void section(const CheckReport& report) {
    html_ += fmt::format("<h2>{} in {} <span class=\"verdict {}\">{}</span></h2>\n", escaped(report.target),
                         name_of(report.precision), report.feasible ? "yes" : "no",
                         report.feasible ? "feasible" : "not feasible");
    html_ += fmt::format("<p>{} nodes: {} native, {} rewritten, {} fallback, {} impossible. {}</p>\n",
                         report.nodes.size(), report.count(Fate::kNative), report.count(Fate::kRewritten),
                         report.count(Fate::kFallback), report.count(Fate::kImpossible),
                         report.vendor.empty() ? std::string("The vendor's validator was not asked.")
                                               : fmt::format("Vendor's validator: {}.", escaped(report.vendor)));
    for (const std::string& warning : report.warnings) html_ += fmt::format("<p>{}</p>\n", escaped(warning));
    parts(report);
    if (report.memory) memory(*report.memory);
    advice(report);
    nodes(report);
  }

  void parts(const CheckReport& report) {
    if (report.parts.size() < 2) return;
    html_ +=
        "<h3>Parts</h3>\n<table><tr><th class=\"n\">part</th><th>engine</th><th class=\"n\">nodes</th>"
        "<th>takes</th><th>gives</th></tr>\n";
    for (std::size_t i = 0; i < report.parts.size(); ++i) {
      const Part& part = report.parts[i];
      html_ += fmt::format("<tr><td class=\"n\">{}</td><td>{}</td><td class=\"n\">{}</td><td>{}</td><td>{}</td></tr>\n",
                           i, part.on_chip ? "HTP" : "CPU", part.nodes.size(),
                           code(fmt::format("{}", fmt::join(part.inputs, ", "))),
                           code(fmt::format("{}", fmt::join(part.outputs, ", "))));
    }
    html_ +=
        "</table>\n<h3>Cuts</h3>\n<table><tr><th>value</th><th>type</th><th class=\"n\">from</th>"
        "<th class=\"n\">to</th><th class=\"n\">bytes moved</th><th class=\"n\">elements converted</th></tr>\n";
    for (const Cut& cut : report.cuts) {
      html_ += fmt::format(
          "<tr><td>{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>"
          "<td class=\"n\">{}</td><td class=\"n\">{}</td></tr>\n",
          code(cut.value), code(cut.type), cut.from, fmt::join(cut.to, ", "), cut.moved_bytes, cut.converted_elements);
    }
    html_ += "</table>\n";
  }

  void memory(const MemoryReport& memory) {
    html_ += fmt::format(
        "<h3>Memory, in bytes</h3>\n<table><tr><td>weights</td><td class=\"n\">{}</td></tr><tr><td>context, about</td>"
        "<td class=\"n\">{}</td></tr><tr><td>activations, at most (at {})</td><td class=\"n\">{}</td></tr>"
        "<tr><td>VTCM</td><td class=\"n\">{}</td></tr><tr><td>spill to DDR, about</td><td class=\"n\">{}</td></tr>"
        "</table>\n",
        memory.weight_bytes, memory.context_bytes, code(memory.peak.node), memory.peak_activation_bytes,
        memory.vtcm_bytes, memory.spill_bytes);
    if (!memory.pressure.empty()) {
      html_ += "<h4>Layers above VTCM</h4>\n<div class=\"scroll\"><table><tr><th>node</th><th>layer</th>";
      html_ +=
          "<th>reads</th><th>writes</th><th>weights</th><th>of VTCM</th><th>in pieces by</th><th>least "
          "piece</th></tr>\n";
      for (const Pressure& one : memory.pressure) {
        html_ += fmt::format(
            "<tr><td>{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>"
            "<td class=\"n\">{:.1f}</td><td>{}</td><td class=\"n\">{}</td></tr>\n",
            code(one.place.node), code(one.place.layer), one.read, one.written, one.weights, one.share,
            name_of(one.tiling), one.least);
      }
      html_ += "</table></div>\n";
    }
    if (!memory.growth.empty()) {
      html_ += "<h4>Layers that grow</h4>\n<table><tr><th>node</th><th>layer</th><th></th><th>by</th></tr>\n";
      for (const Growth& one : memory.growth) {
        html_ += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td class=\"n\">{:.1f}</td></tr>\n",
                             code(one.place.node), code(one.place.layer), one.what, one.factor);
      }
      html_ += "</table>\n";
    }
    if (memory.pieces.empty()) return;
    html_ += "<h4>Contexts</h4>\n<table><tr><th>first</th><th>last</th><th>bytes</th><th>hands on</th></tr>\n";
    for (const Piece& piece : memory.pieces) {
      html_ +=
          fmt::format("<tr><td>{}</td><td>{}</td><td class=\"n\">{}</td><td>{}</td></tr>\n", code(piece.first.node),
                      code(piece.last.node), piece.context_bytes, code(fmt::format("{}", fmt::join(piece.cut, ", "))));
    }
    html_ += "</table>\n";
  }

  void advice(const CheckReport& report) {
    if (report.advice.empty()) return;
    html_ +=
        "<h3>Advice</h3>\n<table><tr><th>severity</th><th>rule</th><th>where</th><th>issue</th><th>what to do</th>"
        "<th>gain</th><th>fix</th></tr>\n";
    for (const Advice& one : report.advice) {
      html_ += fmt::format(
          "<tr><td class=\"{0}\">{0}</td><td>{1}</td><td>{2}</td><td>{3}</td><td>{4}</td><td>{5}</td>"
          "<td>{6}</td></tr>\n",
          name_of(one.severity), escaped(one.rule), code(one.node.empty() ? "graph" : one.node), escaped(one.issue),
          escaped(one.text), one.gain ? fmt::format("{:.4g} {}", one.gain->amount, escaped(one.gain->unit)) : "",
          name_of(one.fix));
    }
    html_ += "</table>\n";
  }

  void nodes(const CheckReport& report) {
    html_ +=
        "<h3>Nodes</h3>\n<div class=\"scroll\"><table><tr><th>node</th><th>operator</th><th>layer</th><th></th>"
        "<th>why</th></tr>\n";
    for (const NodeReport& node : report.nodes) {
      html_ += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td class=\"{}\">{}</td><td>{}</td></tr>\n",
                           code(node.node), escaped(node.op), code(node.layer), name_of(node.fate), name_of(node.fate),
                           escaped(node.reason));
    }
    html_ += "</table></div>\n";
  }

  std::string html_;
};

}  // namespace

std::string to_html(const std::vector<CheckReport>& reports) { return Page().run(reports); }

}  // namespace htpipe::check
