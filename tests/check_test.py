"""htpipe check as users meet it: verdicts, exit codes, views, memory, advice, fixes."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from cli_test import MODEL, PROGRAM, document, run

pytestmark = pytest.mark.skipif(not PROGRAM.is_file(), reason=f"{PROGRAM} is not built")

# No chip has IsNan.
GRAPH = """graph @g(%x: f32[1,8,8,32]) -> (%y) {
  %w = const f32[1,1,32,32] random 1
  %c = Conv2d(%x, %w, _) {data_layout="nhwc"} @ "body.conv"
  %n = IsNan(%c) @ "body.guard"
  %z = const f32[1] [0]
  %y = ElementWiseSelect(%n, %z, %c) @ "body.select"
}
"""
IMAGE = """graph @image(%image: f32[1,3,12,10], %rows: i64[2]) -> (%y) {
  %w = const f32[8,3,3,3] random 1
  %c = Conv2d(%image, %w, _)
  %y = Gather(%c, %rows) {axis=1}
}
"""


@pytest.fixture
def refused(tmp_path: Path) -> Path:
    path = tmp_path / "g.htir"
    path.write_text(GRAPH)
    return path


def check(*arguments: object, code: int = 0) -> dict[str, Any]:
    result = run("check", *arguments, "--json")
    assert result.returncode == code, result.stderr
    answer: dict[str, Any] = document(result)["result"]
    return answer


def test_a_model_that_runs_as_a_whole_is_feasible_on_every_chip() -> None:
    answer = check(MODEL, "-t", "snapdragon-888,snapdragon-7-gen-3,snapdragon-8-gen-3")
    assert answer["feasible"]
    assert [one["target"] for one in answer["checks"]] == [
        "snapdragon-888", "snapdragon-7-gen-3", "snapdragon-8-gen-3",
    ]  # fmt: skip
    memory = answer["checks"][0]["memory"]
    assert memory["weight_bytes"] == sum(memory["weight_bytes_of"].values()) > 0
    assert memory["vtcm_bytes"] == 4 << 20
    assert memory["spill_bytes"] == 0


def test_a_node_that_no_chip_has_is_named_with_parts_and_cuts(refused: Path) -> None:
    answer = check(refused, "-t", "snapdragon-8-gen-3", "--no-validator", code=5)
    assert not answer["feasible"]
    (report,) = answer["checks"]
    (guard,) = [node for node in report["nodes"] if node["fate"] == "fallback"]
    assert guard["node"] == "n"
    assert guard["layer"] == "body.guard"
    assert guard["reason"]
    assert len(report["parts"]) > 1
    assert any(cut["value"] == "c" for cut in report["cuts"])
    text = run("check", refused, "-t", "snapdragon-8-gen-3", "--no-validator")
    assert text.returncode == 5
    assert "NOT FEASIBLE" in text.stdout
    assert "body.guard" in text.stdout


def test_all_views_are_written(refused: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    run("check", refused, "-t", "snapdragon-8-gen-3", "--no-validator", "-o", folder)
    rows = list(csv.DictReader((folder / "check_snapdragon-8-gen-3.csv").open()))
    assert [row["Graph / Layer name"] for row in rows if row["Type"] == "IsNan"] == ["n"]
    report = json.loads((folder / "check_snapdragon-8-gen-3.json").read_text())
    assert report["target"] == "snapdragon-8-gen-3"
    page = (folder / "check.html").read_text()
    assert "body.guard" in page
    assert "Memory, in bytes" in page


def test_advice_has_a_place_and_a_gain_and_one_line_per_rule(tmp_path: Path) -> None:
    path = tmp_path / "image.htir"
    path.write_text(IMAGE)
    answer = check(path, "-t", "snapdragon-888", "--no-validator")
    advice = {one["rule"]: one for one in answer["checks"][0]["advice"]}
    assert advice["input-channel-first"]["fix"] == "available"
    assert advice["input-channel-first"]["gain"]["amount"] == 2 * 3 * 12 * 10
    assert advice["input-int64"]["gain"] == {"amount": 8, "unit": "bytes given"}
    lines = run("check", path, "-t", "snapdragon-888", "--no-validator").stdout.splitlines()
    assert sum("input-int64" in line for line in lines) == 1


def test_apply_changes_the_interface_and_no_value(tmp_path: Path) -> None:
    before, after = tmp_path / "before.onnx", tmp_path / "after.onnx"
    path = tmp_path / "image.htir"
    path.write_text(IMAGE)
    assert run("convert", path, "-o", before, "--no-verify").returncode == 0
    answer = check(path, "-t", "snapdragon-888", "--no-validator", "--apply", after)
    assert [(one["rule"], one["input"]) for one in answer["applied"]] == [
        ("input-channel-first", "image"), ("input-int64", "rows"),
    ]  # fmt: skip
    left = {one["rule"] for one in answer["checks"][0]["advice"]}
    assert not left & {"input-channel-first", "input-int64"}

    image = np.random.default_rng(3).standard_normal((1, 3, 12, 10)).astype(np.float32)
    rows = np.array([5, 2])
    (wanted,) = onnxruntime.InferenceSession(before).run(None, {"image": image, "rows": rows})
    changed = {"image": image.transpose(0, 2, 3, 1), "rows": rows.astype(np.int32)}
    (found,) = onnxruntime.InferenceSession(after).run(None, changed)
    np.testing.assert_array_equal(found, wanted)


def test_apply_refuses_other_files(refused: Path, tmp_path: Path) -> None:
    result = run("check", refused, "-t", "snapdragon-888", "--no-validator", "--apply", tmp_path / "x.bin")
    assert result.returncode == 2
    assert "--apply model.onnx" in result.stderr
    assert not (tmp_path / "x.bin").exists()
