#!/usr/bin/env python3
"""Our float engine against ONNX Runtime: the same networks and inputs, one process, turns taken, medians.

    PYTHONPATH=build/python .venv/bin/python bench/engine_bench.py [--runs 20] [--networks vit,minilm] [--keep FOLDER]

Both use HTPIPE_THREADS threads (default 2). The first ratio is of runs that begin after a pause of 50 ms, the second
one of runs that follow another run of the same engine at once. A second table shows the cost of MobileNetV2 per pixel
from 112 to 896.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

THREADS = os.environ.setdefault("HTPIPE_THREADS", "2")
# Threads of PyTorch, which only exports here, and of BLAS must not run beside those that are measured.
os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent))

import htpipe  # noqa: E402
import networks  # noqa: E402
import numpy as np  # noqa: E402
import onnxruntime as ort  # noqa: E402
import torch  # noqa: E402

SIZES = (112, 224, 448, 896)
# ONNX Runtime's threads go on looking for work, at full load, for more than 5 ms after its run: they would take the
# core of our second thread. (Ours do so for 2 ms.) Both start from threads that sleep.
PAUSE = 0.05
# Runs of one engine that follow the first of its turn at once: caches, clock and threads as in a long calibration.
NEXT = 3


def files_of(name: str, network: networks.Network, folder: Path) -> tuple[Path, Path]:
    """The model for us and the one for ONNX Runtime; exported once per folder."""
    if network.onnx is not None:
        return network.onnx(), network.onnx()
    ours, theirs = folder / f"{name}.pt2", folder / f"{name}.onnx"
    if not ours.exists() or not theirs.exists():
        torch.manual_seed(5)
        module = network.module()
        arguments = tuple(torch.from_numpy(array) for array in network.inputs().values())
        names = list(network.inputs())
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.export.save(torch.export.export(module, arguments), ours)
            torch.onnx.export(module, arguments, theirs, input_names=names, opset_version=17, dynamo=False)
    return ours, theirs


@dataclass(frozen=True)
class Seconds:
    """Medians of one engine."""

    first: float  # of the runs that begin after a pause
    following: float  # of those that follow them at once


def median_seconds(bodies: list[Callable[[], object]], runs: int) -> list[Seconds]:
    """Medians of each; they take turns of a pause and NEXT + 1 runs, so that a disturbance meets all alike."""
    firsts: list[list[float]] = [[] for _ in bodies]
    nexts: list[list[float]] = [[] for _ in bodies]
    for turn in range(runs + 1):
        for body, first, following in zip(bodies, firsts, nexts, strict=True):
            time.sleep(PAUSE)
            found = []
            for _ in range(NEXT + 1):
                begin = time.perf_counter()
                body()
                found.append(time.perf_counter() - begin)
            if turn > 0:
                first.append(found[0])
                following += found[1:]
    return [Seconds(statistics.median(a), statistics.median(b)) for a, b in zip(firsts, nexts, strict=True)]


def engines(name: str, network: networks.Network, folder: Path) -> tuple[Callable[[], list], Callable[[], list]]:
    ours, theirs = files_of(name, network, folder)
    inputs = network.inputs()
    shapes = {key: array.shape for key, array in inputs.items()} if network.onnx is not None else None
    model = htpipe.load(ours, shapes=shapes).optimise()
    options = ort.SessionOptions()
    options.intra_op_num_threads = int(THREADS)
    options.inter_op_num_threads = 1
    session = ort.InferenceSession(theirs, options, providers=["CPUExecutionProvider"])
    arrays = list(inputs.values())
    return lambda: model.run(*arrays), lambda: session.run(None, inputs)


def difference(ours: list, theirs: list) -> float:
    """Largest distance relative to the largest value."""
    return max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in zip(ours, theirs, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--networks", default=",".join(networks.NETWORKS))
    parser.add_argument("--keep", type=Path, help="folder for the exported models")
    parser.add_argument("--no-sizes", action="store_true", help="leave the second table out")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        paused, following = "after a pause", "at once after another"
        print(f"{'':30} {paused:^26} {following:^26}")
        columns = f"{'ours ms':>9} {'ORT ms':>9} {'ratio':>6}"
        print(f"{'network':30} {columns} {columns} {'difference':>11}")
        for name in filter(None, arguments.networks.split(",")):
            network = networks.NETWORKS[name]
            run_ours, run_theirs = engines(name, network, folder)
            apart = difference(run_ours(), run_theirs())
            ours, theirs = median_seconds([run_ours, run_theirs], arguments.runs)
            row = f"{network.name:30}"
            for a, b in ((ours.first, theirs.first), (ours.following, theirs.following)):
                row += f" {a * 1e3:9.2f} {b * 1e3:9.2f} {a / b:6.2f}"
            row += f" {apart:11.1e}"
            print(row, flush=True)
        if arguments.no_sizes:
            return
        print(f"\n{'MobileNetV2':30} {'ours ms':>9} {'ns/pixel':>9}")
        for size in SIZES:
            run_ours, _ = engines(f"mobilenetv2_{size}", networks.mobilenet(size), folder)
            (ours,) = median_seconds([run_ours], max(3, arguments.runs // (size // 112)))
            print(
                f"{f'{size} x {size}':30} {ours.following * 1e3:9.2f} {ours.following * 1e9 / size**2:9.1f}", flush=True
            )


if __name__ == "__main__":
    main()
