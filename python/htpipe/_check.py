"""Running and checking models of any kind: a file, a loaded model, an export, or a live module."""

from __future__ import annotations

import contextlib
import math
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from htpipe._arrays import Array, to_numpy
from htpipe._error import Error
from htpipe._export import Exported, evaluation, export, import_torch, split_inputs, use_cache_off
from htpipe._findings import Finding
from htpipe._model import Model, PathLike, load

if TYPE_CHECKING:
    import torch
# Outputs of a float graph may differ from PyTorch's by this much of their range: other orders of the same sums.
TOLERANCE = 1.0e-4


@dataclass(frozen=True)
class Difference:
    """How far one output is from the reference.

    Attributes:
        output: its name in the graph.
        graph: "imported", or "optimised" for the graph after the passes.
        shape: its shape.
        max_abs: largest absolute difference; NaN or infinite where only one side is.
        range: largest minus smallest value of the reference.
    """

    output: str
    graph: str
    shape: tuple[int, ...]
    max_abs: float
    range: float

    @property
    def relative(self) -> float:
        """`max_abs` as a part of the range; 0 when nothing differs."""
        if self.max_abs == 0:
            return 0.0
        return self.max_abs / self.range if self.range > 0 else math.inf

    def __str__(self) -> str:
        return f"%{self.output} ({self.graph}): {self.max_abs:.3g} of a range of {self.range:.4g} ({self.relative:.2e})"


@dataclass
class CheckReport:
    """What `check` found. `print(report)` shows it.

    Attributes:
        ok: no error, no difference above the tolerance, and nothing that the target cannot execute.
        differences: per output of the imported graph, then of the optimised one; empty without a live module.
        coverage: what the target's rules say of each node, as `htpipe info --json` has it; None without a target.
        error: why the model cannot be imported; None when it can.
        findings: nodes of the exported program that cannot go onto the chip.
        warnings: what the importer and the exporter had to assume.
        tolerance: largest relative difference that is allowed.
    """

    ok: bool = False
    differences: list[Difference] = field(default_factory=list)
    coverage: dict[str, Any] | None = None
    error: Error | None = None
    findings: list[Finding] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    tolerance: float = TOLERANCE

    @property
    def unsupported(self) -> list[dict[str, Any]]:
        """The nodes that the target cannot execute, with the reason."""
        nodes = (self.coverage or {}).get("nodes", [])
        return [node for node in nodes if node.get("support") == "unsupported"]

    def __str__(self) -> str:
        lines = ["ok" if self.ok else "not ok"]
        if self.error is not None:
            lines += [f"  {line}" for line in str(self.error).splitlines()]
        lines += [f"  warning: {warning}" for warning in self.warnings]
        lines += [f"  {finding}" for finding in self.findings]
        for difference in self.differences:
            verdict = "" if difference.relative <= self.tolerance else " TOO FAR"
            lines.append(f"  output {difference}{verdict}")
        if self.coverage is not None:
            total = sum(self.coverage[kind] for kind in ("native", "rewritten", "unsupported"))
            lines.append(
                f"  {self.coverage['target']} in {self.coverage['precision']}: {total} nodes, "
                f"{self.coverage['native']} native, {self.coverage['rewritten']} rewritten, "
                f"{self.coverage['unsupported']} unsupported"
            )
            lines += [f"    {node['node']} ({node['op']}): {node['reason']}" for node in self.unsupported]
        return "\n".join(lines)


def run(model: Model | Exported | torch.nn.Module | PathLike, inputs: Any) -> list[Array] | dict[str, Array]:
    """Computes a model's outputs in float on this computer.

    Args:
        model: a file, a Model, an Exported, or a torch.nn.Module, which is exported with `inputs` as example.
        inputs: an array, a sequence of them, or a dict by name. For a module they are what the module takes.

    Returns the outputs in order; by name when a file's or Model's inputs are named.
    Errors: those of load, export and Model.run.
    """
    if isinstance(model, Exported) or _is_module(model):
        exported = model if isinstance(model, Exported) else export(model, as_tensors(inputs))
        return load_exported(exported).run(*flat_inputs(exported, as_tensors(inputs)))
    loaded = model if isinstance(model, Model) else load(model)
    args, named = split_inputs(inputs)
    return loaded.run(*args, **named)


def check(
    model: Model | Exported | torch.nn.Module | PathLike,
    target: str | None = None,
    inputs: Any = None,
    precision: str = "int8",
    tolerance: float = TOLERANCE,
) -> CheckReport:
    """Imports a model, verifies its graph, compares its outputs with the live module's and asks the target's rules.

    Args:
        model: a file, a Model, an Exported, or a torch.nn.Module (then `inputs` are needed).
        target: a chip in any spelling that `htpipe targets` takes, for instance "SM8650".
        inputs: what the module takes; the outputs are compared on them. For a file they are only run.
        precision: "int8", "int16" or "fp16": what the target's rules are asked for.
        tolerance: largest difference that is allowed, as a part of the output's range.

    What is wrong with the model is in the report. Errors: usage, unknown-target, file-missing, python-missing.
    """
    report = CheckReport(tolerance=tolerance)
    live = _is_module(model)
    if live and inputs is None:
        raise Error("usage", "a live module is checked on example inputs; give inputs=")
    try:
        given = as_tensors(inputs) if live or isinstance(model, Exported) else inputs
        exported = export(model, given) if live else model if isinstance(model, Exported) else None
        if exported is not None:
            report.findings = exported.findings
            report.warnings += exported.notes
        imported = (
            load_exported(exported) if exported is not None else model if isinstance(model, Model) else load(model)
        )
        report.warnings += imported.warnings
        imported.verify()
        optimised = imported.optimise()
        if exported is not None and inputs is not None:
            arrays = flat_inputs(exported, given)
            reference = _reference(model if live else exported.program.module(), given, exported.recipe)
            for name, graph in (("imported", imported), ("optimised", optimised)):
                report.differences += compare(graph, name, arrays, reference)
        elif inputs is not None:
            args, named = split_inputs(inputs)
            imported.run(*args, **named)
        if target is not None:
            report.coverage = imported.coverage(target, precision)
    except Error as error:
        if error.code in ("usage", "unknown-target", "file-missing", "python-missing"):
            raise
        report.error = error
    report.ok = (
        report.error is None
        and not report.unsupported
        and all(difference.relative <= tolerance for difference in report.differences)
    )
    return report


def compare(model: Model, graph: str, arrays: list[Array], reference: list[Array]) -> list[Difference]:
    """Runs `model` and compares each output. Errors: shape-mismatch."""
    outputs = model.run(*arrays)
    assert isinstance(outputs, list)
    if len(outputs) != len(reference):
        raise Error("shape-mismatch", f"the graph has {len(outputs)} outputs, the module gives {len(reference)}")
    differences = []
    for info, ours, theirs in zip(model.outputs, outputs, reference, strict=True):
        if ours.shape != theirs.shape:
            raise Error("shape-mismatch", f"%{info.name} is {list(ours.shape)}, the module gives {list(theirs.shape)}")
        differences.append(Difference(info.name, graph, ours.shape, *distance(ours, theirs)))
    return differences


def distance(ours: Array, theirs: Array) -> tuple[float, float]:
    """Largest absolute difference, and the range of `theirs`. Equal infinities and NaNs do not differ."""
    if theirs.size == 0:
        return 0.0, 0.0
    a = ours.astype(np.float64)
    b = theirs.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        apart = np.where(same, 0.0, np.abs(a - b))
    finite = b[np.isfinite(b)]
    spread = float(finite.max() - finite.min()) if finite.size else 0.0
    # One element has no range: its own size is what a difference is measured by.
    if spread == 0.0 and finite.size:
        spread = float(np.abs(finite).max())
    return (math.inf if np.isnan(apart).any() else float(apart.max())), spread


def load_exported(exported: Exported) -> Model:
    """Imports what was exported, through its file or a temporary one."""
    if exported.path is not None and exported.path.is_file():
        return load(exported.path)
    # The weights stay mapped when the file's name is gone.
    with tempfile.TemporaryDirectory(prefix="htpipe-") as folder:
        file = exported.save(Path(folder) / "model.pt2")
        try:
            return load(file)
        except Error as error:
            # Nobody can look into a file that is gone.
            error.place = replace(error.place, file="")
            raise


def as_tensors(inputs: Any) -> Any:
    """The same inputs with numpy arrays as tensors. Python numbers stay what they are: modules may take them."""
    torch = import_torch()
    from torch.utils import _pytree as pytree

    return pytree.tree_map(lambda leaf: torch.from_numpy(leaf) if isinstance(leaf, np.ndarray) else leaf, inputs)


def flat_inputs(exported: Exported, inputs: Any) -> list[Array]:
    """The tensors of a module's inputs in the order of the exported graph. Errors: usage."""
    from torch.utils import _pytree as pytree

    args, kwargs = split_inputs(inputs)
    spec = exported.program.call_spec.in_spec
    if spec is not None and kwargs:
        # torch.export keeps keyword arguments in the order of its example.
        order = [key for key in spec.child(1).context if key in kwargs]
        if len(order) != len(kwargs):
            unknown = sorted(set(kwargs) - set(order))
            raise Error("usage", f"the exported program has no input {', '.join(unknown)}")
        kwargs = {key: kwargs[key] for key in order}
    leaves, given = pytree.tree_flatten((args, kwargs))
    if spec is not None and given != spec:
        raise Error("usage", f"the inputs are built as {given}, those of the export as {spec}")
    return [to_numpy(leaf) for leaf in leaves if hasattr(leaf, "detach")]


def _reference(module: Any, inputs: Any, recipe: str) -> list[Array]:
    """The module's own outputs, flattened, under the conditions in which it was exported."""
    import torch
    from torch.utils import _pytree as pytree

    args, kwargs = split_inputs(inputs)
    # A module may write into its inputs.
    args, kwargs = pytree.tree_map(
        lambda leaf: leaf.clone() if isinstance(leaf, torch.Tensor) else leaf, (args, kwargs)
    )
    if type(module).__name__ == "GraphModule":  # an exported program, which has no mode to switch
        with torch.no_grad():
            result = module(*args, **kwargs)
    else:
        cache = use_cache_off(module) if recipe == "no cache" else contextlib.nullcontext()
        with evaluation(torch, module), cache:
            result = module(*args, **kwargs)
    return [to_numpy(leaf) for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]


def _is_module(model: Any) -> bool:
    """Told without importing PyTorch: without it there is no module."""
    import sys

    torch = sys.modules.get("torch")
    return torch is not None and isinstance(model, torch.nn.Module)
