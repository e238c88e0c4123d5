"""htpipe check of models that are larger than anything that should be read."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

ROOT = Path(__file__).parent.parent
PROGRAM = Path(os.environ.get("HTPIPE_BUILD", ROOT / "build")) / "bin" / "htpipe"
WIDTH, LAYERS = 16384, 9
BYTES = WIDTH * WIDTH * 4

pytestmark = pytest.mark.skipif(not PROGRAM.is_file(), reason=f"{PROGRAM} is not built")


def large_model(folder: Path) -> Path:
    """Nine GiB of float weights in a file of holes: reading them would show."""
    with (folder / "weights.bin").open("wb") as file:
        file.truncate(LAYERS * BYTES)
    weights, nodes, value = [], [], "x"
    for i in range(LAYERS):
        weight = TensorProto(name=f"w{i}", data_type=TensorProto.FLOAT, dims=[WIDTH, WIDTH])
        weight.data_location = TensorProto.EXTERNAL
        for key, text in (("location", "weights.bin"), ("offset", str(i * BYTES)), ("length", str(BYTES))):
            weight.external_data.add(key=key, value=text)
        weights.append(weight)
        nodes.append(helper.make_node("MatMul", [value, f"w{i}"], [f"m{i}"]))
        nodes.append(helper.make_node("Relu", [f"m{i}"], [f"r{i}"]))
        value = f"r{i}"
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 16, WIDTH]) for name in ("x", value)]
    graph = helper.make_graph(nodes, "large", ends[:1], ends[1:], weights)
    path = folder / "large.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_nine_gigabytes_are_split_without_being_read(tmp_path: Path) -> None:
    command = [str(PROGRAM), "check", str(large_model(tmp_path)), "--target", "snapdragon-8-gen-3", "--json"]
    begin = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        answer = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    assert time.monotonic() - begin < 60
    assert usage.ru_maxrss < 512 * 1024  # KiB
    memory = json.loads(answer)["result"]["checks"][0]["memory"]
    assert memory["weight_bytes"] == LAYERS * BYTES // 4  # 8 bits each
    assert memory["context_bytes"] > 2**31
    pieces = memory["pieces"]
    assert len(pieces) == 2
    assert all(piece["context_bytes"] <= 2**31 for piece in pieces)
    assert len(pieces[0]["cut"]) == 1
    assert pieces[0]["cut_bytes"] == 16 * WIDTH
