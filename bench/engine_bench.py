#!/usr/bin/env python3
"""Our float engine against ONNX Runtime: the same networks and inputs, one process, turns taken, medians.

    PYTHONPATH=build/python .venv/bin/python bench/engine_bench.py [--runs 20] [--networks vit,minilm] [--keep FOLDER]

Both use HTPIPE_THREADS threads (default 2). A second table shows the cost of MobileNetV2 per pixel from 112 to 896.
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


def median_seconds(bodies: list[Callable[[], object]], runs: int) -> list[float]:
    """Medians of each; they take turns, so that a disturbance meets all alike."""
    times: list[list[float]] = [[] for _ in bodies]
    for i in range(runs + 2):
        for body, found in zip(bodies, times, strict=True):
            time.sleep(PAUSE)
            begin = time.perf_counter()
            body()
            if i >= 2:
                found.append(time.perf_counter() - begin)
    return [statistics.median(found) for found in times]


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
        print(f"{'network':30} {'ours ms':>9} {'ORT ms':>9} {'ratio':>6} {'difference':>11}")
        for name in filter(None, arguments.networks.split(",")):
            network = networks.NETWORKS[name]
            run_ours, run_theirs = engines(name, network, folder)
            apart = difference(run_ours(), run_theirs())
            ours, theirs = median_seconds([run_ours, run_theirs], arguments.runs)
            row = f"{network.name:30} {ours * 1e3:9.2f} {theirs * 1e3:9.2f} {ours / theirs:6.2f} {apart:11.1e}"
            print(row, flush=True)
        if arguments.no_sizes:
            return
        print(f"\n{'MobileNetV2':30} {'ours ms':>9} {'ns/pixel':>9}")
        for size in SIZES:
            run_ours, _ = engines(f"mobilenetv2_{size}", networks.mobilenet(size), folder)
            (ours,) = median_seconds([run_ours], max(3, arguments.runs // (size // 112)))
            print(f"{f'{size} x {size}':30} {ours * 1e3:9.2f} {ours * 1e9 / size**2:9.1f}", flush=True)


if __name__ == "__main__":
    main()
