"""Writes docs/fidelity.md: how close our integers are to Qualcomm's emulator, per operator and for whole networks.

Usage: report.py [--build FOLDER] [--networks NAME,NAME...] [--no-operators]. ./dev fidelity builds what it needs and
calls it. Nothing in the page depends on the machine or on time. What is left out stays as it stands in the record
build/fidelity/results.json, from which the page is written.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))
from fidelity.networks import CHIPS, NETWORKS, PRECISIONS, ROOT, MissingError, Network, measure

PAGE = ROOT / "docs/fidelity.md"
LAYERS = ROOT / "docs/fidelity_layers.csv"
FLOAT_ENGINES = ("float", "half")
Row = dict[str, Any]

HEAD = """# Fidelity

<!-- Written by ./dev fidelity. Do not edit. -->

How close our integer and FP16 engines are to the answers of Qualcomm's x86 emulator. Chips: v68 = SM8350, v73 = SM7550,
v75 = SM8650. "Equal" counts elements with the very same stored integer, "max" is the largest difference in steps of the
stored type (FP16: units in the last place). What the arithmetic is: [htp-arithmetic.md](htp-arithmetic.md).
"""


def share(equal: int, compared: int) -> str:
    """Per cent that never rounds up to all."""
    if compared == 0:
        return "-"
    if equal == compared:
        return "all"
    return f"{min(100 * equal / compared, 99.9999):.4f} %"


# --- operators ------------------------------------------------------------------------------------------------------


def run_conformance(build: Path) -> list[Row]:
    """One row per file of tests/conformance and engine, in order."""
    answer = build / "fidelity/conformance.json"
    answer.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        [build / "bin/htpipe_tests", "--gtest_filter=*Conformance.EnginesAgree*", f"--gtest_output=json:{answer}",
         "--gtest_brief=1"],
        cwd=ROOT, check=False,
    )  # fmt: skip
    rows = []
    for suite in json.loads(answer.read_text())["testsuites"]:
        for test in suite["testsuite"]:
            if test["result"] == "SKIPPED":
                raise MissingError(f"{test['name']} was skipped: Qualcomm's libraries are needed")
            stem, engine = split_engine(test["name"].split("/")[-1])
            if engine in FLOAT_ENGINES:
                continue
            row: Row = {"file": stem, "engine": engine, "failed": "failures" in test}
            for key in ("cases", "ignored", "compared", "equal", "max_steps", "bound_steps"):
                row[key] = int(test.get(key, 0))
            row["bound_equal"] = float(test.get("bound_equal", 1))
            rows.append(row)
    return sorted(rows, key=lambda row: (row["file"], row["engine"]))


def split_engine(name: str) -> tuple[str, str]:
    """ "conv2d_int8_v68" -> conv2d, int8_v68."""
    for engine in FLOAT_ENGINES:
        if name.endswith(f"_{engine}"):
            return name.removesuffix(f"_{engine}"), engine
    stem, precision, chip = name.rsplit("_", 2)
    return stem, f"{precision}_{chip}"


def operator_tables(rows: list[Row]) -> list[str]:
    """Table A."""
    cases = sum(row["cases"] for row in rows)
    compared = sum(row["compared"] for row in rows)
    equal = sum(row["equal"] for row in rows)
    lines = [
        "## Operators", "",
        f"{cases} cases of [tests/conformance](../tests/conformance) on the emulator, {compared:,} elements compared, "
        f"{compared - equal:,} of them not equal. Each case is a small graph with its own shape, ranges and weights. "
        "The bound is the loosest of the file's cases: steps, and the least share of equal elements.", "",
    ]  # fmt: skip
    titles = {
        "int8": "8-bit activations, 8- and 4-bit weights",
        "int16": "16-bit activations, 8- and 4-bit weights",
        "stored": "Encodings given by the case (signed types, conversions, other weights)",
        "fp16": "FP16",
    }
    for precision, title in titles.items():
        own = [row for row in rows if row["engine"].startswith(precision + "_")]
        if not own:
            continue
        chips = [chip for chip in CHIPS if any(row["engine"].endswith(chip) for row in own)]
        lines += [f"### {title}", ""]
        lines.append(
            "| cases of | number | " + " | ".join(f"{c}: compared | equal | max" for c in chips) + " | bound |"
        )
        lines.append("|---|--:|" + "--:|--:|--:|" * len(chips) + "---|")
        for stem in dict.fromkeys(row["file"] for row in own):
            of_file = {row["engine"].rsplit("_", 1)[1]: row for row in own if row["file"] == stem}
            cells = []
            for chip in chips:
                row = of_file.get(chip)
                if row is None:
                    cells += ["", "", ""]
                    continue
                cells += [f"{row['compared']:,}", share(row["equal"], row["compared"]), str(row["max_steps"])]
            steps = max(row["bound_steps"] for row in of_file.values())
            least = min(row["bound_equal"] for row in of_file.values())
            bound = "equal" if steps == 0 else f"{steps} steps, {100 * least:g} %"
            lines.append(
                f"| {stem} | {max(row['cases'] for row in of_file.values())} | {' | '.join(cells)} | {bound} |"
            )
        lines.append("")
    return lines


# --- networks -------------------------------------------------------------------------------------------------------


def run_networks(build: Path, names: list[str], record: Row) -> None:
    """Adds the answers of networks to the record, every chip and precision."""
    program = build / "bin/network_fidelity"
    for one in NETWORKS:
        if names and one.name not in names:
            continue
        for precision in PRECISIONS:
            for chip in CHIPS:
                answer = measure(one, chip, precision, build / "fidelity", program)
                answer.pop("seconds", None)
                record[f"{one.name}/{precision}/{chip}"] = answer
                print(f"{one.name} {precision} {chip}: {verdict(answer)}", file=sys.stderr, flush=True)


def verdict(answer: Row) -> str:
    """One line for people who wait."""
    if "error" in answer:
        return str(answer["error"])
    if answer["no_rule"]:
        return f"{len(answer['no_rule'])} operators without an integer rule"
    return ", ".join(
        f"{row['equal']} of {row['compared']} equal, at most {row['max_steps']}" for row in answer["outputs"]
    )


def totals(answer: Row, which: str) -> tuple[int, int, int]:
    """Equal, compared and largest difference over all values."""
    rows = [row[which] for row in answer["layers"] if row[which]]
    return (
        sum(r["equal"] for r in rows),
        sum(r["compared"] for r in rows),
        max((r["max_steps"] for r in rows), default=0),
    )


def network_row(one: Network, precision: str, chip: str, answer: Row) -> str:
    """One line of table B."""
    start = f"| {one.title} | {PRECISIONS[precision]} | {chip} |"
    if "error" in answer:
        return f"{start} {answer['error']} | | | | | | | |"
    local = totals(answer, "local")
    inside = f"{share(local[0], local[1])} | {local[2]}"
    if answer["no_rule"]:
        kinds = sorted({line.split(" ", 1)[0] for line in answer["no_rule"]})
        return f"{start} no integer rule: {', '.join(kinds)} | | | | | {inside} | |"
    out = answer["outputs"][0]
    chained = totals(answer, "chained")
    return (f"{start} {share(out['equal'], out['compared'])} | {out['max_steps']} | {out['cosine']:.6f} | "
            f"{out['top1_same']} of {out['top1']} | {out['cosine_to_float']:.4f} | {inside} | "
            f"{share(chained[0], chained[1])} |")  # fmt: skip


def differing(record: Row) -> list[str]:
    """The operators of each network that differ on the emulator's own operands."""
    lines = []
    for one in NETWORKS:
        for precision in PRECISIONS:
            rows: list[str] = []
            for chip in CHIPS:
                answer = record.get(f"{one.name}/{precision}/{chip}", {})
                by_op: dict[str, list[Row]] = {}
                for layer in answer.get("layers", []):
                    if layer["local"]:
                        by_op.setdefault(layer["op"], []).append(layer["local"])
                for op, values in sorted(by_op.items()):
                    equal, compared = sum(v["equal"] for v in values), sum(v["compared"] for v in values)
                    if equal != compared:
                        most = max(v["max_steps"] for v in values)
                        rows.append(
                            f"| {chip} | {op} | {len(values)} | {compared:,} | {share(equal, compared)} | {most} |"
                        )
            if rows:
                lines += [f"<details><summary>{one.title}, {PRECISIONS[precision]}</summary>", "",
                          "| chip | operator | values | compared | equal | max |", "|---|---|--:|--:|--:|--:|", *rows,
                          "", "</details>"]  # fmt: skip
    return lines


def network_tables(record: Row) -> list[str]:
    """Table B."""
    lines = [
        "## Networks", "",
        "Quantised from a few samples (minmax), run on the emulator as the normal graph and again with every value "
        "exposed. The first columns are about the output of the normal graph, ours from the inputs on: equal elements, "
        "largest difference, cosine between both, and how often both have the same largest element. Then the cosine of "
        "the emulator's output to float32, which is about the quantisation and not about us. \"Alone\": each operator "
        "on what the emulator had there. \"All values\": every value of the network, ours from the inputs on.",
        "",
        "| network | precision | chip | output equal | max | cosine | top-1 | to float | alone | max | all values |",
        "|---|---|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]  # fmt: skip
    for one in NETWORKS:
        for precision in PRECISIONS:
            for chip in CHIPS:
                answer = record.get(f"{one.name}/{precision}/{chip}")
                if answer:
                    lines.append(network_row(one, precision, chip, answer))
    lines += ["", "| network | weights | samples: calibrate, compare | values |", "|---|---|---|--:|"]
    for one in NETWORKS:
        nodes = record.get(f"{one.name}/int8/v75", {}).get("nodes", "-")
        lines.append(f"| {one.title} | {one.weights} | {one.calibrate}, {one.evaluate} | {nodes} |")
    lines += ["", "Every value of every network: [fidelity_layers.csv](fidelity_layers.csv). Operators that differ on "
              "the emulator's own operands, if any:", "", *differing(record)]  # fmt: skip
    return lines


def write_layers(record: Row) -> None:
    """The CSV: one line per value and precision, all chips beside each other."""
    with LAYERS.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        columns = ["alone_equal", "alone_max", "chained_equal", "chained_max", "cosine_to_float"]
        writer.writerow(["network", "precision", "operator", "value", "type", "compared"]
                        + [f"{chip}_{name}" for chip in CHIPS for name in columns])  # fmt: skip
        for one in NETWORKS:
            for precision in PRECISIONS:
                answers = [record.get(f"{one.name}/{precision}/{chip}", {}).get("layers", []) for chip in CHIPS]
                for of_chips in zip(*answers, strict=False):
                    first = of_chips[0]
                    compared = (first["local"] or {}).get("compared", "")
                    row = [one.name, precision, first["op"], first["value"], first["type"], compared]
                    for layer in of_chips:
                        for which in ("local", "chained"):
                            part = layer[which] or {}
                            row += [part.get("equal", ""), part.get("max_steps", "")]
                        row.append("" if layer["cosine"] is None else f"{layer['cosine']:.5f}")
                    writer.writerow(row)


def main() -> None:
    """Runs what is asked for and writes the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=Path, default=Path(os.environ.get("HTPIPE_BUILD", ROOT / "build")))
    parser.add_argument("--networks", default="", help="only these, with commas between; the others stay")
    parser.add_argument("--no-operators", action="store_true", help="leave the operators as they stand in the record")
    options = parser.parse_args()
    results = options.build / "fidelity/results.json"
    record: Row = json.loads(results.read_text()) if results.is_file() else {}
    if not options.no_operators:
        record["operators"] = run_conformance(options.build)
    run_networks(options.build, [name for name in options.networks.split(",") if name], record)
    results.write_text(json.dumps(record))
    lines = [HEAD, *operator_tables(record.get("operators", [])), *network_tables(record)]
    PAGE.write_text("\n".join(lines).rstrip() + "\n")
    write_layers(record)
    rows = record.get("operators", [])
    print(f"{sum(row['cases'] for row in rows)} cases of operators on the emulator; wrote {PAGE.relative_to(ROOT)}")
    if any(row["failed"] for row in rows):
        sys.exit("some cases fail: " + ", ".join(f"{row['file']} on {row['engine']}" for row in rows if row["failed"]))


if __name__ == "__main__":
    main()
