"""The pipeline as users run it: artifacts, gates, caching, reproducibility and faults.

Runs build/bin/htpipe on the example model; HTPIPE_BUILD names another build folder.
"""

import hashlib
import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
BUILD = Path(os.environ.get("HTPIPE_BUILD", ROOT / "build"))
PROGRAM = BUILD / "bin" / "htpipe"
EXAMPLE = ROOT / "examples/fashion_resnet"
DATA = Path("/usr/share/datasets/fashion-mnist")
VENDOR = next(ROOT.glob(".venv/lib/python3*/site-packages/onnxruntime_qnn"), None)
TARGETS = {"snapdragon-8-gen-3": (57, 75), "snapdragon-888": (30, 68), "snapdragon-7-gen-3": (64, 73)}

pytestmark = pytest.mark.skipif(not PROGRAM.is_file(), reason=f"{PROGRAM} is not built")
needs_vendor = pytest.mark.skipif(VENDOR is None, reason="Qualcomm's libraries are not installed")
NO_VENDOR = {"HTPIPE_VENDOR_DIR": "/nonexistent"}


def idx_data(samples: int) -> dict[str, Any]:
    """The data section for Fashion-MNIST with that many evaluation samples."""
    return {
        "format": "idx",
        "calibration": {"images": str(DATA / "train-images-idx3-ubyte.gz"), "samples": 64},
        "evaluation": {
            "images": str(DATA / "t10k-images-idx3-ubyte.gz"),
            "labels": str(DATA / "t10k-labels-idx1-ubyte.gz"),
            "samples": samples,
        },
        "scale": 1 / 255,
    }


def config(folder: Path, **changes: dict[str, Any]) -> Path:
    """A small pipeline file for the example model; `changes` replaces keys of its sections."""
    sections: dict[str, Any] = {
        "model": {
            "id": "fashion-resnet",
            "source": str(EXAMPLE / "fashion_resnet.pt2"),
            "reference": str(EXAMPLE / "reference.npz"),
        },
        "targets": list(TARGETS),
        "data": idx_data(300),
        "gates": {"layer_cosine": 0.99, "max_accuracy_drop": 0.02, "reference_samples": 20},
        "emulator": {"layer_samples": 4, "task_samples": 8},
        "output": str(folder / "out"),
    }
    for name, value in changes.items():
        merged = sections[name] | value if isinstance(sections.get(name), dict) and name != "data" else value
        sections[name] = {key: item for key, item in merged.items() if item is not None} if name == "model" else merged
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "pipeline.yaml"
    file.write_text(json.dumps(sections, indent=1))  # JSON is YAML
    return file


def run(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs htpipe."""
    return subprocess.run(
        [str(PROGRAM), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | environment,
        timeout=300,
    )


def document(result: subprocess.CompletedProcess[str], key: str) -> dict[str, Any]:
    """The "result" or "error" of the JSON document on stdout."""
    assert result.stdout, result.stderr
    value = json.loads(result.stdout)
    assert value["exit_code"] == result.returncode
    part = value[key]
    assert isinstance(part, dict)
    return part


def report_of(result: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """The report of a run that ended."""
    return document(result, "result")


def error_of(result: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """The error object of a run that failed."""
    return document(result, "error")


def digests(folder: Path) -> dict[str, str]:
    """SHA-256 of every file below a folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """One whole run, shared by the tests that only look at what it left."""
    folder = tmp_path_factory.mktemp("finished")
    result = run("run", config(folder), "--json")
    assert result.returncode == 0, result.stderr
    return folder, report_of(result)


@needs_vendor
def test_artifacts_for_all_targets(finished: tuple[Path, dict[str, Any]]) -> None:
    folder, report = finished
    assert report["status"] == "PASS"
    assert [row["target"] for row in report["targets"]] == list(TARGETS)
    for target, (soc_model, arch) in TARGETS.items():
        entry = folder / "out/registry/fashion-resnet" / target
        manifest = json.loads((entry / "manifest.json").read_text())
        for name, digest in manifest["files"].items():
            assert hashlib.sha256((entry / name).read_bytes()).hexdigest() == digest
        assert {"model.dlc", "model.bin", "metadata.json"} <= set(manifest["files"])
        info = report_of(run("info", entry / "model.bin", "--json"))
        assert (info["soc_model"], info["htp_version"]) == (soc_model, arch)
        assert run("info", entry / "model.dlc", "--json").returncode == 0


@needs_vendor
def test_engine_and_emulator_agree(finished: tuple[Path, dict[str, Any]]) -> None:
    _, report = finished
    for row in report["targets"]:
        accuracy = json.loads((Path(row["registry"]) / "accuracy_report.json").read_text())
        assert len(accuracy["layers"]) >= 12
        compared = equal = 0
        for layer in accuracy["layers"]:
            agreement = layer["agreement"]
            assert agreement["compared"] > 0
            assert agreement["within_one_step"] == agreement["compared"], layer
            assert layer["emulator"]["cosine"] >= 0.99
            compared += agreement["compared"]
            equal += agreement["equal"]
        assert equal >= 0.999 * compared
        assert accuracy["gates"] == {"layer": "PASS", "task": "PASS", "engine": "PASS"}


@needs_vendor
def test_metadata_has_the_artifact_schema(finished: tuple[Path, dict[str, Any]]) -> None:
    _, report = finished
    names = {"snapdragon-8-gen-3": "Snapdragon 8 Gen 3", "snapdragon-888": "Snapdragon 888"}
    for row in report["targets"]:
        entry = Path(row["registry"])
        metadata = json.loads((entry / "metadata.json").read_text())
        model_sha = hashlib.sha256((EXAMPLE / "fashion_resnet.pt2").read_bytes()).hexdigest()
        assert metadata["model_id"] == "fashion-resnet"
        assert metadata["model_sha"] == model_sha
        assert metadata["pipeline_version"] == report["htpipe"]
        if row["target"] in names:
            assert metadata["hardware_target"] == names[row["target"]]
        quantization = metadata["quantization"]
        assert quantization["default_bits"] == 8
        assert quantization["calibration_samples"] == 64
        assert len(quantization["calibration_sha"]) == 64
        assert quantization["fp16_layers"] == []
        assert "relu" in quantization["int8_layers"]
        accuracy = metadata["accuracy"]
        assert accuracy["delta"] == pytest.approx(accuracy["quantized"] - accuracy["fp32_baseline"])
        assert accuracy["gate"] == "PASS"
        latency = metadata["latency"]
        assert latency["median_ms"] is None
        assert latency["p95_ms"] is None
        assert latency["reason"]
        assert metadata["artifacts"]["dlc"] == "model.dlc"
        assert metadata["reproducibility"]["options_sha"]


def test_float_engine_counts_like_pytorch(finished: tuple[Path, dict[str, Any]]) -> None:
    """PyTorch's own predictions, recorded beside the model, are the oracle."""
    _, report = finished
    reference = np.load(EXAMPLE / "reference.npz")
    labels = np.frombuffer(
        subprocess.run(["gzip", "-dc", DATA / "t10k-labels-idx1-ubyte.gz"], capture_output=True, check=True).stdout,
        np.uint8,
        offset=8,
    )
    torch_top1 = float((reference["predictions"][:300] == labels[:300]).mean())
    assert report["targets"][0]["task"]["float_top1"] == pytest.approx(torch_top1, abs=0.0035)


def test_second_run_is_cached_and_fast(finished: tuple[Path, dict[str, Any]]) -> None:
    folder, _ = finished
    before = digests(folder / "out/registry")
    begin = time.monotonic()
    result = run("run", folder / "pipeline.yaml", "--json")
    seconds = time.monotonic() - begin
    report = report_of(result)
    slow = {"calibrate", "float baseline", "compile", "task accuracy, our engine", "task accuracy, emulator"}
    stages = [stage for stage in report["stages"] if stage["stage"] in slow or "compare layers" in stage["stage"]]
    assert stages
    assert all(stage["cached"] for stage in stages)
    assert digests(folder / "out/registry") == before
    assert seconds < 10  # generous for a loaded machine; the bench folder measures it


@needs_vendor
def test_two_folders_get_the_same_bytes(finished: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    folder, _ = finished
    result = run("run", config(tmp_path), "--json", HTPIPE_THREADS="1")
    assert result.returncode == 0, result.stderr
    assert digests(tmp_path / "out/registry") == digests(folder / "out/registry")


@needs_vendor
def test_strict_gate_raises_precision(tmp_path: Path) -> None:
    result = run("run", config(tmp_path, gates={"layer_cosine": 0.9995, "max_rounds": 6}), "--json")
    report = report_of(result)
    assert result.returncode == 0, result.stderr
    for row in report["targets"]:
        metadata = json.loads((Path(row["registry"]) / "metadata.json").read_text())
        quantization = metadata["quantization"]
        raised, other = ("fp16_layers", "int16_layers")
        if row["target"] != "snapdragon-8-gen-3":
            raised, other = other, raised
        assert quantization[raised]
        assert quantization[other] == []
        assert row["rounds"] > 1
        accuracy = json.loads((Path(row["registry"]) / "accuracy_report.json").read_text())
        assert all(layer["emulator"]["cosine"] >= 0.9995 for layer in accuracy["layers"])
        first = accuracy["rounds"][0]
        assert {raise_["because"] for raise_ in first["raised"]} <= set(first["failing"])


def test_failed_gate_has_its_exit_code_and_alert(tmp_path: Path) -> None:
    alert = f'echo "$HTPIPE_STATUS $HTPIPE_MODEL" > {tmp_path}/alerted; echo noise'
    gates = {"layer_cosine": 1.0, "max_rounds": 0, "alert": alert}
    file = config(tmp_path, gates=gates, targets=["snapdragon-888"])
    result = run("run", file, "--json", **NO_VENDOR)
    assert result.returncode == 3, result.stderr
    report = report_of(result)
    assert report["status"] == "FAIL"
    assert "gate-layer" in report["failure"]["message"]
    assert (tmp_path / "alerted").read_text() == "FAIL fashion-resnet\n"
    last = result.stderr.splitlines()[-1]
    assert last.startswith("failed: stage gate: ")
    assert "next: " in last
    metadata = tmp_path / "out/registry/fashion-resnet/snapdragon-888/metadata.json"
    assert json.loads(metadata.read_text())["accuracy"]["gate"] == "FAIL"


def test_without_vendor(tmp_path: Path) -> None:
    result = run("run", config(tmp_path), "--json", **NO_VENDOR)
    assert result.returncode == 0, result.stderr
    report = report_of(result)
    assert any("./dev setup" in warning for warning in report["warnings"])
    for row in report["targets"]:
        entry = Path(row["registry"])
        assert not (entry / "model.dlc").exists()
        artifacts = json.loads((entry / "metadata.json").read_text())["artifacts"]
        assert artifacts["dlc"] is None
        assert "./dev setup" in artifacts["missing"]
        assert row["gates"]["layer"] == "PASS"


def test_killed_runs_leave_nothing_half_written(finished: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    """Kill -9 at many moments, then finish: the result is that of an undisturbed run."""
    expected = digests(finished[0] / "out/registry")
    file = config(tmp_path)
    rng = random.Random(7)
    killed = 0
    for _ in range(12):
        process = subprocess.Popen(
            [PROGRAM, "run", file], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        try:
            process.wait(timeout=rng.uniform(0.05, 2.5))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            killed += 1
        for path in (tmp_path / "out").rglob("*"):
            temporary = ".tmp-" in path.name or any(part.startswith("htpipe-") for part in path.parts)
            if path.is_dir() or temporary:
                continue
            if path.suffix == ".json":
                json.loads(path.read_text())
            elif path.name in {"model.dlc", "model.bin"} and "registry" in path.parts:
                wanted = expected[f"fashion-resnet/{path.parent.name}/{path.name}"]
                assert hashlib.sha256(path.read_bytes()).hexdigest() == wanted
    assert killed > 0
    result = run("run", file)
    assert result.returncode == 0, result.stderr
    assert digests(tmp_path / "out/registry") == expected
    leftovers = [path for path in (tmp_path / "out").rglob("*") if ".tmp-" in path.name]
    assert leftovers == []


def test_peak_memory(tmp_path: Path) -> None:
    """Outside the vendor worker the process stays below 500 MB."""
    peak = 0
    process = subprocess.Popen([PROGRAM, "run", config(tmp_path)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None:
        try:
            status = Path(f"/proc/{process.pid}/status").read_text()
        except (FileNotFoundError, ProcessLookupError):
            break
        for line in status.splitlines():
            if line.startswith("VmHWM"):
                peak = max(peak, int(line.split()[1]))
        time.sleep(0.02)
    assert process.wait() == 0
    assert 0 < peak < 500_000


def write_npz(folder: Path, **arrays: Any) -> Path:
    """An npz file in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "data.npz"
    np.savez(file, **arrays)
    return file


def npz_data(file: Path, samples: int = 32) -> dict[str, Any]:
    """The data section for an npz file."""
    return {
        "format": "npz",
        "calibration": {"file": str(file), "samples": samples},
        "evaluation": {"file": str(file), "samples": samples},
    }


def faulty_data(kind: str) -> dict[str, Any]:
    """Arrays with one fault."""
    images = np.zeros((32, 1, 28, 28), np.float32)
    if kind == "data-not-finite":
        images[17, 0, 3, 4] = np.nan
    elif kind == "data-shape":
        images = images[:, :, :14]
    elif kind == "data-dtype":
        images = images.astype(np.int16)
    elif kind == "data-too-few":
        images = images[:20]
    return {"input": images, "labels": np.zeros(len(images), np.int64)}


@pytest.mark.parametrize("kind", ["data-not-finite", "data-shape", "data-dtype", "data-too-few"])
def test_faulty_calibration_data(kind: str, tmp_path: Path) -> None:
    file = write_npz(tmp_path, **faulty_data(kind))
    model = {"id": "x", "source": str(EXAMPLE / "fashion_resnet.pt2")}
    result = run("run", config(tmp_path, data=npz_data(file), model=model | {"reference": None}), "--json", **NO_VENDOR)
    error = error_of(result)
    assert result.returncode == 1
    assert error["code"] == kind, error
    assert error["hint"]
    if kind == "data-not-finite":
        assert "17" in error["message"]


def broken_model(kind: str, folder: Path) -> Path:
    """A .pt2 file with one fault."""
    content = (EXAMPLE / "fashion_resnet.pt2").read_bytes()
    file = folder / "broken.pt2"
    if kind == "missing":
        return file
    changed = {
        "truncated": content[: len(content) // 2],
        "text": b"this is no archive\n" * 100,
        "empty": b"",
        "flipped": content[:5000] + bytes([content[5000] ^ 0xFF]) + content[5001:],
    }
    file.write_bytes(changed[kind])
    return file


@pytest.mark.parametrize(
    ("kind", "codes"),
    [
        ("missing", {"file-missing"}),
        ("truncated", {"not-a-zip", "zip-corrupt", "file-truncated"}),
        ("text", {"not-a-zip"}),
        ("empty", {"not-a-zip", "file-truncated"}),
        ("flipped", {"zip-corrupt"}),
    ],
)
def test_broken_model(kind: str, codes: set[str], tmp_path: Path) -> None:
    file = broken_model(kind, tmp_path)
    result = run("run", config(tmp_path, model={"source": str(file), "reference": None}), "--json", **NO_VENDOR)
    error = error_of(result)
    assert result.returncode == 1
    assert error["code"] in codes, error
    assert str(file) in json.dumps(error["place"])
    assert not (tmp_path / "out/registry").exists()


def test_output_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = run("run", config(tmp_path, output=str(tmp_path / "file/out")), "--json", **NO_VENDOR)
    assert result.returncode == 1
    assert error_of(result)["code"] == "output-unwritable"


def test_full_disk(tmp_path: Path) -> None:
    mount = tmp_path / "small"
    mount.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=96k", "tmpfs", mount], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("no permission to mount a small file system")
    try:
        result = run("run", config(tmp_path, output=str(mount / "out")), "--json", **NO_VENDOR)
        assert result.returncode == 1
        assert error_of(result)["code"] == "output-unwritable"
        # What was finished before the disk was full is whole; nothing else stands under a final name.
        for manifest in mount.rglob("manifest.json"):
            for name, digest in json.loads(manifest.read_text())["files"].items():
                assert hashlib.sha256((manifest.parent / name).read_bytes()).hexdigest() == digest
        for path in mount.rglob("*.json"):
            json.loads(path.read_text())
    finally:
        subprocess.run(["umount", mount], check=True)


def test_one_run_at_a_time(tmp_path: Path) -> None:
    file = config(tmp_path, data=idx_data(10000))
    first = subprocess.Popen(
        [PROGRAM, "run", file], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ | NO_VENDOR
    )
    try:
        deadline = time.monotonic() + 20
        while not (tmp_path / "out/cache/lock").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(0.3)
        second = run("run", file, "--json", **NO_VENDOR)
        if first.poll() is None:
            assert error_of(second)["code"] == "busy"
    finally:
        first.kill()
        first.wait()


def test_damaged_cache_is_made_again(tmp_path: Path) -> None:
    file = config(tmp_path, targets=["snapdragon-888"])
    assert run("run", file, **NO_VENDOR).returncode == 0
    expected = digests(tmp_path / "out/registry")
    cached = sorted((tmp_path / "out/cache").glob("*.json"))
    assert cached
    for path in cached:
        path.write_text(path.read_text()[: path.stat().st_size // 2])
    result = run("run", file, **NO_VENDOR)
    assert result.returncode == 0, result.stderr
    assert digests(tmp_path / "out/registry") == expected


def test_dry_run_writes_nothing(tmp_path: Path) -> None:
    result = run("run", config(tmp_path), "--dry-run", "--json")
    assert result.returncode == 0, result.stderr
    assert report_of(result)["targets"] == list(TARGETS)
    assert not (tmp_path / "out").exists()
