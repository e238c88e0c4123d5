"""A DLC that htpipe writes, opened in Netron without a window, shows the graph of the artifact's graph.htir.

Netron's own sources (package netron) run under Node; tests/netron/show.mjs prints what they make of the file.
HTPIPE_BUILD names another build folder than build/. Netron 9.3.3 does not know the entry model.params.bin, where the
DLC keeps weights and array parameters, nor does it list inputs and outputs: these limits are asserted too, so that a
newer Netron that shows more is noticed.
"""

import importlib.util
import json
import os
import re
import shutil
import subprocess
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
BUILD = Path(os.environ.get("HTPIPE_BUILD", ROOT / "build"))
PROGRAM = BUILD / "bin" / "htpipe"
EXAMPLE = ROOT / "examples/fashion_resnet"
VENDOR = next(ROOT.glob(".venv/lib/python3*/site-packages/onnxruntime_qnn"), None)
NETRON = importlib.util.find_spec("netron")
# Without the package, tests/netron is found under that name: a folder without origin.
SOURCES = Path(NETRON.origin).parent if NETRON and NETRON.origin else None
NODE = shutil.which("node")
TARGET = "snapdragon-8-gen-3"

pytestmark = [
    pytest.mark.skipif(not PROGRAM.is_file(), reason=f"{PROGRAM} is not built"),
    pytest.mark.skipif(VENDOR is None, reason="Qualcomm's libraries are not installed"),
    pytest.mark.skipif(SOURCES is None, reason="the Python package netron is not installed"),
    pytest.mark.skipif(NODE is None, reason="node is not installed"),
]

# What a quantised data type is called in Netron.
DATA_TYPES = {"u8": "quint8", "i8": "qint8", "i32": "qint32"}
# Operators that a DLC keeps under another name than QNN's.
DLC_OPERATORS = {"PoolMax2d": "Pool", "PoolAvg2d": "Pool", "ElementWiseBinary": "Eltwise_Binary"}
# Shapes of QNN's array parameters, all uint32; padding is [height, width] x [before, after].
ARRAYS = {"dilation": [2], "filter_size": [2], "pad_amount": [2, 2], "stride": [2]}
ARRAYS_OF = {
    "Conv2d": ["dilation", "pad_amount", "stride"],
    "PoolAvg2d": ["filter_size", "pad_amount", "stride"],
    "PoolMax2d": ["filter_size", "pad_amount", "stride"],
}
# Attributes of the text that QNN has no parameter for: the output's encoding or shape says the same.
TEXT_ONLY = {"activation", "data_layout", "shape"}
QNN_OPERATION_ADD = 0


class Value(NamedTuple):
    """A tensor, as far as both the text and Netron tell of it."""

    name: str
    data_type: str
    shape: list[int]
    constant: bool


@dataclass
class Node:
    """A node with the attributes as the text has them, or as Netron shows them."""

    name: str
    operator: str
    inputs: list[Value]
    outputs: list[Value]
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass
class Graph:
    """A graph; the text tells inputs and outputs, in Netron they follow from who makes and who uses a value."""

    name: str
    inputs: list[Value]
    outputs: list[Value]
    nodes: list[Node]


# --- the text form ----------------------------------------------------------------------------------------------------

TYPE = r"(\w+)<[^>]*>\[([\d,]*)\]"
HEADER = re.compile(r"graph @(\S+)\((.*)\) -> \((.*)\) \{")
CONSTANT = re.compile(rf"  %(\S+) = const {TYPE} .*")
NODE_LINE = re.compile(rf"  %(\S+) = (\w+)\(([^)]*)\)(?: \{{(.*?)\}})? : {TYPE}(?: .*)?")


def text_value(name: str, data_type: str, shape: str, constant: bool) -> Value:
    return Value(name, DATA_TYPES[data_type], [int(size) for size in shape.split(",")], constant)


def operands(text: str) -> list[str]:
    """The names in "%a, %b"."""
    return [name.removeprefix("%") for name in text.split(", ")]


def parse_text(text: str) -> Graph:
    """Reads a quantised graph in which every node has one output; any other line is an error."""
    first, *lines, last = text.splitlines()
    assert last == "}"
    header = HEADER.fullmatch(first)
    assert header, first
    inputs = [text_value(*groups, constant=False) for groups in re.findall(rf"%(\S+): {TYPE}", header[2])]
    values = {value.name: value for value in inputs}
    nodes = []
    for line in lines:
        if constant := CONSTANT.fullmatch(line):
            values[constant[1]] = text_value(*constant.groups(), constant=True)
            continue
        match = NODE_LINE.fullmatch(line)
        assert match, line
        name, operator, arguments, attributes, data_type, shape = match.groups()
        values[name] = text_value(name, data_type, shape, constant=False)
        node = Node(name, operator, [values[operand] for operand in operands(arguments)], [values[name]])
        for key, value in re.findall(r'(\w+)=("[^"]*"|\[[^]]*\]|[^,]+)', attributes or ""):
            node.attributes[key] = json.loads(value)
        nodes.append(node)
    return Graph(header[1], inputs, [values[name] for name in operands(header[3])], nodes)


def as_shown(node: Node) -> Node:
    """How Netron must show a node of the text."""
    attributes: dict[str, Any] = {"packageName": "qti.aisw"}
    for name in ARRAYS_OF.get(node.operator, []):
        attributes[name] = ("uint32", ARRAYS[name])
    if node.operator.startswith("Pool"):
        attributes["pool_type"] = node.operator
    if node.operator == "ElementWiseBinary":
        assert node.attributes["operation"] == "add"
        attributes["operation"] = QNN_OPERATION_ADD
    assert set(node.attributes) <= set(attributes) | TEXT_ONLY
    operator = DLC_OPERATORS.get(node.operator, node.operator)
    return Node(node.name, operator, node.inputs, node.outputs, attributes)


# --- Netron -----------------------------------------------------------------------------------------------------------


def run_netron(file: Path, scratch: Path) -> subprocess.CompletedProcess[str]:
    """Runs show.mjs on `file`, with Netron's sources behind a link whose folder declares them ES modules."""
    assert SOURCES is not None
    sources = scratch / "netron"
    if not sources.exists():
        sources.symlink_to(SOURCES)
        (scratch / "package.json").write_text('{"type": "module"}')
    command = [str(NODE), "--preserve-symlinks", str(ROOT / "tests/netron/show.mjs"), str(sources), str(file)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def show(file: Path, scratch: Path) -> dict[str, Any]:
    result = run_netron(file, scratch)
    assert result.returncode == 0, result.stderr
    shown = json.loads(result.stdout)
    assert isinstance(shown, dict)
    return shown


def shown_value(value: dict[str, Any]) -> Value:
    return Value(value["name"], value["type"], value["shape"], value["constant"])


def shown_values(arguments: list[dict[str, Any]]) -> list[Value]:
    return [shown_value(value) for argument in arguments for value in argument["values"]]


def shown_attribute(attribute: dict[str, Any]) -> object:
    """A single value, or data type and shape of an array."""
    return (attribute["type"], attribute["shape"]) if "shape" in attribute else attribute["value"]


def shown_graph(graph: dict[str, Any]) -> Graph:
    nodes = [
        Node(
            node["name"],
            node["type"],
            shown_values(node["inputs"]),
            shown_values(node["outputs"]),
            {attribute["name"]: shown_attribute(attribute) for attribute in node["attributes"]},
        )
        for node in graph["nodes"]
    ]
    used = {value.name: value for node in nodes for value in node.inputs}
    made = {value.name: value for node in nodes for value in node.outputs}
    inputs = [value for name, value in used.items() if name not in made and not value.constant]
    outputs = [value for name, value in made.items() if name not in used]
    return Graph(graph["name"], inputs, outputs, nodes)


# --- tests ------------------------------------------------------------------------------------------------------------


def reduced_pipeline() -> str:
    """The example for fewer samples. So few say nothing about accuracy, hence the wide gate."""
    text = (EXAMPLE / "pipeline.yaml").read_text()
    for old, new in [
        ("source: fashion_resnet.pt2", f"source: {EXAMPLE / 'fashion_resnet.pt2'}"),
        ("reference: reference.npz", f"reference: {EXAMPLE / 'reference.npz'}"),
        ("    samples: 500\n", "    samples: 50\n"),
        ("    samples: 10000\n", "    samples: 200\n"),
        ("layer_samples: 16\n", "layer_samples: 4\n"),
        ("task_samples: 200\n", "task_samples: 8\n"),
        ("max_accuracy_drop: 0.01\n", "max_accuracy_drop: 0.5\n"),
    ]:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in the registry that htpipe fills from the example."""
    folder = tmp_path_factory.mktemp("pipeline")
    pipeline = folder / "pipeline.yaml"
    pipeline.write_text(reduced_pipeline())
    command = [str(PROGRAM), "run", str(pipeline), "-t", TARGET, "-o", str(folder / "out"), "--quiet"]
    env = {"HTPIPE_VENDOR_DIR": str(VENDOR)} | os.environ
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=env, timeout=600)
    assert result.returncode == 0, result.stderr
    (manifest,) = (folder / "out/registry").rglob("manifest.json")
    return manifest.parent


@pytest.fixture(scope="module")
def text(artifact: Path) -> Graph:
    return parse_text((artifact / "graph.htir").read_text())


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("netron")


@pytest.fixture(scope="module")
def shown(artifact: Path, scratch: Path) -> dict[str, Any]:
    return show(artifact / "model.dlc", scratch)


def test_netron_knows_the_format(shown: dict[str, Any]) -> None:
    assert shown["format"] == "DLC"
    assert len(shown["graphs"]) == 1


def test_operators_and_data_types_of_the_example(shown: dict[str, Any]) -> None:
    graph = shown_graph(shown["graphs"][0])
    assert Counter(node.operator for node in graph.nodes) == {
        "Conv2d": 7,
        "Eltwise_Binary": 2,
        "FullyConnected": 1,
        "Pool": 2,
        "Reshape": 2,
    }
    pools = [node.attributes["pool_type"] for node in graph.nodes if node.operator == "Pool"]
    assert pools == ["PoolMax2d", "PoolAvg2d"]
    for node in shown["graphs"][0]["nodes"]:
        types = {argument["name"]: [value["type"] for value in argument["values"]] for argument in node["inputs"]}
        if node["type"] in {"Conv2d", "FullyConnected"}:
            assert types == {"input": ["quint8"], "weight": ["qint8"], "bias": ["qint32"]}
        elif node["type"] == "Eltwise_Binary":
            assert types == {"inputs": ["quint8", "quint8"]}
        else:
            assert types == {"input": ["quint8"]}
        assert [(out["name"], [value["type"] for value in out["values"]]) for out in node["outputs"]] == [
            ("output", ["quint8"])
        ]


def test_netron_shows_the_graph_of_the_text(shown: dict[str, Any], text: Graph) -> None:
    graph = shown_graph(shown["graphs"][0])
    assert graph.name == text.name
    assert graph.inputs == text.inputs
    assert graph.outputs == text.outputs
    assert [node.name for node in graph.nodes] == [node.name for node in text.nodes]
    for node, expected in zip(graph.nodes, map(as_shown, text.nodes), strict=True):
        assert node == expected


def test_shapes_follow_from_the_parameters_in_the_text(shown: dict[str, Any], text: Graph) -> None:
    """Netron cannot show the values of strides and padding, but the sizes it shows must come from them."""
    graph = shown_graph(shown["graphs"][0])
    strides = set()
    for node, told in zip(graph.nodes, text.nodes, strict=True):
        if told.operator not in ARRAYS_OF:
            continue
        kernel = told.attributes["filter_size"] if node.operator == "Pool" else node.inputs[1].shape[:2]
        stride = told.attributes.get("stride", [1, 1])
        padding = told.attributes.get("pad_amount", [0, 0, 0, 0])
        padded = [size + sum(padding[2 * i : 2 * i + 2]) for i, size in enumerate(node.inputs[0].shape[1:3])]
        assert node.outputs[0].shape[1:3] == [(padded[i] - kernel[i]) // stride[i] + 1 for i in range(2)]
        strides.add(tuple(stride))
    assert strides == {(1, 1), (2, 2), (7, 7)}


def test_what_netron_does_not_show(shown: dict[str, Any]) -> None:
    graph = shown["graphs"][0]
    assert graph["inputs"] == []
    assert graph["outputs"] == []
    arguments = [argument for node in graph["nodes"] for argument in node["inputs"]]
    constants = [value for argument in arguments for value in argument["values"] if value["constant"]]
    assert len(constants) == 2 * (7 + 1)
    assert {value["bytes"] for value in constants} == {0}
    attributes = [attribute for node in graph["nodes"] for attribute in node["attributes"]]
    arrays = [attribute for attribute in attributes if attribute["name"] in ARRAYS]
    assert len(arrays) == 3 * (7 + 2)
    assert all(attribute["bytes"] == [] for attribute in arrays)


def test_a_changed_file_is_noticed(artifact: Path, text: Graph, scratch: Path, tmp_path: Path) -> None:
    """The names compared above come from the DLC, not from anywhere else."""
    changed = tmp_path / "model.dlc"
    changed.write_bytes((artifact / "model.dlc").read_bytes().replace(b"max_pool2d", b"max_pool2X"))
    graph = shown_graph(show(changed, scratch)["graphs"][0])
    wrong = [node.name for node, told in zip(graph.nodes, text.nodes, strict=True) if node != as_shown(told)]
    assert wrong == ["max_pool2X", "relu_1", "batch_norm_3"]


def test_netron_refuses_a_truncated_file(artifact: Path, scratch: Path, tmp_path: Path) -> None:
    content = (artifact / "model.dlc").read_bytes()
    truncated = tmp_path / "model.dlc"
    truncated.write_bytes(content[: len(content) // 2])
    result = run_netron(truncated, scratch)
    assert result.returncode != 0
    assert "Invalid ZIP data" in result.stderr
