"""htpipe exec: samples in every form, engines against PyTorch and ONNX Runtime, traces, and what is refused."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
BUILD = Path(os.environ.get("HTPIPE_BUILD", ROOT / "build"))
PROGRAM = BUILD / "bin" / "htpipe"
MODEL = ROOT / "examples/fashion_resnet/fashion_resnet.pt2"
VENDOR = next(ROOT.glob(".venv/lib/python3*/site-packages/onnxruntime_qnn"), None)

pytestmark = pytest.mark.skipif(not PROGRAM.is_file(), reason=f"{PROGRAM} is not built")
needs_vendor = pytest.mark.skipif(VENDOR is None, reason="Qualcomm's libraries are not installed")

TWO_INPUTS = """graph @two(%a: f32[2,3], %n: i32[4]) -> (%sum, %picked) {
  %k = const f32[3] [1,2,3]
  %sum = ElementWiseBinary(%a, %k) {operation="add"}
  %picked = Gather(%k, %n) {axis=0}
}
"""
STORED = """graph @stored(%x: u8<scale 0.5, zero 10>[1,4]) -> (%y) {
  %y = ElementWiseNeuron(%x) {operation="relu"} : u8<scale 0.25, zero 0>[1,4]
}
"""


def exec_model(*arguments: object, **environment: str) -> tuple[int, dict[str, Any]]:
    """Runs htpipe exec with --json: exit code, and the result or the error."""
    command = [str(PROGRAM), "exec", *map(str, arguments), "--json", "-q"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=300, env=os.environ | environment
    )
    document = json.loads(done.stdout)
    assert document["exit_code"] == done.returncode
    return done.returncode, document["result"] if done.returncode == 0 else document["error"]


def refused(*arguments: object) -> str:
    """The code of the error."""
    code, error = exec_model(*arguments)
    assert code in {1, 2, 4}, error
    return str(error["code"])


def images(count: int) -> np.ndarray:
    return np.random.default_rng(1).random((count, 1, 28, 28), dtype=np.float32)


def torch_logits(inputs: np.ndarray) -> np.ndarray:
    torch = pytest.importorskip("torch")
    module = torch.export.load(MODEL).module()
    return np.concatenate([module(torch.from_numpy(x[None])).detach().numpy() for x in inputs])


@pytest.fixture
def two(tmp_path: Path) -> Path:
    path = tmp_path / "two.htir"
    path.write_text(TWO_INPUTS)
    return path


def test_float_gives_what_pytorch_gives_for_every_form_of_samples(tmp_path: Path) -> None:
    x = images(4)
    want = torch_logits(x)
    np.save(tmp_path / "x.npy", x)
    np.savez(tmp_path / "stored.npz", x=x)
    np.savez_compressed(tmp_path / "deflated.npz", x=x.astype(np.float64))
    for file in ["x.npy", "stored.npz", "deflated.npz"]:
        code, result = exec_model(MODEL, "--inputs", tmp_path / file, "-o", tmp_path / "out")
        assert code == 0, result
        assert result["samples"] == 4
        assert result["timings"]["per_image_median_ms"] > 0
        got = np.load(tmp_path / "out/outputs.npz")
        assert got.files == ["linear"]
        assert got["linear"].dtype == np.float32
        np.testing.assert_allclose(got["linear"], want, atol=1e-4)


def test_lists_of_raw_files_give_a_folder_per_sample(tmp_path: Path) -> None:
    x = images(3)
    data = tmp_path / "data"
    data.mkdir()
    for i, sample in enumerate(x):
        sample.tofile(data / f"{i}.raw")
    lines = ["% linear relu_4", "", *(f"x:=data/{i}.raw \r" for i in range(2)), str(data / "2.raw")]
    (tmp_path / "input_list.txt").write_text("\n".join(lines))
    code, result = exec_model(MODEL, "--inputs", tmp_path / "input_list.txt", "-o", tmp_path / "out")
    assert code == 0, result
    assert [port["file"] for port in result["outputs"]] == ["linear.raw", "relu_4.raw"]
    want = torch_logits(x)
    for i in range(3):
        got = np.fromfile(tmp_path / f"out/Result_{i}/linear.raw", np.float32)
        np.testing.assert_allclose(got, want[i], atol=1e-4)
        assert (tmp_path / f"out/Result_{i}/relu_4.raw").stat().st_size == 7 * 7 * 64 * 4
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["Result_0", "Result_1", "Result_2"]


def test_traced_values_are_those_of_a_run_without_a_trace(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", images(3))
    assert exec_model(MODEL, "--inputs", tmp_path / "x.npy", "-o", tmp_path / "plain")[0] == 0
    code, result = exec_model(MODEL, "--inputs", tmp_path / "x.npy", "-o", tmp_path / "all", "--trace")
    assert code == 0, result
    whole = np.load(tmp_path / "all/trace.npz")
    plain = np.load(tmp_path / "plain/outputs.npz")
    np.testing.assert_array_equal(whole["linear"], plain["linear"])
    np.testing.assert_array_equal(np.load(tmp_path / "all/outputs.npz")["linear"], plain["linear"])
    assert len(whole.files) > 10
    names = ["relu_1", "max_pool2d"]
    arguments = [part for name in names for part in ("--trace", name)]
    assert exec_model(MODEL, "--inputs", tmp_path / "x.npy", "-o", tmp_path / "two", *arguments)[0] == 0
    part = np.load(tmp_path / "two/trace.npz")
    assert part.files == names
    for name in names:
        np.testing.assert_array_equal(part[name], whole[name])
    # The sample on its own gives the same bits.
    np.save(tmp_path / "one.npy", images(3)[2:])
    assert exec_model(MODEL, "--inputs", tmp_path / "one.npy", "-o", tmp_path / "one", "--trace")[0] == 0
    for name in whole.files:
        np.testing.assert_array_equal(np.load(tmp_path / "one/trace.npz")[name][0], whole[name][2])


def test_results_do_not_depend_on_threads_or_instruction_set(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", images(2))
    for engine in ["float", "fp16"]:
        files = []
        for i, setting in enumerate([{}, {"HTPIPE_THREADS": "1"}, {"HTPIPE_ISA": "generic"}, {"HTPIPE_ISA": "avx2"}]):
            out = tmp_path / f"{engine}_{i}"
            arguments = ["--inputs", tmp_path / "x.npy", "-o", out, "--engine", engine, "--trace"]
            assert exec_model(MODEL, *arguments, **setting)[0] == 0
            files.append((out / "trace.npz").read_bytes())
        assert all(file == files[0] for file in files)


def test_models_with_several_inputs_and_batches(two: Path, tmp_path: Path) -> None:
    a = np.arange(18, dtype=np.float64).reshape(6, 3)
    n = np.array([0, 1, 2, 0, 2, 2, 1, 0, 1, 1, 1, 0])
    np.savez(tmp_path / "in.npz", a=a, n=n)
    code, result = exec_model(two, "--inputs", tmp_path / "in.npz", "-o", tmp_path / "out")
    assert code == 0, result
    assert result["samples"] == 3
    got = np.load(tmp_path / "out/outputs.npz")
    np.testing.assert_array_equal(got["sum"], (a + np.arange(1, 4)).astype(np.float32))
    np.testing.assert_array_equal(got["picked"], np.float32([1, 2, 3])[n])


def test_quantised_inputs_take_real_numbers_and_stored_ones(tmp_path: Path) -> None:
    model = tmp_path / "stored.htir"
    model.write_text(STORED)
    real = np.float32([[-5, 0, 1.1, 200]])
    stored = np.uint8([[0, 10, 12, 255]])
    for name, array in [("real", real), ("stored", stored)]:
        np.save(tmp_path / f"{name}.npy", array)
        (tmp_path / f"{name}.raw").write_bytes(array.tobytes())
        (tmp_path / f"{name}.txt").write_text(f"x:={name}.raw\n")
        arguments = [model, "--engine", "fixed", "-t", "v75"]
        out = tmp_path / name
        assert exec_model(*arguments, "--inputs", tmp_path / f"{name}.npy", "-o", out)[0] == 0
        np.testing.assert_array_equal(np.load(out / "outputs.npz")["y"], np.float32([[0, 0, 1, 63.75]]))
        assert exec_model(*arguments, "--inputs", tmp_path / f"{name}.npy", "-o", out, "--native")[0] == 0
        np.testing.assert_array_equal(np.load(out / "outputs.npz")["y"], np.uint8([[0, 0, 4, 255]]))
        assert exec_model(*arguments, "--inputs", tmp_path / f"{name}.txt", "-o", out, "--native")[0] == 0
        assert (out / "Result_0/y.raw").read_bytes() == bytes([0, 0, 4, 255])


def wrong_arrays() -> list[tuple[dict[str, np.ndarray], str]]:
    a = np.zeros((2, 3), np.float32)
    n = np.zeros(4, np.int64)
    return [
        ({"a": a}, "data-shape"),
        ({"a": a, "n": n, "m": n}, "data-shape"),
        ({"a": a[:, :2], "n": n}, "data-shape"),
        ({"a": a[:1], "n": n}, "data-shape"),
        ({"a": a[None], "n": n}, "data-shape"),
        ({"a": np.zeros((4, 3), np.float32), "n": n}, "data-shape"),
        ({"a": a[:0], "n": n[:0]}, "data-too-few"),
        ({"a": a.astype(np.int32), "n": n}, "data-dtype"),
        ({"a": a, "n": n.astype(np.float32)}, "data-dtype"),
        ({"a": a, "n": n + 2**40}, "data-dtype"),
        ({"a": a.astype(np.complex64), "n": n}, "data-dtype"),
        ({}, "data-shape"),
    ]


@pytest.mark.parametrize(("arrays", "code"), wrong_arrays())
def test_arrays_that_do_not_fit_are_refused(
    arrays: dict[str, np.ndarray], code: str, two: Path, tmp_path: Path
) -> None:
    np.savez(tmp_path / "in.npz", **arrays)
    assert refused(two, "--inputs", tmp_path / "in.npz", "-o", tmp_path / "out") == code
    assert not (tmp_path / "out/outputs.npz").exists()


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "data-too-few"),
        ("# sum\n\n", "data-too-few"),
        ("a:=a.raw n:=missing.raw", "file-missing"),
        ("a:=a.raw n:=n.raw\na:=a.raw", "data-shape"),
        ("a:=a.raw n:=n.raw b:=n.raw", "data-shape"),
        ("a.raw n:=n.raw", "data-format"),
        ("a:= n:=n.raw", "data-format"),
        ("a:=a.raw a:=a.raw n:=n.raw", "data-format"),
        ("a:=short.raw n:=n.raw", "file-truncated"),
        ("a:=long.raw n:=n.raw", "data-shape"),
        ("a:=. n:=n.raw", "file-unreadable"),
        ("# nothing\na:=a.raw n:=n.raw", "usage"),
        ("\0\1\2", "data-format"),
    ],
)
def test_lists_that_do_not_fit_are_refused(text: str, code: str, two: Path, tmp_path: Path) -> None:
    (tmp_path / "a.raw").write_bytes(bytes(24))
    (tmp_path / "short.raw").write_bytes(bytes(23))
    (tmp_path / "long.raw").write_bytes(bytes(48))
    (tmp_path / "n.raw").write_bytes(bytes(16))
    (tmp_path / "list.txt").write_text(text)
    assert refused(two, "--inputs", tmp_path / "list.txt", "-o", tmp_path / "out") == code
    assert not list((tmp_path / "out").glob("*"))


def test_files_that_are_broken_are_refused(two: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", a=np.zeros((2, 3), np.float32), n=np.zeros(4, np.int32))
    content = (tmp_path / "in.npz").read_bytes()
    for name, data, code in [
        ("cut.npz", content[: len(content) // 2], "file-truncated"),
        ("empty.npz", b"", "not-a-zip"),
        ("flipped.npz", content[:150] + bytes([content[150] ^ 1]) + content[151:], "zip-corrupt"),
        ("empty.npy", b"", "data-format"),
    ]:
        (tmp_path / name).write_bytes(data)
        got = refused(two, "--inputs", tmp_path / name, "-o", tmp_path / "out")
        assert got == code, name
    huge = b"\x93NUMPY\1\0v\0{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999, 999999999999), }"
    (tmp_path / "huge.npy").write_bytes(huge.ljust(127) + b"\n")
    assert refused(MODEL, "--inputs", tmp_path / "huge.npy", "-o", tmp_path / "out") in {
        "data-format",
        "file-truncated",
    }
    assert refused(two, "--inputs", tmp_path / "missing.npz", "-o", tmp_path / "out") == "file-missing"


def test_what_an_engine_cannot_take_says_what_to_do(two: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", images(1))
    arguments = ["--inputs", tmp_path / "x.npy", "-o", tmp_path / "out"]
    code, error = exec_model(MODEL, *arguments, "--engine", "fixed", "-t", "v75")
    assert (code, error["code"]) == (1, "no-encoding")
    assert "htpipe run" in error["hint"]
    assert refused(MODEL, *arguments, "--engine", "fixed") == "usage"
    assert refused(MODEL, *arguments, "--engine", "htp", "-t", "snapdragon-888") == "target-unsupported"
    assert refused(MODEL, *arguments, "--engine", "magic") == "usage"
    assert refused(MODEL, *arguments, "--trace", "nothing") == "usage"
    assert refused(MODEL, "-o", tmp_path / "out") == "usage"
    assert refused(MODEL, "--inputs", tmp_path / "x.npy") == "usage"
    assert refused(MODEL, "--inputs", tmp_path / "x.npy", "-o", "/proc/out") == "output-unwritable"
    stored = tmp_path / "stored.htir"
    stored.write_text(STORED)
    np.save(tmp_path / "s.npy", np.zeros((1, 4), np.float32))
    assert refused(stored, "--inputs", tmp_path / "s.npy", "-o", tmp_path / "out") == "unsupported-form"
    np.save(tmp_path / "nan.npy", np.full((1, 4), np.nan, np.float32))
    arguments = ["--engine", "fixed", "-t", "v75", "-o", tmp_path / "out"]
    assert refused(stored, "--inputs", tmp_path / "nan.npy", *arguments) == "data-not-finite"


@needs_vendor
def test_fp16_is_what_the_emulator_computes(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", images(2))
    outputs = {}
    for engine in ["fp16", "htp"]:
        arguments = ["--engine", engine, "-t", "snapdragon-8-gen-3", "--trace", "max_pool2d"]
        code, result = exec_model(MODEL, "--inputs", tmp_path / "x.npy", "-o", tmp_path / engine, *arguments)
        assert code == 0, result
        outputs[engine] = {
            **np.load(tmp_path / engine / "outputs.npz"),
            **np.load(tmp_path / engine / "trace.npz"),
        }
    assert outputs["fp16"].keys() == outputs["htp"].keys()
    for name, ours in outputs["fp16"].items():
        np.testing.assert_allclose(ours, outputs["htp"][name], rtol=2e-3, atol=2e-3 * np.abs(ours).max())


def test_an_interrupted_run_leaves_nothing_half_written(tmp_path: Path) -> None:
    out = tmp_path / "out"
    np.save(tmp_path / "x.npy", np.zeros((60000, 1, 28, 28), np.float32))
    command = [PROGRAM, "exec", MODEL, "--inputs", tmp_path / "x.npy", "-o", out, "--trace", "--json"]
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    deadline = time.monotonic() + 60
    while not list(out.glob("trace.npz.tmp-*")) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    answer = json.loads(process.communicate(timeout=60)[0])
    assert process.returncode == 130
    assert answer["error"]["code"] == "interrupted"
    assert not list(out.iterdir())
    # What a killed run leaves, the next one removes.
    (out / "outputs.npz.tmp-abcdef").write_bytes(b"x")
    np.save(tmp_path / "x.npy", images(1))
    assert exec_model(MODEL, "--inputs", tmp_path / "x.npy", "-o", out)[0] == 0
    assert [path.name for path in out.iterdir()] == ["outputs.npz"]


def quantise(folder: Path, **options: Any) -> tuple[Path, np.ndarray]:
    """The example in ONNX's QDQ form, quantised by ONNX Runtime, and its logits there for images(3)."""
    ort = pytest.importorskip("onnxruntime")
    quantization = pytest.importorskip("onnxruntime.quantization")
    float_model = folder / "float.onnx"
    subprocess.run([PROGRAM, "convert", MODEL, "-o", float_model, "--no-verify", "-q", "--opset", "21"], check=True)

    class Reader(quantization.CalibrationDataReader):  # type: ignore[misc,name-defined]
        samples = iter([{"x": x[None]} for x in images(8)])

        def get_next(self) -> dict[str, np.ndarray] | None:
            return next(self.samples, None)

    model = folder / "qdq.onnx"
    form = quantization.QuantFormat.QDQ
    quantization.quantize_static(float_model, model, Reader(), quant_format=form, **options)
    # Its fused integer kernels round differently; what the model says is what its nodes compute.
    settings = ort.SessionOptions()
    settings.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(model, settings)
    return model, np.concatenate([session.run(None, {"x": x[None]})[0] for x in images(3)])


@pytest.mark.parametrize("form", ["8 bit", "per channel", "16 bit"])
def test_models_in_qdq_form(form: str, tmp_path: Path) -> None:
    types = pytest.importorskip("onnxruntime.quantization").QuantType
    activation = types.QUInt16 if form == "16 bit" else types.QUInt8
    options = {"activation_type": activation, "weight_type": types.QInt8, "per_channel": form != "8 bit"}
    model, want = quantise(tmp_path, **options)
    np.save(tmp_path / "x.npy", images(3))
    step = {}
    for engine in ["float", "fixed", "htp"]:
        if engine == "htp" and VENDOR is None:
            continue
        arguments = ["--inputs", tmp_path / "x.npy", "-o", tmp_path / engine, "--engine", engine, "-t", "v75"]
        code, result = exec_model(model, *arguments)
        assert code == 0, result
        assert result["notes"] == []
        step[engine] = np.load(tmp_path / engine / "outputs.npz")["linear"]
    scale = np.abs(want).max() / (65535 if form == "16 bit" else 255)
    np.testing.assert_allclose(step["float"], want, atol=3 * scale)
    # The chip's own rounding moves a value by a few steps of some layer.
    np.testing.assert_allclose(step["fixed"], want, atol=8 * np.abs(want).max() / 255)
    np.testing.assert_array_equal(step["fixed"].argmax(-1), want.argmax(-1))
    if "htp" in step:
        np.testing.assert_array_equal(step["fixed"], step["htp"])
        arguments = ["--inputs", tmp_path / "x.npy", "--engine", "fixed", "-t", "v68", "--compare", "htp"]
        code, result = exec_model(model, *arguments, "-o", tmp_path / "compared")
        assert code == 0, result
        assert result["samples"] == 3
        assert result["total"]["compared"] > 100000
        assert result["total"]["max_steps"] <= 1
        assert len(result["values"]) > 10
        assert all(value["cosine"] > 0.9999 for value in result["values"])
        assert json.loads((tmp_path / "compared/compare.json").read_text())["total"] == result["total"]


@needs_vendor
def test_dlcs_run_on_both_engines(tmp_path: Path) -> None:
    if not Path("/usr/share/datasets/fashion-mnist").is_dir():
        pytest.skip("dataset-fashion-mnist is not installed")
    pipeline = ROOT / "examples/fashion_resnet/pipeline.yaml"
    subprocess.run([PROGRAM, "run", pipeline, "-o", tmp_path / "built", "-t", "v75", "-q"], check=True)
    dlc = next((tmp_path / "built/registry").rglob("model.dlc"))
    np.save(tmp_path / "x.npy", images(2))
    found = {}
    for engine in ["fixed", "htp"]:
        arguments = [
            "--inputs",
            tmp_path / "x.npy",
            "-o",
            tmp_path / engine,
            "--engine",
            engine,
            "-t",
            "v75",
            "--native",
        ]
        code, result = exec_model(dlc, *arguments, "--trace")
        assert code == 0, result
        found[engine] = np.load(tmp_path / engine / "trace.npz")
        assert np.load(tmp_path / engine / "outputs.npz")["linear"].dtype == np.uint8
    assert set(found["fixed"].files) == set(found["htp"].files)
    for name in found["fixed"].files:
        np.testing.assert_array_equal(found["fixed"][name], found["htp"][name])
    code, result = exec_model(dlc, "--inputs", tmp_path / "x.npy", "--engine", "fixed", "-t", "v75", "--compare", "htp")
    assert code == 0, result
    assert result["total"]["equal"] == result["total"]["compared"] > 50000
    assert refused(dlc, "--inputs", tmp_path / "x.npy", "-o", tmp_path / "out") == "unsupported-form"
    arguments = ["--inputs", tmp_path / "x.npy", "-o", tmp_path / "out", "--engine", "fixed", "-t", "v75"]
    assert refused(dlc, *arguments, "--dim", "batch=1") == "usage"
    binary = dlc.with_name("model.bin")
    arguments[-3] = "htp"
    assert exec_model(binary, *arguments)[0] == 0
    want = np.load(tmp_path / "htp/outputs.npz")["linear"]
    np.testing.assert_array_equal(np.load(tmp_path / "out/outputs.npz")["linear"].argmax(-1), want.argmax(-1))
    assert refused(binary, *arguments[:-1], "v73") == "vendor-mismatch"
    arguments[-3] = "fixed"
    assert refused(binary, *arguments) == "unsupported-form"
    (tmp_path / "broken.dlc").write_bytes(dlc.read_bytes()[:1000])
    assert refused(tmp_path / "broken.dlc", *arguments) in {"dlc-invalid", "file-truncated", "not-a-zip"}


def test_mobilenet_needs_less_than_60_mb_beside_its_weights(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    module = transformers.MobileNetV2ForImageClassification(transformers.MobileNetV2Config()).eval()
    x = torch.zeros(1, 3, 224, 224)

    class Logits(torch.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.net = module

        def forward(self, pixels: Any) -> Any:
            return self.net(pixels).logits

    with torch.no_grad():
        torch.export.save(torch.export.export(Logits().eval(), (x,)), tmp_path / "net.pt2")
    weights = sum(tensor.numel() * 4 for tensor in module.state_dict().values())
    np.save(tmp_path / "x.npy", x.numpy())
    info = subprocess.run([PROGRAM, "info", tmp_path / "net.pt2", "--json"], capture_output=True, check=True, text=True)
    memory = json.loads(info.stdout)["result"]["memory"]
    assert memory["activation_bytes"] < 8e6
    assert memory["ratio"] <= 1.2
    code, result = exec_model(tmp_path / "net.pt2", "--inputs", tmp_path / "x.npy", "-o", tmp_path / "out")
    assert code == 0, result
    assert result["memory"]["activation_bytes"] == memory["activation_bytes"]
    assert result["memory"]["activation_bytes"] + result["memory"]["scratch_bytes"] < 20e6
    # The whole process: program, file of weights and packed weights included.
    script = (
        "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); "
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    command = [PROGRAM, "exec", tmp_path / "net.pt2", "--inputs", tmp_path / "x.npy", "-o", tmp_path / "out"]
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, command)], capture_output=True, check=True, text=True
    )
    assert int(done.stdout) * 1024 - weights < 60e6


def test_pp_ocr_recognition_gives_what_onnx_runtime_gives(tmp_path: Path) -> None:
    ort = pytest.importorskip("onnxruntime")
    package = importlib.util.find_spec("rapidocr_onnxruntime")
    if package is None or package.origin is None:
        pytest.skip("rapidocr-onnxruntime is not installed")
    model = Path(package.origin).parent / "models/ch_PP-OCRv4_rec_infer.onnx"
    session = ort.InferenceSession(model)
    name = session.get_inputs()[0].name
    x = np.random.default_rng(3).standard_normal((2, 3, 48, 160), dtype=np.float32)
    np.savez(tmp_path / "in.npz", **{name: x})
    arguments = ["--inputs", tmp_path / "in.npz", "-o", tmp_path / "out", "--shape", f"{name}=1,3,48,160"]
    code, result = exec_model(model, *arguments)
    assert code == 0, result
    got = np.load(tmp_path / "out/outputs.npz")
    wanted = [output.name for output in session.get_outputs()]
    assert got.files == wanted
    want = np.concatenate([session.run(None, {name: x[i : i + 1]})[0] for i in range(2)])
    np.testing.assert_allclose(got[wanted[0]], want, atol=2e-4)
    np.testing.assert_array_equal(got[wanted[0]].argmax(-1), want.argmax(-1))
