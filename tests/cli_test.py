"""The command line as users meet it: help, exit codes, JSON on stdout, people's text on stderr, hints.

Runs build/bin/htpipe; HTPIPE_BUILD names another build folder.
"""

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
BUILD = Path(os.environ.get("HTPIPE_BUILD", ROOT / "build"))
PROGRAM = BUILD / "bin" / "htpipe"
MODEL = ROOT / "examples/fashion_resnet/fashion_resnet.pt2"
PIPELINE = ROOT / "examples/fashion_resnet/pipeline.yaml"
VENDOR = next(ROOT.glob(".venv/lib/python3*/site-packages/onnxruntime_qnn"), None)
VERBS = ["run", "info", "check", "convert", "exec", "optimize", "explain", "doctor", "targets", "version"]

pytestmark = pytest.mark.skipif(not PROGRAM.is_file(), reason=f"{PROGRAM} is not built")
needs_vendor = pytest.mark.skipif(VENDOR is None, reason="Qualcomm's libraries are not installed")


def run(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs htpipe in the repository's folder, without a terminal."""
    env = {key: value for key, value in os.environ.items() if key not in {"NO_COLOR", "FORCE_COLOR"}} | environment
    command = [str(PROGRAM), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=env, timeout=300)


def document(result: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """The one JSON document on stdout."""
    value = json.loads(result.stdout)
    assert isinstance(value, dict)
    assert value["exit_code"] == result.returncode
    return value


def last_line(result: subprocess.CompletedProcess[str]) -> str:
    """The last line on stderr."""
    return result.stderr.splitlines()[-1]


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(verb: str) -> None:
    result = run(verb, "--help")
    assert result.returncode == 0
    assert "--json" not in result.stderr
    assert verb in result.stdout


def test_help_shows_verbs_and_exit_codes() -> None:
    result = run("--help")
    assert result.returncode == 0
    for verb in VERBS:
        assert f"  {verb} " in result.stdout
    for code in ["0 ", "1 ", "2 ", "3 ", "4 ", "70 ", "130 "]:
        assert f"\n  {code}" in result.stdout


def test_without_arguments_is_a_usage_error() -> None:
    result = run()
    assert result.returncode == 2
    assert result.stdout == ""
    assert "doctor" in last_line(result)


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["dcotor"], '"doctor"'),
        (["explain", "gate-tsak"], '"gate-task"'),
        (["run", PIPELINE, "--tarmget", "v75"], '"--target"'),
        (["run", PIPELINE, "--dry-run", "-t", "snapdragn-888"], '"snapdragon-888"'),
        (["info", MODEL, "-t", "snapdragon-8-gen-4"], '"snapdragon-8-gen-3"'),
    ],
)
def test_typing_errors_get_a_suggestion(arguments: list[object], hint: str) -> None:
    result = run(*arguments)
    assert result.returncode == 2
    assert result.stdout == ""
    line = last_line(result)
    assert line.startswith("failed: stage ")
    assert "; next: Did you mean " in line
    assert hint in line


@pytest.mark.parametrize(
    "arguments",
    [["--json", "nonsense"], ["nonsense", "--json"], ["explain", "nothing-at-all", "--json"], ["run", "--json"]],
)
def test_errors_are_one_json_document(arguments: list[str]) -> None:
    result = run(*arguments)
    assert result.returncode == 2
    error = document(result)["error"]
    assert set(error) == {"code", "message", "stage", "place", "notes", "hint"}
    assert error["code"] in {"usage", "unknown-code"}
    assert last_line(result).startswith("failed: ")


def test_explain_knows_our_codes_and_the_vendors() -> None:
    ours = document(run("explain", "gate-task", "--json"))["result"]
    assert ours["code"] == "gate-task"
    assert "exit code 3" in ours["from"]
    number = document(run("--json", "explain", "6005"))["result"]
    assert number["code"].startswith("6005 QNN_GRAPH_ERROR")
    by_name = document(run("--json", "explain", number["code"].split()[1]))["result"]
    assert by_name == number
    negative = document(run("explain", "-5", "--json"))["result"]
    assert negative["code"].startswith("-5 GENIE_")
    for field in ["sentence", "cause", "next"]:
        assert number[field].endswith(".")
        assert negative[field].endswith(".")


def test_every_row_of_the_error_table_can_be_explained() -> None:
    rows = [line for line in (ROOT / "src/base/error_codes.inc").read_text().splitlines() if "HTPIPE_ERROR(k" in line]
    assert len(rows) > 50
    for row in rows[::6]:
        word = row.split('"')[1]
        assert run("explain", word).returncode == 0, word


def test_an_unknown_number_names_the_component() -> None:
    result = run("explain", "6999")
    assert result.returncode == 2
    assert "component graph" in last_line(result)
    assert run("explain", "99999999999999999999999").returncode == 2


def test_global_flags_stand_on_both_sides() -> None:
    before = run("--json", "--no-color", "targets")
    after = run("targets", "--no-color", "--json")
    assert before.returncode == 0
    assert before.stdout == after.stdout
    assert {target["id"] for target in document(before)["result"]["targets"]} == {
        "snapdragon-8-gen-3",
        "snapdragon-888",
        "snapdragon-7-gen-3",
    }
    assert "snapdragon-888" in before.stderr


def test_colours_only_when_asked_for() -> None:
    assert "\033[" not in run("nonsense").stderr
    assert "\033[" in run("nonsense", FORCE_COLOR="1").stderr
    assert "\033[" not in run("nonsense", FORCE_COLOR="1", NO_COLOR="1").stderr
    assert "\033[" not in run("--no-color", "nonsense", FORCE_COLOR="1").stderr


def test_quiet_and_verbose_contradict() -> None:
    assert run("-q", "-v", "version").returncode == 2
    assert run("version", "-q").stdout.strip() == document(run("version", "--json"))["result"]["version"]


def test_doctor_reports_what_is_here() -> None:
    result = run("doctor", "--json")
    report = document(result)["result"]
    assert result.returncode == 0
    assert report["threads"] >= 1
    assert report["isa"] in {"avx512", "avx2", "generic"}
    assert len(report["targets"]) == 3


@needs_vendor
def test_doctor_asks_the_libraries_themselves() -> None:
    report = document(run("doctor", "--json", HTPIPE_VENDOR_DIR=str(VENDOR)))["result"]
    assert report["vendor"]["works"] is True
    assert report["vendor"]["build_id"] == report["vendor"]["supported_build_id"]
    assert all(target["can_compile"] for target in report["targets"])


def test_doctor_without_the_vendor_is_no_failure(tmp_path: Path) -> None:
    result = run("doctor", "--json", HTPIPE_VENDOR_DIR=str(tmp_path))
    report = document(result)["result"]
    assert result.returncode == 0
    assert report["vendor"]["works"] is False
    assert not any(target["can_compile"] for target in report["targets"])
    assert any("vendor-missing" in problem["message"] for problem in report["problems"])
    assert all(problem["next"] for problem in report["problems"])
    assert "Missing:" in run("doctor", HTPIPE_VENDOR_DIR=str(tmp_path)).stdout


def test_info_tells_what_a_model_holds() -> None:
    torch = pytest.importorskip("torch")
    report = document(run("info", MODEL, "--json"))["result"]
    program = torch.export.load(MODEL)
    parameters = {**program.state_dict}
    assert report["parameters"]["tensors"] == len(parameters)
    assert report["parameters"]["elements"] == sum(tensor.numel() for tensor in parameters.values())
    calls = [node for node in program.graph.nodes if node.op == "call_function"]
    assert sum(report["aten_ops"].values()) == len(calls)
    assert report["inputs"][0]["shape"] == [1, 1, 28, 28]
    assert report["outputs"][0]["shape"] == [1, 10]
    assert report["importable"] is True


def test_info_prints_graph_and_dependencies(tmp_path: Path) -> None:
    graph = run("info", MODEL, "--graph")
    assert graph.returncode == 0
    assert graph.stdout.startswith("graph @fashion_resnet(%x: f32[1,1,28,28])")
    text = tmp_path / "model.htir"
    text.write_text(graph.stdout)
    again = document(run("info", text, "--json"))["result"]
    assert again["nodes"] == document(run("info", MODEL, "--json"))["result"]["nodes"]
    dot = run("info", MODEL, "--dependencies").stdout
    assert dot.startswith('digraph "fashion_resnet" {')
    assert '"block1.conv1" -> "block1.bn1";' in dot


def test_info_judges_targets() -> None:
    result = run("info", MODEL, "-t", "SM8650", "-t", "888", "--precision", "fp16", "--json")
    coverage = {row["target"]: row for row in document(result)["result"]["coverage"]}
    assert coverage["snapdragon-8-gen-3"]["percent"] == 100
    assert coverage["snapdragon-888"]["percent"] == 0
    assert all("no float16" in node["reason"] for node in coverage["snapdragon-888"]["nodes"])


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("a.pt2", b"", {"not-a-zip", "file-truncated"}),
        ("a.pt2", b"PK\x03\x04 and then nothing", {"not-a-zip", "file-truncated", "zip-corrupt"}),
        ("a.htir", b"graph @g(%x: f32[1]) -> (%y", {"graph-syntax"}),
        ("a.htir", b"graph @g() -> (%w) {\n  %w = const f32[1048576,1048576,64] sha 00\n}\n", {"graph-syntax"}),
        ("a.txt", b"hello", {"data-format"}),
        ("a.bin", b"hello", {"context-invalid", "vendor-missing"}),
        ("a.dlc", b"hello", {"dlc-invalid", "vendor-missing", "not-a-zip"}),
    ],
)
def test_info_survives_damaged_files(tmp_path: Path, name: str, content: bytes, code: set[str]) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    result = run("info", path, "--json")
    error = document(result)["error"]
    assert error["code"] in code
    if error["code"] != "vendor-missing":  # that one is not about the file
        assert error["place"]["file"] == str(path)


def test_info_of_a_missing_file() -> None:
    result = run("info", "no-such-file.pt2", "--json")
    assert result.returncode == 1
    assert document(result)["error"]["code"] == "file-missing"


def test_pipeline_file_errors_have_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(PIPELINE.read_text().replace("weights: 8", "wieghts: 8").replace("samples: 10000", "samples: x"))
    result = run("run", path, "--json")
    assert result.returncode == 2
    error = document(result)["error"]
    lines = path.read_text().splitlines()
    assert error["code"] == "config-type"
    assert lines[error["place"]["line"] - 1].strip() == "samples: x"
    assert error["stage"] == "pipeline-file"
    assert len(error["notes"]) == 1
    assert "wieghts" in error["notes"][0]


def test_dry_run_writes_nothing(tmp_path: Path) -> None:
    result = run("run", PIPELINE, "--dry-run", "-o", tmp_path / "out", "-t", "888", "--json")
    assert result.returncode == 0, result.stderr
    assert document(result)["result"]["targets"] == ["snapdragon-888"]
    assert not (tmp_path / "out").exists()


def small_pipeline(folder: Path, **gates: object) -> Path:
    """The example with few samples and other gates, for one target."""
    text = PIPELINE.read_text().replace("[snapdragon-8-gen-3, snapdragon-888, snapdragon-7-gen-3]", "[888]")
    text = text.replace("source: ", f"source: {PIPELINE.parent}/").replace(
        "reference: ", f"reference: {PIPELINE.parent}/"
    )
    text = text.replace("samples: 500", "samples: 20").replace("samples: 10000", "samples: 100")
    text = text.replace("layer_samples: 16", "layer_samples: 2").replace("task_samples: 200", "task_samples: 10")
    text = text.replace("max_accuracy_drop: 0.01", "max_accuracy_drop: 0.1")
    for key, value in gates.items():
        text = text.replace("gates:\n", f"gates:\n  {key}: {value}\n")
    path = folder / "p.yaml"
    path.write_text(text)
    return path


@needs_vendor
def test_info_reads_what_run_wrote(tmp_path: Path) -> None:
    path = small_pipeline(tmp_path)
    environment = {"HTPIPE_VENDOR_DIR": str(VENDOR)}
    quiet = run("run", path, "-q", **environment)
    assert quiet.returncode == 0, quiet.stderr
    assert quiet.stdout == f"{tmp_path / 'out'}\n"
    assert quiet.stderr == ""
    report = document(run("run", path, "--json", **environment))["result"]
    assert report["status"] == "PASS"
    registry = Path(report["targets"][0]["registry"])

    dlc = document(run("info", registry / "model.dlc", "--json", **environment))["result"]
    assert dlc["file_bytes"] == (registry / "model.dlc").stat().st_size
    assert sum(dlc["graphs"][0]["ops"].values()) == dlc["graphs"][0]["nodes"]
    assert dlc["graphs"][0]["inputs"][0]["dtype"] == "u8"
    assert dlc["provenance"] is not None
    context = document(run("info", registry / "model.bin", "--json", **environment))["result"]
    assert context["soc_model"] == 30
    assert context["htp_version"] == 68
    assert context["chip"].startswith("snapdragon-888")
    assert context["graphs"][0]["inputs"][0]["scales"] == dlc["graphs"][0]["inputs"][0]["scales"]
    assert run("info", registry / "graph.htir").returncode == 0
    assert "--graph" in last_line(run("info", registry / "model.dlc", "--graph"))


def test_a_failed_gate_has_its_own_exit_code(tmp_path: Path) -> None:
    alert = tmp_path / "alert"
    path = small_pipeline(tmp_path, max_rounds=0, alert=f'"echo $HTPIPE_STATUS > {alert}"')
    path.write_text(path.read_text().replace("layer_cosine: 0.99", "layer_cosine: 1.0"))
    result = run("run", path, "--json")
    assert result.returncode == 3, result.stderr
    assert document(result)["result"]["status"] == "FAIL"
    line = last_line(result)
    assert line.startswith("failed: stage gate: ")
    assert "gate-layer" in line
    assert "; next: " in line
    assert alert.read_text() == "FAIL\n"


def test_a_full_disk_under_stdout_is_a_failure() -> None:
    with Path("/dev/full").open("w") as full:
        result = subprocess.run([PROGRAM, "targets"], stdout=full, stderr=subprocess.PIPE, check=False, cwd=ROOT)
    assert result.returncode == 1
    assert b"cannot write to stdout" in result.stderr


def test_interrupt_ends_with_130(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [PROGRAM, "run", PIPELINE, "-o", tmp_path / "out", "-q"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    # The cache folder appears when the run has begun.
    deadline = time.monotonic() + 60
    while not (tmp_path / "out").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=120)
    assert process.returncode == 130, stderr
    assert "interrupted" in stderr.splitlines()[-1]
    assert not (tmp_path / "out/registry").exists() or not list((tmp_path / "out/registry").rglob("manifest.json"))
