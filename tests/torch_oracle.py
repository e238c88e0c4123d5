"""PyTorch as the judge of imported models: export, load, run, compare."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

ROOT = Path(__file__).parent.parent
BUILD = Path(os.environ.get("HTPIPE_BUILD", ROOT / "build"))
sys.path.insert(0, str(BUILD / "python"))
htpipe = pytest.importorskip("htpipe", reason=f"no Python package in {BUILD / 'python'}")

HALF = (torch.float16, torch.bfloat16)


def save(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], path: Path, decomposed: bool) -> list[str]:
    """Exports and saves; returns the names of the inputs in the order of the leaves of args and kwargs."""
    with torch.no_grad():
        program = torch.export.export(module, args, kwargs, strict=False)
        if decomposed:
            program = program.run_decompositions()
    torch.export.save(program, path)
    return [spec.arg.name for spec in program.graph_signature.input_specs if spec.kind.name == "USER_INPUT"]


def numpy_of(tensor: Tensor) -> np.ndarray:
    """The tensor as the package gives it: bfloat16 as float32."""
    tensor = tensor.detach()
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


def assert_close(ours: np.ndarray, theirs: Tensor, tolerance: float, where: str) -> None:
    """Same type and shape; floats within `tolerance` of the largest, all others equal."""
    wanted = numpy_of(theirs)
    assert ours.shape == wanted.shape, where
    assert ours.dtype == wanted.dtype, where
    if wanted.dtype.kind != "f":
        np.testing.assert_array_equal(ours, wanted, err_msg=where)
        return
    finite = np.isfinite(wanted)
    np.testing.assert_array_equal(ours[~finite], wanted[~finite], err_msg=where)
    if theirs.dtype in HALF:
        tolerance = max(tolerance, 1e-2 if theirs.dtype == torch.bfloat16 else 2e-3)
    largest = float(np.abs(wanted[finite], dtype=np.float64).max(initial=0.0))
    difference = float(np.abs(ours[finite].astype(np.float64) - wanted[finite]).max(initial=0.0))
    assert difference <= tolerance * max(largest, 1e-6), f"{where}: {difference} of {largest}"


def check(
    module: nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    folder: Path,
    decomposed: bool,
    tolerance: float = 1e-4,
) -> Any:
    """Imports the exported module and compares every output with PyTorch's. Returns the loaded model."""
    # The export and the module itself may write into their inputs.
    copies = pytree.tree_map(lambda leaf: leaf.clone() if isinstance(leaf, Tensor) else leaf, (args, kwargs))
    file = folder / "model.pt2"
    names = save(module, args, kwargs, file, decomposed)
    with torch.no_grad():
        wanted = [leaf for leaf in pytree.tree_leaves(module(*copies[0], **copies[1])) if isinstance(leaf, Tensor)]
    model = htpipe.load(file)
    leaves = pytree.tree_leaves((args, kwargs))
    given = {name: leaf for name, leaf in zip(names, leaves, strict=True) if isinstance(leaf, Tensor)}
    ours = model.run(*[given[info.name] for info in model.inputs])
    assert len(ours) == len(wanted)
    for index, (mine, theirs) in enumerate(zip(ours, wanted, strict=True)):
        assert_close(mine, theirs, tolerance, f"output {index}")
    return model
