#!/usr/bin/env python3
"""Fixed-point networks: our engine, the vendor's emulator and ONNX Runtime on the QDQ model, taking turns in one run.

python bench/fixed_networks_bench.py [--rounds N] [--emulator N] [--nodes N] [--binary FILE] [MODEL.pt2...]
Without models: MobileNetV2 and ResNet-50 at 224 x 224 (bench/export_networks.py).
Prints medians per image and ratios; the emulator's time is its execution alone. Two threads for us and ONNX Runtime.
"""

import argparse
import collections
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnxruntime

ROOT = pathlib.Path(__file__).parent.parent
BINARY = ROOT / "build-release/bench/fixed_networks_bench"
THREADS = 2
PAUSE = 0.02  # seconds


class Program:
    """The C++ program of the same name, which answers each command with a line."""

    def __init__(self, binary: str, model: str, precision: str, onnx: str):
        self.process = subprocess.Popen(
            [binary, model, precision, onnx],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "HTPIPE_THREADS": str(THREADS)},
        )
        self.greeting = self.answer()

    def answer(self) -> str:
        line = self.process.stdout.readline().strip()
        if not line:
            raise SystemExit("the program ended: see its message above")
        return line

    def ask(self, command: str) -> str:
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return self.answer()

    def nodes(self) -> list[list[str]]:
        line = self.ask("nodes")
        rows = []
        while line != "end":
            rows.append(line.split(" ", 2))
            line = self.answer()
        return rows


def runtime_call(path: str):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    spec = session.get_inputs()[0]
    kind = {"tensor(float)": np.float32, "tensor(uint8)": np.uint8, "tensor(uint16)": np.uint16}[spec.type]
    sample = (np.random.default_rng(0).normal(size=spec.shape) * 40 + 128).clip(0, 255).astype(kind)
    if kind == np.float32:
        sample = sample / 64 - 2
    return lambda: session.run(None, {spec.name: sample})


def seconds_of(call) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def measure(args, model: str, precision: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        onnx = str(pathlib.Path(folder) / "qdq.onnx")
        program = Program(args.binary, model, precision, onnx)
        print(f"{pathlib.Path(model).stem} {precision}: {program.greeting}")
        call = None
        if precision == "int8":
            call = runtime_call(onnx)
        ours, theirs, emulator = [], [], []
        turns = {i * args.rounds // args.emulator for i in range(args.emulator)} if args.emulator else set()
        for i in range(args.rounds):
            if i in turns:
                emulator.append(float(program.ask("emulator")))
            # The first of a turn finds cold caches, and threads of the other engine that still look for work.
            time.sleep(PAUSE)
            ours += [float(program.ask("ours")) for _ in range(5)][1:]
            if call:
                time.sleep(PAUSE)
                theirs += [seconds_of(call) for _ in range(5)][1:]
        print(f"  ours {statistics.median(ours) * 1e3:.2f} ms (least {min(ours) * 1e3:.2f})")
        if emulator:
            ratio = statistics.median(emulator) / statistics.median(ours)
            print(f"  emulator {statistics.median(emulator) * 1e3:.0f} ms: {ratio:.1f} times ours")
        if call:
            ratio = statistics.median(ours) / statistics.median(theirs)
            print(
                f"  onnxruntime {statistics.median(theirs) * 1e3:.2f} ms (least {min(theirs) * 1e3:.2f}): "
                f"ours takes {ratio:.2f} times as long"
            )
        if args.nodes:
            print_nodes([program.nodes() for _ in range(9)], args.nodes)
        program.process.stdin.close()
        program.process.wait()


def print_nodes(runs: list[list[list[str]]], count: int) -> None:
    rows = [(statistics.median(float(run[i][0]) for run in runs), row[1], row[2]) for i, row in enumerate(runs[0])]
    groups = collections.defaultdict(lambda: [0, 0.0])
    for seconds, operator, _ in rows:
        groups[operator][0] += 1
        groups[operator][1] += seconds
    for operator, (nodes, seconds) in sorted(groups.items(), key=lambda item: -item[1][1]):
        print(f"    {operator:20} {nodes:4} nodes {seconds * 1e3:8.3f} ms")
    for seconds, operator, name in sorted(rows, reverse=True)[:count]:
        print(f"      {seconds * 1e3:8.3f} ms {operator} {name}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--binary", default=BINARY)
    parser.add_argument("--precision", action="append", choices=["int8", "int16"])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--emulator", type=int, default=2, help="runs of the emulator")
    parser.add_argument("--nodes", type=int, default=0, help="print the slowest N nodes and all operators")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if not args.models:
            subprocess.run([sys.executable, ROOT / "bench/export_networks.py", folder], check=True)
            args.models = sorted(str(path) for path in pathlib.Path(folder).glob("*.pt2"))
        for model in args.models:
            for precision in args.precision or ["int8", "int16"]:
                measure(args, model, precision)


if __name__ == "__main__":
    main()
