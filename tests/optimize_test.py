"""htpipe optimize as users meet it: tables, orders, dumps, verification, bisection."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_test import MODEL, PROGRAM, document, last_line, run

pytestmark = pytest.mark.skipif(not PROGRAM.is_file(), reason=f"{PROGRAM} is not built")

GRAPH = """graph @g(%x: f32[1,2]) -> (%relu) {
  %w = const f32[2,2] [1,-2,3,-4]
  %fc = FullyConnected(%x, %w) @ "head.fc"
  %s = const f32[2] [0.3,-0.7]
  %t = const f32[2] [0,1]
  %bn = Batchnorm(%fc, %s, %t) @ "head.bn"
  %relu = ElementWiseNeuron(%bn) {operation="relu"} @ "head.act"
}
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "g.htir"
    path.write_text(GRAPH)
    return path


def result_of(*arguments: object) -> dict[str, Any]:
    result = run("optimize", *arguments, "--json")
    answer = document(result)
    assert result.returncode == 0, answer
    value: dict[str, Any] = answer["result"]
    return value


def active(result: dict[str, Any]) -> list[str]:
    return [record["pass"] for record in result["passes"] if record["rewrites"] > 0]


def test_says_what_each_pass_did(model: Path) -> None:
    result = result_of(model)
    assert (result["nodes_before"], result["nodes_after"]) == (3, 1)
    assert active(result)[:2] == ["fold_batchnorm", "fuse_activation"]
    assert result["operators"] == {"FullyConnected": 1}
    runs = [record["run"] for record in result["passes"]]
    assert runs == list(range(1, len(runs) + 1))
    text = run("optimize", model).stdout
    assert "fold_batchnorm" in text
    assert "head.bn" not in text
    assert "head.bn" in run("optimize", model, "-v").stdout


def test_stops_skips_and_takes_an_order(model: Path, tmp_path: Path) -> None:
    assert active(result_of(model, "--stop-after", "fold_batchnorm"))[-1] == "fold_batchnorm"
    assert result_of(model, "--skip", "fold_batchnorm,fuse_activation", "--skip", "fold_scale")["nodes_after"] == 3
    order = tmp_path / "order.txt"
    order.write_text("# mine\nfuse_activation fold_batchnorm\n")
    result = result_of(model, "--order", order)
    assert result["order"] == ["fuse_activation fold_batchnorm"]
    assert [record["round"] for record in result["passes"]] == [1, 1, 2, 2, 3, 3]


def test_the_printed_order_is_the_default_and_can_be_given_back(model: Path, tmp_path: Path) -> None:
    for output in ([], ["-o", tmp_path / "x.onnx"]):
        text = run("optimize", "--print-order", *output).stdout
        assert text.startswith("#")
        order = tmp_path / "order.txt"
        order.write_text(text)
        assert result_of(model, "--order", order)["order"] == result_of(model, *output)["order"]
        assert run("optimize", "--print-order", "--order", order).stdout == text


def test_lists_every_pass() -> None:
    listed = {item["pass"]: item["does"] for item in result_of("--list")["passes"]}
    files = (Path(__file__).parent.parent / "src/passes/pass_list.inc").read_text()
    assert sorted(listed) == sorted(
        line[len("HTPIPE_PASS(") : -1] for line in files.splitlines() if line.startswith("HTPIPE_PASS(")
    )
    assert all(does.endswith(".") for does in listed.values())


def test_dumps_are_graphs(model: Path, tmp_path: Path) -> None:
    result = result_of(model, "--dump", tmp_path / "steps", "-o", tmp_path / "out.htir")
    dumps = sorted(path.name for path in (tmp_path / "steps").iterdir())
    changed = [f"{record['run']:03}_{record['pass']}.htir" for record in result["passes"] if record["rewrites"] > 0]
    assert dumps == ["000_imported.htir", *changed]
    assert (tmp_path / "steps" / dumps[-1]).read_text() == (tmp_path / "out.htir").read_text()
    assert run("info", tmp_path / "steps" / dumps[1]).returncode == 0


def test_writes_onnx_that_computes_the_same(tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    result = result_of(MODEL, "-o", tmp_path / "x.onnx", "--opset", 18)
    session = onnxruntime.InferenceSession(tmp_path / "x.onnx", providers=["CPUExecutionProvider"])
    assert result["onnx_nodes"] > 10
    (info,) = session.get_inputs()
    array = np.random.default_rng(1).uniform(-1, 1, info.shape).astype(np.float32)
    np.savez(tmp_path / "in.npz", **{info.name: array})
    assert run("exec", MODEL, "--inputs", tmp_path / "in.npz", "-o", tmp_path, "--no-optimize").returncode == 0
    (name,) = [output.name for output in session.get_outputs()]
    np.testing.assert_allclose(
        session.run(None, {info.name: array})[0], np.load(tmp_path / "outputs.npz")[name], atol=1e-4
    )


def test_verifies_with_made_up_and_with_given_samples(model: Path, tmp_path: Path) -> None:
    assert result_of(model, "--verify")["difference"] <= 1e-6
    np.savez(tmp_path / "in.npz", x=np.array([[3, -1], [0.5, 2]], np.float32))
    assert result_of(model, "--verify", "--inputs", tmp_path / "in.npz")["verified"] is True
    np.savez(tmp_path / "wrong.npz", relu=np.zeros((2, 2), np.float32))
    result = run("optimize", model, "--verify", "--inputs", tmp_path / "in.npz", "--reference", tmp_path / "wrong.npz")
    assert result.returncode == 1
    assert "pass-changed-result" in last_line(result)


def test_bisection_finds_the_first_run_that_rounds_otherwise(model: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", x=np.random.default_rng(2).uniform(-1, 1, (16, 2)).astype(np.float32))
    assert result_of(model, "--bisect", "--inputs", tmp_path / "in.npz")["culprit"] is None
    result = run("optimize", model, "--bisect", "--inputs", tmp_path / "in.npz", "--tolerance", 0, "--json")
    assert result.returncode == 1
    found = document(result)["result"]
    assert found["culprit"]["pass"] == "fold_batchnorm"
    assert "head.bn" in found["culprit"]["notes"][0]
    # Halving: not one graph for every run.
    assert found["trials"] < found["runs"] / 2
    assert run("optimize", model, "--bisect", "--tolerance", 0, "-q").stdout == "fold_batchnorm\n"


def test_bisection_against_a_reference_that_the_model_never_gave(model: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", x=np.zeros((1, 2), np.float32))
    np.savez(tmp_path / "out.npz", relu=np.full((1, 2), 7, np.float32))
    result = run("optimize", model, "--bisect", "--inputs", tmp_path / "in.npz", "--reference", tmp_path / "out.npz")
    assert result.returncode == 1
    assert "before any pass" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "no model"),
        (["g.htir", "--skip", "fold_batchnrom"], '"fold_batchnorm"'),
        (["g.htir", "--stop-after", "fold_batchnrom"], '"fold_batchnorm"'),
        (["g.htir", "-o", "g.txt"], "neither .htir nor .onnx"),
        (["g.htir", "-o", "g.htir"], "the model itself"),
        (["g.htir", "--tolerance", "1"], "--bisect"),
        (["g.htir", "--bisect", "--dump", "d"], "--bisect"),
        (["g.htir", "--verify", "--reference", "r.npz"], "--inputs"),
    ],
)
def test_usage(arguments: list[str], told: str, model: Path) -> None:
    given = [str(model.parent / word) if word.startswith("g.") else word for word in arguments]
    result = run("optimize", *given)
    assert result.returncode == 2
    assert told in result.stderr


def test_an_order_is_judged_by_its_lines(model: Path, tmp_path: Path) -> None:
    order = tmp_path / "order.txt"
    order.write_text("remove_dead_code\n\nfold_bathnorm\n")
    result = run("optimize", model, "--order", order)
    assert result.returncode == 2
    assert f"{order}:3" in result.stderr
    assert '"fold_batchnorm"' in result.stderr


def test_a_quantised_model_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "q.htir"
    path.write_text(
        "graph @q(%x: u8<scale 0.1, zero 0>[1,4]) -> (%y) {\n"
        '  %y = ElementWiseNeuron(%x) {operation="relu"} : u8<scale 0.1, zero 0>[1,4]\n}\n'
    )
    result = run("optimize", path)
    assert result.returncode == 1
    assert "unsupported-form" in last_line(result)


def test_json_is_one_document(model: Path) -> None:
    result = run("optimize", model, "--json")
    assert json.loads(result.stdout)["command"] == "optimize"
