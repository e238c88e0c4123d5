"""Malformed files of every format that is read, and the error code that each must give.

The files are made on the spot: from a good one by damage, or with the format's own library by breaking a rule.
`htpipe info FILE --json` (models, graph texts) or `htpipe run FILE --json` (pipeline files) reads them.
"""

import io
import json
import os
import struct
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

ROOT = Path(__file__).parent.parent
PROGRAM = Path(os.environ.get("HTPIPE_BUILD", ROOT / "build")) / "bin" / "htpipe"
ARCHIVE = ROOT / "examples/fashion_resnet/fashion_resnet.pt2"
PIPELINE = ROOT / "examples/fashion_resnet/pipeline.yaml"

pytestmark = pytest.mark.skipif(not PROGRAM.is_file(), reason=f"{PROGRAM} is not built")

Maker = Callable[[Path], Path]
CASES: dict[str, tuple[str, Maker]] = {}


def case(code: str) -> Callable[[Maker], Maker]:
    """Registers a maker of a file that must be refused with `code`."""

    def register(maker: Maker) -> Maker:
        CASES[maker.__name__] = (code, maker)
        return maker

    return register


def written(path: Path, content: bytes | str) -> Path:
    """The path, after the content was written to it."""
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


# --- ONNX -------------------------------------------------------------------------------------------------------------

FLOAT = TensorProto.FLOAT


def value(name: str, shape: list[int | str] | None, kind: int = FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def good() -> onnx.ModelProto:
    """x [1,2,4,4] -> Conv -> Relu -> y."""
    weight = helper.make_tensor("w", FLOAT, [3, 2, 1, 1], np.arange(6, dtype=np.float32).tobytes(), raw=True)
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], "conv"), helper.make_node("Relu", ["c"], ["y"], "relu")]
    graph = helper.make_graph(nodes, "g", [value("x", [1, 2, 4, 4])], [value("y", [1, 3, 4, 4])], [weight])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def one_node(node: onnx.NodeProto, inputs: dict[str, list[int | str] | None], *initializers: onnx.TensorProto) -> bytes:
    """A model of one node with one output, y."""
    infos = [value(name, shape) for name, shape in inputs.items()]
    graph = helper.make_graph([node], "g", infos, [value("y", None)], list(initializers))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString()


def broken_onnx(code: str) -> Callable[[Callable[[onnx.ModelProto], None]], None]:
    """A case that changes the good model."""

    def register(change: Callable[[onnx.ModelProto], None]) -> None:
        def maker(folder: Path) -> Path:
            model = good()
            change(model)
            return written(folder / "model.onnx", model.SerializeToString())

        maker.__name__ = change.__name__
        CASES[change.__name__] = (code, maker)

    return register


def node_case(name: str, code: str, content: Callable[[], bytes]) -> None:
    CASES[name] = (code, lambda folder: written(folder / "model.onnx", content()))


@case("onnx-invalid")
def onnx_empty(folder: Path) -> Path:
    return written(folder / "model.onnx", b"")


@case("onnx-invalid")
def onnx_noise(folder: Path) -> Path:
    return written(folder / "model.onnx", np.random.default_rng(0).bytes(4096))


@case("onnx-invalid")
def onnx_cut_off(folder: Path) -> Path:
    return written(folder / "model.onnx", good().SerializeToString()[:-40])


@case("onnx-invalid")
def onnx_trailing_bytes(folder: Path) -> Path:
    return written(folder / "model.onnx", good().SerializeToString() + b"\x07\x00\xff")


@broken_onnx("onnx-invalid")
def onnx_no_graph(model: onnx.ModelProto) -> None:
    model.ClearField("graph")


@broken_onnx("onnx-invalid")
def onnx_no_opset(model: onnx.ModelProto) -> None:
    del model.opset_import[:]


@broken_onnx("onnx-version")
def onnx_old_opset(model: onnx.ModelProto) -> None:
    model.opset_import[0].version = 3


@broken_onnx("onnx-version")
def onnx_future_opset(model: onnx.ModelProto) -> None:
    model.opset_import[0].version = 99


@broken_onnx("onnx-invalid")
def onnx_missing_input(model: onnx.ModelProto) -> None:
    model.graph.node[1].input[0] = "nobody"


@broken_onnx("onnx-invalid")
def onnx_wrong_order(model: onnx.ModelProto) -> None:
    conv, relu = (onnx.NodeProto.FromString(node.SerializeToString()) for node in model.graph.node)
    model.graph.node[0].CopyFrom(relu)
    model.graph.node[1].CopyFrom(conv)


@broken_onnx("onnx-invalid")
def onnx_missing_output(model: onnx.ModelProto) -> None:
    model.graph.output[0].name = "nobody"


@broken_onnx("onnx-invalid")
def onnx_missing_weight_operand(model: onnx.ModelProto) -> None:
    del model.graph.node[0].input[1:]


@broken_onnx("onnx-invalid")
def onnx_short_weight(model: onnx.ModelProto) -> None:
    model.graph.initializer[0].raw_data = b"\0" * 20


@broken_onnx("onnx-invalid")
def onnx_negative_size(model: onnx.ModelProto) -> None:
    model.graph.initializer[0].dims[0] = -3


@broken_onnx("onnx-invalid")
def onnx_absurd_size(model: onnx.ModelProto) -> None:
    model.graph.initializer[0].dims[0] = 1 << 62


@broken_onnx("onnx-invalid")
def onnx_wrong_count(model: onnx.ModelProto) -> None:
    model.graph.initializer[0].ClearField("raw_data")
    model.graph.initializer[0].float_data.extend([1.0, 2.0])


@broken_onnx("unsupported-form")
def onnx_unknown_data_type(model: onnx.ModelProto) -> None:
    model.graph.initializer[0].data_type = 77


@broken_onnx("unsupported-form")
def onnx_string_input(model: onnx.ModelProto) -> None:
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.STRING


@broken_onnx("unsupported-form")
def onnx_sparse_weight(model: onnx.ModelProto) -> None:
    model.graph.sparse_initializer.add().dims.append(3)


@broken_onnx("dynamic-shape")
def onnx_symbolic_size(model: onnx.ModelProto) -> None:
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"


@broken_onnx("dynamic-shape")
def onnx_unknown_rank(model: onnx.ModelProto) -> None:
    model.graph.input[0].type.tensor_type.ClearField("shape")


@broken_onnx("unsupported-op")
def onnx_unknown_operator(model: onnx.ModelProto) -> None:
    model.graph.node[1].op_type = "Frobnicate"


@broken_onnx("unsupported-op")
def onnx_unknown_domain(model: onnx.ModelProto) -> None:
    model.graph.node[1].domain = "com.example"


@broken_onnx("onnx-invalid")
def onnx_attribute_of_wrong_type(model: onnx.ModelProto) -> None:
    model.graph.node[0].attribute.append(helper.make_attribute("group", "two"))


@broken_onnx("shape-mismatch")
def onnx_channels_do_not_fit(model: onnx.ModelProto) -> None:
    model.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 5


def external(model: onnx.ModelProto, **entries: str) -> None:
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, text in entries.items():
        tensor.external_data.add(key=key, value=text)


@broken_onnx("external-data")
def onnx_data_file_missing(model: onnx.ModelProto) -> None:
    external(model, location="weights.bin")


@broken_onnx("external-data")
def onnx_data_file_outside(model: onnx.ModelProto) -> None:
    external(model, location="../weights.bin")


@broken_onnx("external-data")
def onnx_data_file_absolute(model: onnx.ModelProto) -> None:
    external(model, location="/etc/passwd")


@broken_onnx("external-data")
def onnx_data_file_without_name(model: onnx.ModelProto) -> None:
    external(model)


@broken_onnx("external-data")
def onnx_data_beyond_the_end(model: onnx.ModelProto) -> None:
    external(model, location="model.onnx", offset=str(1 << 40))


@broken_onnx("external-data")
def onnx_data_of_wrong_length(model: onnx.ModelProto) -> None:
    external(model, location="model.onnx", length="4")


@broken_onnx("external-data")
def onnx_data_offset_is_no_number(model: onnx.ModelProto) -> None:
    external(model, location="model.onnx", offset="ten")


@broken_onnx("onnx-invalid")
def onnx_function_calls_itself(model: onnx.ModelProto) -> None:
    model.opset_import.append(helper.make_opsetid("mine", 1))
    body = [helper.make_node("Loopy", ["a"], ["b"], domain="mine")]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("mine", 1)]
    model.functions.append(helper.make_function("mine", "Loopy", ["a"], ["b"], body, opsets))
    model.graph.node[1].CopyFrom(helper.make_node("Loopy", ["c"], ["y"], domain="mine"))


@broken_onnx("unsupported-op")
def onnx_function_with_unknown_operator(model: onnx.ModelProto) -> None:
    model.opset_import.append(helper.make_opsetid("mine", 1))
    body = [helper.make_node("Frobnicate", ["a"], ["b"])]
    model.functions.append(helper.make_function("mine", "F", ["a"], ["b"], body, [helper.make_opsetid("", 17)]))
    model.graph.node[1].CopyFrom(helper.make_node("F", ["c"], ["y"], domain="mine"))


@broken_onnx("needs-constant")
def onnx_condition_is_computed(model: onnx.ModelProto) -> None:
    branch = helper.make_graph([helper.make_node("Relu", ["c"], ["b"])], "branch", [], [value("b", None)])
    model.graph.input.append(value("flag", [], TensorProto.BOOL))
    model.graph.node[1].CopyFrom(helper.make_node("If", ["flag"], ["y"], then_branch=branch, else_branch=branch))


def field(number: int, content: bytes) -> bytes:
    """A length-delimited protobuf field."""
    size = len(content)
    encoded = bytearray()
    while size >= 128:
        encoded.append(size % 128 + 128)
        size //= 128
    encoded.append(size)
    return bytes([number * 8 + 2]) + bytes(encoded) + content


@case("onnx-invalid")
def onnx_branches_too_deep(folder: Path) -> Path:
    graph = b""
    for _ in range(100):  # a graph in an attribute of a node of a graph
        graph = field(1, field(5, field(1, b"then_branch") + field(6, graph)))
    head = good()
    head.ClearField("graph")
    return written(folder / "model.onnx", head.SerializeToString() + field(7, graph))


ints = lambda name, *values: helper.make_tensor(name, TensorProto.INT64, [len(values)], values)  # noqa: E731
node_case(
    "onnx_sizes_do_not_broadcast",
    "shape-mismatch",
    lambda: one_node(helper.make_node("Add", ["a", "b"], ["y"]), {"a": [2, 3], "b": [4]}),
)
node_case(
    "onnx_reshape_of_another_count",
    "shape-mismatch",
    lambda: one_node(helper.make_node("Reshape", ["x", "s"], ["y"]), {"x": [2, 3]}, ints("s", 4, 2)),
)
node_case(
    "onnx_axis_outside",
    "unsupported-form",
    lambda: one_node(helper.make_node("Softmax", ["x"], ["y"], axis=7), {"x": [2, 3]}),
)
node_case(
    "onnx_permutation_with_a_double",
    "onnx-invalid",
    lambda: one_node(helper.make_node("Transpose", ["x"], ["y"], perm=[0, 0]), {"x": [2, 3]}),
)
node_case(
    "onnx_product_does_not_fit",
    "shape-mismatch",
    lambda: one_node(helper.make_node("MatMul", ["a", "b"], ["y"]), {"a": [2, 3], "b": [4, 2]}),
)
node_case(
    "onnx_result_fills_the_memory",
    "unsupported-form",
    lambda: one_node(helper.make_node("Tile", ["x", "r"], ["y"]), {"x": [2, 3]}, ints("r", 1 << 40, 1 << 40)),
)


# --- .pt2 -------------------------------------------------------------------------------------------------------------


def repacked(folder: Path, change: Callable[[str, bytes], tuple[str, bytes] | None], method: int = 0) -> Path:
    """The example's archive with entries changed or left out."""
    out = io.BytesIO()
    with zipfile.ZipFile(ARCHIVE) as source, zipfile.ZipFile(out, "w", method) as target:
        for info in source.infolist():
            entry = change(info.filename, source.read(info))
            if entry is not None:
                target.writestr(entry[0], entry[1])
    return written(folder / "model.pt2", out.getvalue())


def edited(folder: Path, old: bytes, new: bytes) -> Path:
    def change(name: str, data: bytes) -> tuple[str, bytes]:
        if name.endswith("models/model.json"):
            assert old in data
            data = data.replace(old, new)
        return name, data

    return repacked(folder, change)


@case("not-a-zip")
def pt2_no_archive(folder: Path) -> Path:
    return written(folder / "model.pt2", b"hello")


@case("file-truncated")
def pt2_cut_off(folder: Path) -> Path:
    return written(folder / "model.pt2", ARCHIVE.read_bytes()[:5000])


@case("zip-corrupt")
def pt2_damaged_weight(folder: Path) -> Path:
    data = bytearray(ARCHIVE.read_bytes())
    at = data.index(b"/data/weights/weight_0") + 400
    data[at] ^= 0xFF
    return written(folder / "model.pt2", bytes(data))


@case("zip-entry-missing")
def pt2_without_model(folder: Path) -> Path:
    return repacked(folder, lambda name, data: None if name.endswith("model.json") else (name, data))


@case("zip-unsafe-entry")
def pt2_entry_outside(folder: Path) -> Path:
    return repacked(folder, lambda name, data: (f"../{name}" if "weight_0" in name else name, data))


@case("zip-compressed")
def pt2_compressed(folder: Path) -> Path:
    return repacked(folder, lambda name, data: (name, data), zipfile.ZIP_DEFLATED)


@case("weights-short")
def pt2_short_weight(folder: Path) -> Path:
    return repacked(folder, lambda name, data: (name, data[:8] if name.endswith("weight_0") else data))


@case("json-invalid")
def pt2_broken_json(folder: Path) -> Path:
    return repacked(folder, lambda name, data: (name, data[:-20] if name.endswith("models/model.json") else data))


@case("json-shape")
def pt2_json_of_another_shape(folder: Path) -> Path:
    return repacked(folder, lambda name, data: (name, b"{}" if name.endswith("models/model.json") else data))


@case("pt2-version")
def pt2_next_major(folder: Path) -> Path:
    return edited(folder, b'"major": 8', b'"major": 9')


@case("unsupported-op")
def pt2_custom_operator(folder: Path) -> Path:
    return edited(folder, b"torch.ops.aten.linear.default", b"torch.ops.mylib.secret.default")


# --- graph texts ------------------------------------------------------------------------------------------------------

for name, code, text in [
    ("htir_empty", "graph-syntax", ""),
    ("htir_cut_off", "graph-syntax", "graph @g(%x: f32[1,2]) -> (%y) {\n  %y = Resh"),
    ("htir_unknown_type", "graph-syntax", "graph @g(%x: f77[1]) -> (%x) {\n}\n"),
    ("htir_unknown_operator", "unsupported-op", "graph @g(%x: f32[1]) -> (%y) {\n  %y = Frobnicate(%x)\n}\n"),
    ("htir_value_unknown", "graph-syntax", "graph @g(%x: f32[1]) -> (%y) {\n  %y = Reshape(%z) {shape=[1]}\n}\n"),
    ("htir_absurd_size", "graph-syntax", "graph @g(%x: f32[99999999999999999999]) -> (%x) {\n}\n"),
]:
    CASES[name] = (code, lambda folder, text=text: written(folder / "model.htir", text))  # type: ignore[misc]


# --- pipeline files ---------------------------------------------------------------------------------------------------


def pipeline(folder: Path, old: str, new: str) -> Path:
    text = PIPELINE.read_text()
    assert old in text
    return written(folder / "pipeline.yaml", text.replace(old, new, 1))


for name, code, old, new in [
    ("yaml_syntax", "config-syntax", "model:", "model: ["),
    ("yaml_tabs", "config-syntax", "model:", "\tmodel:"),
    ("yaml_anchor", "config-syntax", "model:", "model: &here"),
    ("yaml_unknown_key", "config-unknown-key", "targets:", "colour: blue\ntargets:"),
    ("yaml_wrong_type", "config-type", "layer_cosine: 0.99", "layer_cosine: high"),
    ("yaml_missing_key", "config-missing-key", "id:", "# id:"),
]:
    CASES[name] = (code, lambda folder, old=old, new=new: pipeline(folder, old, new))  # type: ignore[misc]


@case("config-syntax")
def yaml_bottomless(folder: Path) -> Path:
    return written(folder / "pipeline.yaml", "a: " + "[" * 5000)


@case("config-syntax")
def yaml_no_text(folder: Path) -> Path:
    return written(folder / "pipeline.yaml", struct.pack("<16I", *range(16)))


@pytest.mark.parametrize("name", sorted(CASES))
def test_gives_its_code(name: str, tmp_path: Path) -> None:
    code, maker = CASES[name]
    file = maker(tmp_path)
    verb = "run" if file.suffix == ".yaml" else "info"
    command = [str(PROGRAM), verb, str(file), "--json"]
    result = subprocess.run(
        command, capture_output=True, text=True, errors="replace", check=False, cwd=tmp_path, timeout=60
    )
    answer = json.loads(result.stdout)
    # `info` describes an archive even when its graph cannot be imported, and tells why.
    error = answer["error"] if "error" in answer else answer["result"]["import_error"]
    assert error["code"] == code, error
    assert error["hint"]
    assert result.returncode == answer["exit_code"]
    assert result.returncode > 0 or name == "pt2_custom_operator"
    assert sorted(path.name for path in tmp_path.iterdir()) == [file.name], "it left something behind"


def test_there_are_enough_cases() -> None:
    assert len(CASES) >= 40
