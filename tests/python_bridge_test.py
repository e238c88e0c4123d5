"""The child process that runs Python for the C++ programs, and pipeline files whose model is Python code."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

ROOT = Path(__file__).parent.parent
BUILD = Path(os.environ.get("HTPIPE_BUILD", ROOT / "build"))
PACKAGE = BUILD / "python"
PROGRAM = BUILD / "bin" / "htpipe"

sys.path.insert(0, str(PACKAGE))
htpipe = pytest.importorskip("htpipe", reason=f"no Python package in {PACKAGE}")


def child(command: str, request: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The response of htpipe._child."""
    response = folder / "response.json"
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE)}
    subprocess.run(
        [sys.executable, "-m", "htpipe._child", command],
        input=json.dumps({**request, "response": str(response)}),
        text=True,
        check=True,
        capture_output=True,
        env=environment,
        timeout=300,
    )
    result: dict[str, Any] = json.loads(response.read_text())
    return result


FACTORY = """
import torch
from torch import nn
from pathlib import Path

def make():
    print("noise on stdout")
    scale = float((Path(__file__).parent / "scale.txt").read_text())
    net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(2704, 10))
    return net, (torch.zeros(1, 1, 28, 28) * scale,)

def bare():
    return make()[0]

def broken():
    raise ValueError("no weights")
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A folder with a user's package."""
    (tmp_path / "nets").mkdir()
    (tmp_path / "nets" / "__init__.py").write_text("")
    (tmp_path / "nets" / "small.py").write_text(FACTORY)
    (tmp_path / "nets" / "scale.txt").write_text("1.0")
    return tmp_path


def test_child_exports_a_factory(package: Path) -> None:
    output = package / "m.pt2"
    request = {"source": "nets.small:make", "folder": str(package), "output": str(output), "inputs": []}
    response = child("export", request, package)
    assert response["ok"], response
    names = {Path(name).name for name in response["result"]["files"]}
    assert {"small.py", "scale.txt", "__init__.py"} <= names
    assert htpipe.load(output).inputs[0].shape == (1, 1, 28, 28)


@pytest.mark.parametrize(
    ("source", "inputs", "code", "words"),
    [
        ("nets.small:bare", [], "usage", "gives no example inputs"),
        ("nets.small:gone", [], "usage", "has no 'gone'"),
        ("nets.gone:make", [], "usage", "nets.gone"),
        ("nets.small:broken", [], "python-failed", "ValueError: no weights"),
        ("nets.small:Path", [], "usage", "must give a torch.nn.Module"),
        ("nets.small:bare", [["x", "f32(1)"]], "usage", "is no type"),
        ("nets.small:bare", [["x", "f32[1,1,5,5]"]], "torch-export-failed", ""),
    ],
)
def test_child_reports_faults(package: Path, source: str, inputs: list[Any], code: str, words: str) -> None:
    request = {"source": source, "folder": str(package), "output": str(package / "m.pt2"), "inputs": inputs}
    error = child("export", request, package)["error"]
    assert error["code"] == code
    assert words in error["message"]
    if code == "python-failed":
        assert Path(error["place"]["file"]).name == "small.py"
        assert error["place"]["line"] == FACTORY.splitlines().index('    raise ValueError("no weights")') + 1


def pipeline(folder: Path, source: Any) -> subprocess.CompletedProcess[str]:
    """`htpipe run` on a model of Python code with random data."""
    generator = np.random.default_rng(0)
    data = folder / "data.npz"
    if not data.exists():
        np.savez(data, input=generator.random((8, 1, 28, 28), np.float32), labels=np.zeros(8, np.int64))
    config = {
        "model": {"id": "case", "source": source},
        "targets": ["snapdragon-8-gen-3"],
        "data": {
            "format": "npz",
            "calibration": {"file": str(data), "samples": 8},
            "evaluation": {"file": str(data), "samples": 8},
        },
        "gates": {"layer_cosine": 0.5, "max_accuracy_drop": 1.0, "reference_samples": 8},
        "emulator": {"layer_samples": 8, "task_samples": 8},
        "output": str(folder / "out"),
    }
    file = folder / "pipeline.yaml"
    file.write_text(json.dumps(config))
    return subprocess.run([PROGRAM, "run", file, "--json"], capture_output=True, text=True, check=False, timeout=300)


@pytest.mark.skipif(not PROGRAM.is_file(), reason="htpipe is not built")
def test_pipeline_with_a_python_source_exports_once(package: Path) -> None:
    source = {"python": "nets.small:bare", "inputs": {"x": "f32[1,1,28,28]"}}

    # The parameter of nn.Sequential.forward is called input.
    refused = pipeline(package, source)
    assert json.loads(refused.stdout)["error"]["code"] == "torch-export-failed"

    source = {"python": "nets.small:bare", "inputs": {"input": "f32[1,1,28,28]"}}

    def export_stage() -> dict[str, Any]:
        result = pipeline(package, source)
        assert result.returncode == 0, result.stderr + result.stdout[-2000:]
        stage: dict[str, Any] = json.loads(result.stdout)["result"]["stages"][0]
        assert stage["stage"] == "export"
        return stage

    assert not export_stage()["cached"]
    assert export_stage()["cached"]
    (package / "nets" / "scale.txt").write_text("2.0")
    assert not export_stage()["cached"]


@pytest.mark.skipif(not PROGRAM.is_file(), reason="htpipe is not built")
@pytest.mark.parametrize(
    ("source", "code"),
    [
        ({"python": "nets.small:broken"}, "python-failed"),
        ({"python": "nets.small"}, "config-type"),
        ({"python": "nets.small:make", "inputs": {"x": "float"}}, "config-type"),
        ({"pyton": "nets.small:make"}, "config-unknown-key"),
    ],
)
def test_pipeline_reports_faults_of_python_sources(package: Path, source: Any, code: str) -> None:
    error = json.loads(pipeline(package, source).stdout)["error"]
    assert error["code"] == code


@pytest.mark.skipif(not PROGRAM.is_file(), reason="htpipe is not built")
def test_an_interpreter_that_is_missing_is_an_error(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTPIPE_PYTHON", str(package / "no-python"))
    error = json.loads(pipeline(package, {"python": "nets.small:make"}).stdout)["error"]
    assert error["code"] == "python-missing"


# --- verification of exported ONNX files ----------------------------------------------------------------------------


def onnx_file(path: Path, alpha: float, slope_op: str = "LeakyRelu") -> Path:
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    h = onnx.helper
    attributes = {"alpha": alpha} if slope_op == "LeakyRelu" else {}
    nodes = [h.make_node("Cast", ["n"], ["m"], to=1), h.make_node("Add", ["x", "m"], ["s"])]
    nodes.append(h.make_node(slope_op, ["s"], ["y"], **attributes))
    graph = h.make_graph(
        nodes,
        "g",
        [h.make_tensor_value_info("x", 1, [2, 3]), h.make_tensor_value_info("n", 7, [2, 3])],
        [h.make_tensor_value_info("y", 1, [2, 3])],
    )
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_verification_measures_the_difference(tmp_path: Path) -> None:
    source = onnx_file(tmp_path / "a.onnx", 0.5)
    same = child("verify-onnx", {"source": str(source), "exported": str(source), "samples": 2}, tmp_path)
    assert same["ok"], same
    (row,) = same["result"]["outputs"]
    assert (row["name"], row["max_abs"]) == ("y", 0.0)
    assert row["range"] > 0
    other = onnx_file(tmp_path / "b.onnx", 0.25)
    ranges = {"x": [-4, -2], "n": [0, 0]}
    request = {"source": str(source), "exported": str(other), "ranges": ranges}
    (row,) = child("verify-onnx", request, tmp_path)["result"]["outputs"]
    assert 0.5 <= row["max_abs"] <= 1.0


def test_verification_against_a_pt2(tmp_path: Path) -> None:
    class Net(nn.Module):
        def forward(self, n: Tensor, *, x: Tensor) -> Tensor:
            return nn.functional.leaky_relu(x + n, 0.5)

    htpipe.export(Net(), {"n": torch.zeros(2, 3, dtype=torch.int64), "x": torch.zeros(2, 3)}, tmp_path / "m.pt2")
    # Its inputs stand in another order: x, n.
    exported = onnx_file(tmp_path / "a.onnx", 0.5)
    response = child("verify-onnx", {"source": str(tmp_path / "m.pt2"), "exported": str(exported)}, tmp_path)
    assert response["ok"], response
    assert response["result"]["outputs"][0]["max_abs"] == 0.0


def test_verification_reports_faults(tmp_path: Path) -> None:
    source = onnx_file(tmp_path / "a.onnx", 0.5)
    gone = child("verify-onnx", {"exported": str(tmp_path / "gone.onnx")}, tmp_path)["error"]
    assert gone["code"] in ("file-missing", "graph-invalid")
    invalid = onnx_file(tmp_path / "bad.onnx", 0.5, "NoSuchOp")
    assert child("verify-onnx", {"exported": str(invalid)}, tmp_path)["error"]["code"] == "graph-invalid"
    # A package that is missing: a module of that name that cannot be imported comes first on the path.
    shadow = tmp_path / "shadow"
    shadow.mkdir()
    (shadow / "onnxruntime.py").write_text("raise ImportError('not installed')\n")
    script = textwrap.dedent(f"""
        import sys; sys.path[:0] = [{str(shadow)!r}, {str(PACKAGE)!r}]
        from htpipe import Error
        from htpipe._verify_onnx import verify
        try:
            verify({{"exported": {str(source)!r}}})
        except Error as error:
            print(error.code, error.hint)
    """)
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout.startswith("python-missing Install it")
