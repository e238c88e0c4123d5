#!/usr/bin/env python3
"""Operators and Transposes left by our passes, onnxsim, onnxslim and ONNX Runtime, on the same twenty ONNX files.

    PYTHONPATH=build/python .venv/bin/python bench/optimiser_effect.py [--models vit,bert] [--keep FOLDER] [--write]

--write puts the tables into docs/optimiser.md (of all models only). --keep keeps MODEL.onnx and MODEL_TOOL.onnx.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parent.parent
BUILD = Path(os.environ.get("HTPIPE_BUILD", ROOT / "build"))
sys.path[:0] = [str(Path(__file__).parent), str(BUILD / "python")]

import effect_models  # noqa: E402
import numpy as np  # noqa: E402
import onnx  # noqa: E402
import onnxruntime as ort  # noqa: E402
from docs_page import write_section  # noqa: E402

OTHERS = ("onnxsim", "onnxslim", "ort")
PAGE = ROOT / "docs" / "optimiser.md"
BEGIN, END = "<!-- effect: bench/optimiser_effect.py --write -->", "<!-- end of effect -->"
ALLOWED = 0.05  # above the best


def nodes_of(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """All nodes, those of subgraphs too."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in ([attribute.g] if attribute.HasField("g") else []) + list(attribute.graphs):
                yield from nodes_of(inner)


def count(path: Path) -> Counter[str]:
    """Operators of an ONNX file, Constants aside."""
    model = onnx.load(path, load_external_data=False)
    return Counter(node.op_type for node in nodes_of(model.graph) if node.op_type != "Constant")


def session(path: Path, level: ort.GraphOptimizationLevel, save: Path | None = None) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = level
    if save is not None:
        options.optimized_model_filepath = str(save)
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def by_onnxsim(source: Path, target: Path) -> None:
    import onnxsim

    model, checked = onnxsim.simplify(onnx.load(source))
    if not checked:
        raise RuntimeError("onnxsim's own check failed")
    onnx.save(model, target)


def by_onnxslim(source: Path, target: Path) -> None:
    import onnxslim

    onnx.save(onnxslim.slim(onnx.load(source)), target)


def by_ort(source: Path, target: Path) -> None:
    session(source, ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED, target)


def optimize(source: Path, *arguments: str) -> dict:
    """The result of htpipe optimize."""
    command = [str(BUILD / "bin" / "htpipe"), "optimize", str(source), "--json", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return json.loads(done.stdout)["result"]


def made_up(path: Path) -> dict[str, np.ndarray]:
    """Inputs: reals from [-1, 1), integers and bools 0 or 1."""
    random = np.random.default_rng(3)
    arrays = {}
    for one in session(path, ort.GraphOptimizationLevel.ORT_DISABLE_ALL).get_inputs():
        kind = effect_models.NUMPY[one.type]
        values = random.uniform(-1, 1, one.shape)
        arrays[one.name] = (values if kind is np.float32 else values >= 0).astype(kind)
    return arrays


def difference(source: Path, ours: Path) -> float:
    """Of the outputs in ONNX Runtime, relative to the largest value of each where that is above 1."""
    inputs = made_up(source)
    level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    wanted, found = session(source, level).run(None, inputs), session(ours, level).run(None, inputs)
    worst = 0.0
    for a, b in zip(wanted, found, strict=True):
        if a.size:
            worst = max(worst, float(np.abs(a.astype(float) - b.astype(float)).max() / max(1.0, np.abs(a).max())))
    return worst


@dataclass
class Row:
    """What is left of one model, per tool. `own`: operators of our graph that is exported, where an activation can be
    part of another operator as in ONNX Runtime's; `chip`: of our graph for the chip."""

    model: effect_models.Model
    counts: dict[str, Counter[str]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    own: Counter[str] = field(default_factory=Counter)
    chip: Counter[str] = field(default_factory=Counter)
    apart: float = 0.0

    def total(self, tool: str) -> int | None:
        return self.counts[tool].total() if tool in self.counts else None

    def best_other(self) -> str:
        return min((tool for tool in OTHERS if tool in self.counts), key=lambda tool: self.counts[tool].total())

    def excess(self, counts: Counter[str]) -> float:
        """Above the lowest of the others; negative: below it."""
        return counts.total() / max(1, self.counts[self.best_other()].total()) - 1

    def why(self) -> str:
        """Operators of which we have more than the best of the others, and those that stand there instead."""
        ours, theirs = self.counts["ours"], self.counts[self.best_other()]
        more = [f"{op} +{n}" for op, n in (ours - theirs).most_common()]
        instead = [f"{op} {n}" for op, n in (theirs - ours).most_common()]
        return ", ".join(more) + (f"; there instead: {', '.join(instead)}" if instead else "")


def measure(key: str, folder: Path) -> Row:
    model = effect_models.MODELS[key]
    source = folder / f"{key}.onnx"
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        if not source.exists():
            model.write(source)
        row = Row(model)
        row.counts["source"] = count(source)
        for tool, work in (("onnxsim", by_onnxsim), ("onnxslim", by_onnxslim), ("ort", by_ort)):
            target = folder / f"{key}_{tool}.onnx"
            try:
                work(source, target)
                row.counts[tool] = count(target)
            except Exception as reason:
                row.failures[tool] = f"{type(reason).__name__}: {str(reason).splitlines()[0][:120]}"
    ours = folder / f"{key}_ours.onnx"
    row.own = Counter(optimize(source, "-o", str(ours), "--opset", str(effect_models.OPSET))["operators"])
    row.counts["ours"] = count(ours)
    row.chip = Counter(optimize(source)["operators"])
    row.apart = difference(source, ours)
    return row


def cell(counts: Counter[str] | None) -> str:
    return "failed" if counts is None else f"{counts.total()} ({counts['Transpose']})"


def verdict(rows: list[Row], what: str, counts: list[Counter[str]]) -> str:
    excess = [row.excess(count) for row, count in zip(rows, counts, strict=True)]
    far = [f"{row.model.name} {over:+.0%}" for row, over in zip(rows, excess, strict=True) if over > ALLOWED]
    return (
        f"{what}: lowest or equal on {sum(over <= 0 for over in excess)} of {len(rows)}; more than {ALLOWED:.0%} above "
        f"the lowest of the others on {len(far)}{': ' + ', '.join(far) if far else ''}."
    )


def tables(rows: list[Row]) -> str:
    others = "as it came | onnxsim | onnxslim | ONNX Runtime"
    ours = "ours, as ONNX | to the lowest | ours, own operators | to the lowest | ours, for the chip"
    lines = [
        f"onnxsim {version('onnxsim')}, onnxslim {version('onnxslim')}, ONNX Runtime {ort.__version__}.",
        "",
        f"| model | {others} | {ours} | difference |",
        "|---|" + "--:|" * 10,
    ]
    for row in rows:
        name = row.model.name + (" (CNN)" if row.model.cnn else "")
        cells = [name, *(cell(row.counts.get(tool)) for tool in ("source", *OTHERS, "ours"))]
        cells += [f"{row.excess(row.counts['ours']):+.0%}", cell(row.own), f"{row.excess(row.own):+.0%}"]
        lines.append(f"| {' | '.join([*cells, cell(row.chip), f'{row.apart:.0e}'])} |")
    layouts = [row.model.name for row in rows if row.model.cnn and row.counts["ours"]["Transpose"]]
    lines += [
        "",
        verdict(rows, "As ONNX", [row.counts["ours"] for row in rows]),
        verdict(rows, "Own operators", [row.own for row in rows]),
        f"CNNs with a Transpose in the export: {', '.join(layouts) if layouts else 'none'}.",
    ]
    behind = [row for row in rows if row.excess(row.counts["ours"]) > 0]
    if behind:
        lines += ["", "Where another one is lower, by what it is:", ""]
        lines += ["| model | lowest | what our ONNX file has more of |", "|---|---|---|"]
        names = {"ort": "ONNX Runtime"}
        for row in behind:
            lines.append(f"| {row.model.name} | {names.get(row.best_other(), row.best_other())} | {row.why()} |")
    for row in rows:
        for tool, reason in row.failures.items():
            lines += ["", f"{tool} fails on {row.model.name}: {reason}"]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--models", default=",".join(effect_models.MODELS))
    parser.add_argument("--keep", type=Path, help="folder for the files")
    parser.add_argument("--write", action="store_true", help=f"put the tables into {PAGE.name}")
    arguments = parser.parse_args()
    names = [name for name in arguments.models.split(",") if name]
    if arguments.write and set(names) != set(effect_models.MODELS):
        parser.error("--write needs all models")
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        rows = []
        for name in names:
            rows.append(measure(name, folder))
            print(
                f"{name}: {cell(rows[-1].counts['ours'])}, {rows[-1].excess(rows[-1].counts['ours']):+.1%}",
                file=sys.stderr,
                flush=True,
            )
    text = tables(rows)
    print(text)
    if arguments.write:
        write_section(PAGE, BEGIN, END, f"\n\n{text}\n")


if __name__ == "__main__":
    main()
