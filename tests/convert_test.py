"""htpipe convert: what is written is valid, computes what its source computes, and leaves nothing to remove."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
torch = pytest.importorskip("torch")
from convert_tools import PROGRAM, ROOT, convert, operators, outputs, run  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from torch import Tensor, nn  # noqa: E402

EXAMPLE = ROOT / "examples/fashion_resnet/fashion_resnet.pt2"

pytestmark = pytest.mark.skipif(not PROGRAM.is_file(), reason=f"{PROGRAM} is not built")


def save(module: nn.Module, inputs: tuple[Tensor, ...], path: Path) -> Path:
    torch.export.save(torch.export.export(module.eval(), inputs), path)
    return path


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
    # Not a removal but another form, of more nodes: Reshape, Gemm and Reshape for MatMul and Add with three axes.
    simplified, same = onnxsim.simplify(model, skipped_optimizers=["fuse_matmul_add_bias_into_gemm_batched"])
    assert same
    assert operators(simplified) == operators(model)
    assert operators(onnxoptimizer.optimize(model)) == operators(model)


def test_an_export_is_imported_and_exported_to_the_same(tmp_path: Path) -> None:
    for name in ["fashion_resnet", *MODELS]:
        first, second = tmp_path / "first.onnx", tmp_path / "second.onnx"
        convert(source_of(name, tmp_path), first)
        convert(first, second)
        assert operators(onnx.load(first)) == operators(onnx.load(second)), name


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
    for hint, sizes in (("are batch", ["--dim", "bach=3", "--dim", "batch=3"]), ("image", ["--shape", "imag=2,4"])):
        refused = run("info", source, *sizes)
        assert refused.returncode == 2
        assert "usage" in refused.stderr
        assert hint in refused.stderr


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
def test_wrong_command_lines(arguments: list[str], word: str, tmp_path: Path) -> None:
    placed = [str(tmp_path / argument) if argument.startswith("model.") else argument for argument in arguments]
    result = run("convert", EXAMPLE, *placed)
    assert result.returncode == (1 if word == "file-missing" else 2)
    assert word in result.stderr
    assert not list(tmp_path.iterdir())
