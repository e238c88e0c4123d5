"""htpipe convert: what is written is valid, computes what its source computes, and leaves nothing to remove."""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
BUILD = Path(os.environ.get("HTPIPE_BUILD", ROOT / "build"))
PROGRAM = BUILD / "bin" / "htpipe"
EXAMPLE = ROOT / "examples/fashion_resnet/fashion_resnet.pt2"
CONFORMANCE = sorted((ROOT / "tests/conformance").glob("*.htir"))

pytestmark = pytest.mark.skipif(not PROGRAM.is_file(), reason=f"{PROGRAM} is not built")
onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
torch = pytest.importorskip("torch")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from torch import Tensor, nn  # noqa: E402

sys.path.insert(0, str(BUILD / "python"))


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [str(PROGRAM), *map(str, arguments)]
    env = os.environ | {"HTPIPE_PYTHON": sys.executable}
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=env, timeout=600)


def convert(source: Path, output: Path, *arguments: object) -> dict[str, Any]:
    """Converts, and gives the answer of a conversion that worked."""
    result = run("convert", source, "-o", output, "--json", *arguments)
    document: dict[str, Any] = json.loads(result.stdout)
    assert result.returncode == 0, (document, result.stderr)
    answer: dict[str, Any] = document["result"]
    return answer


def session(model: Path) -> Any:
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return runtime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])


def outputs(model: Path, inputs: dict[str, Any]) -> list[Any]:
    return list(session(model).run(None, inputs))


def save(module: nn.Module, inputs: tuple[Tensor, ...], path: Path) -> Path:
    torch.export.save(torch.export.export(module.eval(), inputs), path)
    return path


def operators(model: Any) -> Counter[str]:
    return Counter(node.op_type for node in model.graph.node)


# --- every operator: the conformance cases, our engine against ONNX Runtime ------------------------------------------


def cases(path: Path) -> list[tuple[str, str]]:
    """Name and text of the graphs in a file of cases."""
    found = []
    for name, text in re.findall(
        r"^# case: (\S+)\n(?:#[^\n]*\n)*(graph .*?}$(?=\n\n|\n?\Z))", path.read_text(), re.M | re.S
    ):
        found.append((name, text))
    return found


def ranges(path: Path, name: str) -> dict[str, tuple[float, float]]:
    block = path.read_text().split(f"# case: {name}\n")[1].split("\ngraph ")[0]
    return {
        value: (float(low), float(high)) for value, low, high in re.findall(r"(\S+)=(-?[\d.]+)\.\.(-?[\d.]+)", block)
    }


@pytest.mark.parametrize("path", CONFORMANCE, ids=lambda path: path.stem)
def test_every_conformance_case(path: Path, tmp_path: Path) -> None:
    htpipe = pytest.importorskip("htpipe")
    from htpipe._verify_onnx import random_input

    compared = 0
    for name, text in cases(path):
        if "<" in text.split("{")[0]:
            continue  # stored integers: quantized_test.cc
        if "radius_after" in text:
            continue  # an even window: ONNX Runtime executes odd ones only
        for opset in (17, 21):
            source, written = tmp_path / f"{name}.htir", tmp_path / f"{name}_{opset}.onnx"
            source.write_text(text)
            if opset == 17:
                refused = run("convert", source, "-o", written, "--opset", opset, "--no-verify").stderr
                if "unsupported-form" in refused and re.search("needs? opset", refused):
                    continue
            convert(source, written, "--opset", opset, "--no-verify")
            onnx.checker.check_model(str(written), full_check=True)
            bounds = ranges(path, name)
            generator = np.random.default_rng(1)
            inputs = {
                value.name: random_input(generator, value, str(written), list(bounds.get(value.name, (-1, 1))))
                for value in session(written).get_inputs()
            }
            model = htpipe.load(source)
            expected = model.run(*inputs.values())
            for info, ours, theirs in zip(model.outputs, expected, outputs(written, inputs), strict=True):
                assert theirs.shape == info.shape, name
                assert theirs.dtype == ours.dtype, name
                np.testing.assert_allclose(theirs, ours, rtol=2e-5, atol=2e-5, err_msg=f"{name}, opset {opset}")
        compared += 1
    assert compared > 0 or path.stem in {"chain", "convert", "dequantize", "quantize"}


# --- operators that have no conformance cases, and other data types --------------------------------------------------

BINARY = ["add", "subtract", "multiply", "divide", "maximum", "minimum", "mod", "fmod", "floor_div", "power",
          "squared_difference", "atan2", "equal", "not_equal", "less", "less_equal", "greater",
          "greater_equal"]  # fmt: skip
UNARY = ["abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "erf", "exp", "floor", "log",
         "neg", "reciprocal", "round", "rsqrt", "sign", "sin", "sinh", "sqrt", "tan", "trunc"]  # fmt: skip
TEXTS = {
    **{
        f"binary_{op}": f"graph @g(%x: f32[3,4], %z: f32[4]) -> (%y) {{ %y = ElementWiseBinary(%x, %z) "
        f'{{operation="{op}"}} }}'
        for op in BINARY
    },
    **{
        f"binary_{op}_{dtype}": f"graph @g(%x: {dtype}[3,4], %z: {dtype}[4]) -> (%y) "
        f'{{ %y = ElementWiseBinary(%x, %z) {{operation="{op}"}} }}'
        for dtype in ("i64", "i32", "i8", "u8")
        for op in ("add", "multiply", "maximum", "less", "not_equal", "squared_difference")
    },
    **{
        f"logic_{op}": f"graph @g(%x: bool[3,4], %z: bool[4]) -> (%y) {{ %y = ElementWiseBinary(%x, %z) "
        f'{{operation="{op}"}} }}'
        for op in ("and", "or", "xor", "not_equal", "equal", "maximum", "multiply")
    },
    **{
        f"unary_{op}": f'graph @g(%x: f32[3,4]) -> (%y) {{ %y = ElementWiseUnary(%x) {{operation="{op}"}} }}'
        for op in UNARY
    },
    **dict(cases(ROOT / "tests/data/convert/operators.htir")),
}
POSITIVE = {"binary_power", "unary_log", "unary_sqrt", "unary_rsqrt", "unary_reciprocal", "unary_acosh"}
INNER = {"unary_acos", "unary_asin", "unary_atanh"}
NEWEST_ONLY = {"resize_antialias": 18, "grid_sample": 16, "grid_sample_nhwc": 16, "roi_align": 16}


@pytest.mark.parametrize("name", TEXTS)
def test_every_operator(name: str, tmp_path: Path) -> None:
    htpipe = pytest.importorskip("htpipe")
    source = tmp_path / "g.htir"
    source.write_text(TEXTS[name])
    model = htpipe.load(source)
    generator = np.random.default_rng(1)
    inputs: dict[str, Any] = {}
    for info in model.inputs:
        if info.dtype in ("f32", "f16"):
            low, high = (1.1, 3) if name in POSITIVE else (-0.9, 0.9) if name in INNER else (-3, 3)
            inputs[info.name] = generator.uniform(low, high, info.shape).astype(info.numpy_dtype)
        elif info.dtype == "bool":
            inputs[info.name] = generator.integers(0, 2, info.shape).astype(bool)
        else:
            low = 0 if info.dtype.startswith("u") or info.name == "z" else -9
            inputs[info.name] = generator.integers(low, 9, info.shape).astype(info.numpy_dtype)
    expected = model.run(*inputs.values())
    for opset in (13, 17, 18, 21):
        if opset < NEWEST_ONLY.get(name, 13):
            continue
        written = tmp_path / f"g_{opset}.onnx"
        document = convert(source, written, "--opset", opset, "--no-verify")
        assert document["verified"] is False
        onnx.checker.check_model(str(written), full_check=True)
        for ours, theirs in zip(expected, outputs(written, inputs), strict=True):
            assert theirs.dtype == ours.dtype
            np.testing.assert_allclose(
                theirs, ours, rtol=2e-3 if name == "f16" else 3e-5, atol=2e-5, err_msg=str(opset)
            )


# --- whole models ----------------------------------------------------------------------------------------------------


class Transformer(nn.Module):
    """One block with attention, LayerNorm and GELU."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(32), nn.LayerNorm(32)
        self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)
        self.up, self.down = nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (part.reshape(1, 7, 4, 8).transpose(1, 2) for part in self.qkv(self.norm1(x)).chunk(3, dim=-1))
        weights = torch.softmax(q @ k.transpose(-1, -2) / 8**0.5, dim=-1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(1, 7, 32))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class Mobile(nn.Module):
    """Inverted residual with squeeze and excitation, hard-swish and batch normalisation."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.Hardswish())
        self.expand = nn.Sequential(nn.Conv2d(8, 24, 1, bias=False), nn.BatchNorm2d(24), nn.ReLU6())
        self.depth = nn.Sequential(
            nn.Conv2d(24, 24, 3, 1, 1, groups=24, bias=False), nn.BatchNorm2d(24), nn.Hardswish()
        )
        self.squeeze = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(24, 6, 1), nn.ReLU(), nn.Conv2d(6, 24, 1))
        self.project = nn.Sequential(nn.Conv2d(24, 8, 1, bias=False), nn.BatchNorm2d(8))
        self.head = nn.Linear(8, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        y = self.depth(self.expand(x))
        y = y * nn.functional.hardsigmoid(self.squeeze(y))
        x = x + self.project(y)
        return self.head(x.mean((2, 3)))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(8, 12, num_layers=2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(24, 3)

    def forward(self, x: Tensor) -> Tensor:
        states, _ = self.lstm(x)
        return self.head(states)


MODELS: dict[str, tuple[type[nn.Module], tuple[int, ...]]] = {
    "transformer": (Transformer, (1, 7, 32)),
    "mobile": (Mobile, (1, 3, 32, 32)),
    "lstm": (Recurrent, (1, 6, 8)),
}


def source_of(name: str, folder: Path) -> Path:
    if name == "fashion_resnet":
        return EXAMPLE
    module, shape = MODELS[name]
    torch.manual_seed(1)
    return save(module(), (torch.randn(shape),), folder / f"{name}.pt2")


@pytest.mark.parametrize("name", ["fashion_resnet", *MODELS])
@pytest.mark.parametrize("opset", [13, 17, 21])
def test_models_are_checked_and_compared_with_pytorch(name: str, opset: int, tmp_path: Path) -> None:
    written = tmp_path / "model.onnx"
    document = convert(source_of(name, tmp_path), written, "--opset", opset)
    assert document["verified"] is True
    assert document["opset"] == opset
    for row in document["outputs"]:
        assert row["max_difference"] < row["allowed"]
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix != ".pt2") == ["model.onnx"]


@pytest.mark.parametrize("name", ["fashion_resnet", *MODELS])
def test_onnx_tools_find_nothing_to_remove(name: str, tmp_path: Path) -> None:
    onnxsim = pytest.importorskip("onnxsim")
    onnxoptimizer = pytest.importorskip("onnxoptimizer")
    written = tmp_path / "model.onnx"
    convert(source_of(name, tmp_path), written)
    model = onnx.load(written)
    simplified, same = onnxsim.simplify(model)
    assert same
    # onnxsim writes MatMul and Add of rank 3 as Reshape, Gemm and Reshape: another form, and no node less.
    assert operators(simplified).total() >= operators(model).total()
    for kind in set(operators(model)) - {"MatMul", "Add", "Transpose"}:
        assert operators(simplified)[kind] >= operators(model)[kind], kind
    assert operators(onnxoptimizer.optimize(model)) == operators(model)


def test_an_export_is_imported_and_exported_to_the_same(tmp_path: Path) -> None:
    for name in ["fashion_resnet", *MODELS]:
        first, second = tmp_path / "first.onnx", tmp_path / "second.onnx"
        convert(source_of(name, tmp_path), first)
        convert(first, second)
        before, after = operators(onnx.load(first)), operators(onnx.load(second))
        if name == "lstm":
            del before["Reshape"], after["Reshape"]  # the axis of directions comes and goes
        assert before == after, name


# --- ONNX sources, options, errors -----------------------------------------------------------------------------------


def onnx_model(
    nodes: list[Any],
    inputs: dict[str, list[Any]],
    result: list[Any],
    weights: dict[str, Any],
    path: Path,
    opset: int = 17,
) -> Path:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, result)],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = 8 if opset < 20 else 10
    onnx.save(model, path)
    return path


def test_names_and_dims_of_an_onnx_source(tmp_path: Path) -> None:
    weight = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)
    nodes = [helper.make_node("MatMul", ["image", "weight"], ["hidden"]), helper.make_node("Relu", ["hidden"], ["y"])]
    source = onnx_model(nodes, {"image": ["batch", 4]}, ["batch", 6], {"weight": weight}, tmp_path / "source.onnx")
    result = run("convert", source, "-o", tmp_path / "out.onnx")
    assert result.returncode == 1
    assert "dynamic-shape" in result.stderr
    convert(source, tmp_path / "out.onnx", "--dim", "batch=3")
    model = onnx.load(tmp_path / "out.onnx")
    assert [value.name for value in model.graph.input] == ["image"]
    assert [sorted(value.dims) for value in model.graph.initializer] == [[4, 6]]
    assert [node.output[0] for node in model.graph.node] == ["hidden", "y"]
    info = json.loads(run("info", source, "--shape", "image=2,4", "--json").stdout)["result"]
    assert info["inputs"][0]["shape"] == [2, 4]


def test_fixed_inputs_are_gone_and_the_comparison_knows_them(tmp_path: Path) -> None:
    nodes = [helper.make_node("Mul", ["x", "factor"], ["y"])]
    source = onnx_model(nodes, {"x": [2, 3], "factor": [1]}, [2, 3], {}, tmp_path / "source.onnx")
    np.save(tmp_path / "factor.npy", np.array([2.5], np.float32))
    convert(source, tmp_path / "out.onnx", "--fix", f"factor={tmp_path / 'factor.npy'}")
    assert [value.name for value in onnx.load(tmp_path / "out.onnx").graph.input] == ["x"]
    ones = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(outputs(tmp_path / "out.onnx", {"x": ones})[0], 2.5 * ones)


def test_quantised_sources_keep_their_scales(tmp_path: Path) -> None:
    weights = {
        "scale": np.float32(0.05),
        "zero": np.uint8(120),
        "w": np.random.default_rng(0).integers(-127, 127, (4, 3)).astype(np.int8),
        "w_scale": np.array([0.01, 0.02, 0.03], np.float32),
        "w_zero": np.zeros(3, np.int8),
    }
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["d"]),
        helper.make_node("DequantizeLinear", ["w", "w_scale", "w_zero"], ["r"], axis=1),
        helper.make_node("MatMul", ["d", "r"], ["y"]),
    ]
    arrays = {name: np.asarray(value) for name, value in weights.items()}
    source = onnx_model(nodes, {"x": [2, 4]}, [2, 3], arrays, tmp_path / "source.onnx")
    convert(source, tmp_path / "out.onnx")
    model = onnx.load(tmp_path / "out.onnx")
    assert operators(model) == operators(onnx.load(source))
    assert [list(value.dims) for value in model.graph.initializer if value.data_type == TensorProto.INT8].count(
        [4, 3]
    ) == 1


def test_blocks_of_four_bits_keep_their_scales(tmp_path: Path) -> None:
    stored = np.random.default_rng(0).integers(-8, 8, (8, 3))
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "w_scale"], ["r"], axis=0, block_size=4),
        helper.make_node("MatMul", ["x", "r"], ["y"]),
    ]
    scales = np.arange(1, 7, dtype=np.float32).reshape(2, 3) / 16
    source = onnx_model(nodes, {"x": [2, 8]}, [2, 3], {"w_scale": scales}, tmp_path / "source.onnx", opset=21)
    model = onnx.load(source)
    model.graph.initializer.append(helper.make_tensor("w", TensorProto.INT4, [8, 3], stored.flatten()))
    onnx.save(model, source)
    convert(source, tmp_path / "out.onnx", "--opset", 21)
    written = onnx.load(tmp_path / "out.onnx")
    (weight,) = [value for value in written.graph.initializer if list(value.dims) == [8, 3]]
    assert (weight.data_type, len(weight.raw_data)) == (TensorProto.INT4, 12)
    result = run("convert", source, "-o", tmp_path / "older.onnx", "--opset", 20)
    assert result.returncode == 1
    assert "unsupported-form" in result.stderr


def test_weights_beside_the_model(tmp_path: Path) -> None:
    document = convert(EXAMPLE, tmp_path / "net.onnx", "--external-data")
    assert document["data_file"].endswith("net.onnx.data")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["net.onnx", "net.onnx.data"]
    inline = tmp_path / "inline.onnx"
    convert(EXAMPLE, inline)
    assert (tmp_path / "net.onnx").stat().st_size < inline.stat().st_size / 2
    image = {"x": np.random.default_rng(0).random((1, 1, 28, 28), np.float32)}
    np.testing.assert_array_equal(outputs(tmp_path / "net.onnx", image)[0], outputs(inline, image)[0])


def test_the_same_model_gives_the_same_bytes(tmp_path: Path) -> None:
    convert(EXAMPLE, tmp_path / "a.onnx", "--no-verify")
    convert(EXAMPLE, tmp_path / "b.onnx", "--no-verify")
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()


def test_a_difference_is_an_error_and_nothing_is_written(tmp_path: Path) -> None:
    # Rounding decides: what stands at .5 in one engine does not in another.
    text = (
        'graph @g(%x: f32[64]) -> (%y) { %a = const f32[] [1e6]\n%b = ElementWiseUnary(%x) {operation="exp"}\n'
        '%c = ElementWiseUnary(%b) {operation="tan"}\n%d = ElementWiseBinary(%c, %a) {operation="multiply"}\n'
        '%e = ElementWiseUnary(%d) {operation="sin"}\n%y = ElementWiseUnary(%e) {operation="exp"} }'
    )
    (tmp_path / "g.htir").write_text(text)
    result = run("convert", tmp_path / "g.htir", "-o", tmp_path / "out.onnx", "--json")
    document = json.loads(result.stdout)
    assert result.returncode == 1
    assert document["error"]["code"] == "export-mismatch"
    assert "output y" in json.dumps(document)
    assert [path.name for path in tmp_path.iterdir()] == ["g.htir"]


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["-o", "model.pt2"], "usage"),
        (["-o", "model.onnx", "--opset", "12"], "usage"),
        (["-o", "model.onnx", "--dim", "batch"], "usage"),
        (["-o", "model.onnx", "--dim", "batch=-1"], "usage"),
        (["-o", "model.onnx", "--shape", "x=1,,2"], "usage"),
        (["-o", "model.onnx", "--fix", "x=hello"], "usage"),
        (["-o", "model.onnx", "--fix", "x=missing.npy"], "file-missing"),
    ],
)
def test_wrong_command_lines(arguments: list[str], word: str) -> None:
    result = run("convert", EXAMPLE, *arguments)
    assert result.returncode == (1 if word == "file-missing" else 2)
    assert word in result.stderr
    assert not (ROOT / "model.onnx").exists()
