"""What of an exported program cannot become part of a graph on the chip, with the place in the user's model."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.export import ExportedProgram

# Namespaces of PyTorch's own operators.
OWN_NAMESPACES = {"aten", "prim", "prims", "quantized_decomposed", "torchao"}


@dataclass(frozen=True)
class Finding:
    """A fallback candidate.

    Attributes:
        kind: "custom-op", "autograd-function", "higher-order" or "data-dependent-shape".
        node: name of the node in the exported program.
        op: the operator, for instance "mylib.foo.default".
        layer: module path, for instance "encoder.layers.0".
        line: "model.py:42", empty when unknown.
    """

    kind: str
    node: str
    op: str
    layer: str
    line: str

    def __str__(self) -> str:
        places = [f"node {self.node}"]
        if self.layer:
            places.append(f"module {self.layer}")
        if self.line:
            places.append(f"line {self.line}")
        return f"fallback candidate, {self.kind}: {self.op} ({', '.join(places)})"


def find_problems(program: ExportedProgram) -> list[Finding]:
    """All findings, in the order of the program."""
    findings = []
    for node in program.graph.nodes:
        if node.op != "call_function":
            continue
        kind = _kind(node)
        if kind:
            findings.append(Finding(kind, node.name, op_name(node.target), layer_of(node), line_of(node)))
    return findings


def op_name(target: Any) -> str:
    """The operator's name like aten.relu.default, or the function's name."""
    name = str(target)
    return name.removeprefix("torch.ops.") if "." in name and "<" not in name else getattr(target, "__name__", name)


def layer_of(node: Any) -> str:
    """The innermost module path of a node."""
    stack = node.meta.get("nn_module_stack") or {}
    paths = [str(entry[0]) for entry in stack.values()]
    if not paths:
        return ""
    # A module that is called a second time has "@1" behind its path.
    return re.sub(r"@\d+$", "", paths[-1].removeprefix("L['self']").lstrip("."))


def line_of(node: Any) -> str:
    """The innermost line of the model's code, by file name."""
    lines = re.findall(r'File "([^"]+)", line (\d+)', node.meta.get("stack_trace") or "")
    if not lines:
        return ""
    file, number = lines[-1]
    return f"{Path(file).name}:{number}"


def _kind(node: Any) -> str:
    import torch
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    target = node.target
    if isinstance(target, torch._ops.HigherOrderOperator):
        return "autograd-function" if "autograd" in target.name() else "higher-order"
    if isinstance(target, torch._ops.OpOverload) and target.namespace not in OWN_NAMESPACES:
        return "custom-op"
    value = node.meta.get("val")
    values = value if isinstance(value, tuple | list) else [value]
    for one in values:
        if isinstance(one, torch.Tensor) and free_unbacked_symbols(one):
            return "data-dependent-shape"
    return ""
