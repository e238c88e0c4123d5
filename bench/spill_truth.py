#!/usr/bin/env python3
"""What `htpipe check` estimates (context size, spill to DDR) against what the vendor's compiler plans.

    PYTHONPATH=build/python .venv/bin/python bench/spill_truth.py [--models vit,ppocr_rec] [--write]

Compiles each model for three chips, each with its own VTCM, and reads the context binaries. --write puts the table into
docs/feasibility.md (of all models only).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parent.parent
BUILD = Path(os.environ.get("HTPIPE_BUILD", ROOT / "build"))
sys.path[:0] = [str(Path(__file__).parent), str(BUILD / "python")]

import effect_models  # noqa: E402
import networks  # noqa: E402
import torch  # noqa: E402
from docs_page import write_section  # noqa: E402

TARGETS = ("snapdragon-8-gen-3", "snapdragon-888", "snapdragon-7-gen-3")
PAGE = ROOT / "docs" / "feasibility.md"
BEGIN, END = "<!-- bench/spill_truth.py --write -->", "<!-- end of spill -->"
MB = 1 << 20


@dataclass
class Model:
    name: str
    write: Callable[[Path], Path]
    precision: str = "int8"


def module(make: Callable[[], torch.nn.Module], size: int) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        torch.manual_seed(0)
        path = folder / "model.onnx"
        effect_models.export(make(), {"x": torch.randn(1, 3, size, size)}, path)
        return path

    return write


def file(write: Callable[[Path], None]) -> Callable[[Path], Path]:
    def run(folder: Path) -> Path:
        write(folder / "model.onnx")
        return folder / "model.onnx"

    return run


def minilm(folder: Path) -> Path:
    net = networks.NETWORKS["minilm"]
    inputs = {name: torch.from_numpy(array) for name, array in net.inputs().items()}
    torch.export.save(torch.export.export(net.module(), (), inputs), folder / "model.pt2")
    return folder / "model.pt2"


def text_detection(size: int) -> Callable[[Path], Path]:
    name = "models/ch_PP-OCRv4_det_infer.onnx"
    return file(effect_models.fixed(effect_models.PADDLE, name, {"x": [1, 3, size, size]}))


def mobilenet() -> torch.nn.Module:
    return networks.randomised(networks.MobileNetV2())


def resnet() -> torch.nn.Module:
    return networks.randomised(networks.ResNet50())


MODELS = {
    "mobilenet": Model("MobileNetV2 224", module(mobilenet, 224)),
    "mobilenet16": Model("MobileNetV2 224", module(mobilenet, 224), "int16"),
    "mobilenet512": Model("MobileNetV2 512", module(mobilenet, 512)),
    "mobilenet1024": Model("MobileNetV2 1024", module(mobilenet, 1024)),
    "efficientnet": Model("EfficientNet-Lite0 224", file(effect_models.MODELS["efficientnet"].write)),
    "efficientnet16": Model("EfficientNet-Lite0 224", file(effect_models.MODELS["efficientnet"].write), "int16"),
    "resnet": Model("ResNet-50 224", module(resnet, 224)),
    "resnet16": Model("ResNet-50 224", module(resnet, 224), "int16"),
    "resnet512": Model("ResNet-50 512", module(resnet, 512)),
    "vit": Model("ViT-tiny 224", module(networks.VitTiny, 224)),
    "vit_base": Model("ViT 768 wide, 4 deep", module(lambda: networks.VitTiny(768, 4, 12), 224)),
    "minilm": Model("MiniLM-L6, 128 tokens", minilm),
    "ppocr_rec": Model("PP-OCRv4 recognition", file(effect_models.MODELS["ppocr_rec"].write)),
    "ppocr_det": Model("PP-OCRv4 detection 320", text_detection(320)),
    "ppocr_det640": Model("PP-OCRv4 detection 640", text_detection(640)),
    "ddddocr": Model("ddddocr detection 416", file(effect_models.MODELS["ddddocr_det"].write)),
}


@dataclass
class Row:
    model: Model
    found: dict

    @property
    def vtcm(self) -> float:
        return self.found["estimate"]["vtcm_bytes"] / MB

    @property
    def context(self) -> tuple[float, float]:
        return self.found["estimate"]["context_bytes"] / MB, self.found["file"] / MB

    @property
    def spill(self) -> tuple[float, float]:
        return self.found["estimate"]["spill_bytes"] / MB, self.found["spill"] / MB

    def line(self) -> str:
        peak = self.found["estimate"]["peak_activation_bytes"] / MB
        weights = self.found["estimate"]["weight_bytes"] / MB
        said, is_ = self.context
        left = (
            f"| {self.model.name} | {self.model.precision} | {self.found['target']} | {self.vtcm:.0f} | {weights:.2f} "
        )
        middle = f"| {said:.2f} | {is_:.2f} | {100 * (said / is_ - 1):+.1f} % "
        return left + middle + f"| {peak:.2f} | {self.spill[0]:.2f} | {self.spill[1]:.2f} |"


def measure(model: Model, folder: Path) -> list[Row]:
    command = [str(BUILD / "bench" / "spill_truth"), str(model.write(folder)), model.precision, *TARGETS]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{model.name}: {done.stderr.strip().splitlines()[-1]}")
    return [Row(model, json.loads(line)) for line in done.stdout.splitlines()]


def summary(rows: list[Row]) -> list[str]:
    errors = sorted(abs(said / is_ - 1) for said, is_ in (row.context for row in rows))
    agreed = sum((row.spill[0] > 0) == (row.spill[1] > 0) for row in rows)
    missed = [row for row in rows if row.spill[0] == 0 and row.spill[1] > 0]
    alarms = [row for row in rows if row.spill[0] > 0 and row.spill[1] == 0]
    both = sorted(row.spill[1] / row.spill[0] for row in rows if min(row.spill) > 0)
    lines = [
        f"{len(rows)} context binaries. **Context size**: the error is {100 * median(errors):.1f} % in the median and "
        f"{100 * errors[-1]:.1f} % at worst.",
        f"**Spill**: that there is any, or none, is right for {agreed} of {len(rows)}; {len(alarms)} false alarms, "
        f"{len(missed)} missed.",
    ]
    if missed:
        largest = max(row.spill[1] for row in missed)
        names = ", ".join(sorted({row.model.name for row in missed}))
        lines[-1] += f" Missed, at most {largest:.2f} MB: {names}."
    if both:
        lines[-1] += (
            f" Where both say that there is some, the compiler's buffer is {both[0]:.2f} to {both[-1]:.2f} times the "
            f"estimate, {median(both):.2f} in the median."
        )
    return [piece for line in lines for piece in textwrap.wrap(line, 118)]


def table(rows: list[Row]) -> list[str]:
    head = "| model | precision | target | VTCM | weights | context: estimate | compiled | error | live set at most "
    head += "| spill: estimate | compiled |"
    return [head, "|---|---|---|" + "---:|" * 8, *(row.line() for row in rows)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default="", help="some of: " + " ".join(MODELS))
    parser.add_argument("--write", action="store_true", help="the table into docs/feasibility.md")
    arguments = parser.parse_args()
    names = [name for name in arguments.models.split(",") if name] or list(MODELS)
    if arguments.write and len(names) < len(MODELS):
        parser.error("--write needs all models")
    rows = []
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            rows += measure(MODELS[name], Path(folder))
        print(f"{name} done", file=sys.stderr, flush=True)
    lines = ["", *summary(rows), "", "MB of 2^20 bytes:", "", *table(rows), ""]
    print("\n".join(lines))
    if arguments.write:
        write_section(PAGE, BEGIN, END, "\n" + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
