"""What every model has to stand: each pass changes nothing but rounding, and any pass may be left out.

`htpipe optimize --verify` executes the graph after every pass (1e-5 of the largest value of each output, or of 1) and
compares with the imported one (1e-4), for the order of the chip and for that of ONNX.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parent.parent
BUILD = Path(os.environ.get("HTPIPE_BUILD", ROOT / "build"))
Array = np.ndarray[Any, Any]


def optimize(path: Path, *arguments: object) -> dict[str, Any]:
    """The result of htpipe optimize."""
    command = [str(BUILD / "bin" / "htpipe"), "optimize", str(path), "--json", *map(str, arguments)]
    env = os.environ | {"HTPIPE_PYTHON": sys.executable}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=env, timeout=300)
    document = json.loads(done.stdout)
    assert done.returncode == 0, document
    result: dict[str, Any] = document["result"]
    return result


def difference(ours: Array, wanted: Array) -> float:
    """The largest, relative to the largest finite value where that is above 1. Equal infinities and NaNs are equal."""
    assert (ours.shape, ours.dtype) == (wanted.shape, wanted.dtype)
    one, two = ours.astype(np.float64), wanted.astype(np.float64)
    finite = np.isfinite(two)
    np.testing.assert_array_equal(one[~finite], two[~finite])
    largest = float(np.abs(two[finite]).max(initial=1.0))
    return float(np.abs(one[finite] - two[finite]).max(initial=0.0)) / largest


def check(
    model: Any,
    path: Path,
    arrays: Sequence[Array],
    folder: Path,
    arguments: Sequence[object] = (),
    tolerance: float = 1e-4,
) -> None:
    """Checks all passes on one model.

    `model`: the imported htpipe.Model of the file `path`; `arrays`: its inputs in order; `arguments`: how the command
    line imports it the same way; `tolerance`: for the whole pipeline, a tenth of it for each pass.
    """
    names = [info.name for info in model.inputs]
    inputs: list[object] = []
    if names:
        np.savez(folder / "pass_inputs.npz", **dict(zip(names, arrays, strict=True)))
        inputs = ["--inputs", folder / "pass_inputs.npz"]
    common = ["--verify", "--tolerance", tolerance, *inputs, *arguments]
    result = optimize(path, *common)
    assert result["difference"] <= tolerance
    optimize(path, *common, "-o", folder / "pass_result.onnx")

    # Leaving a pass out that found nothing changes nothing.
    active = {record["pass"] for record in result["passes"] if record["rewrites"] > 0}
    wanted = model.run(*arrays)
    for name in sorted(active):
        found = model.optimise(skip=[name]).run(*arrays)
        worst = max((difference(a, b) for a, b in zip(found, wanted, strict=True)), default=0.0)
        assert worst <= tolerance, f"without {name}: {worst}"


def import_arguments(dims: Mapping[str, int] | None, fix: Mapping[str, Any] | None, folder: Path) -> list[object]:
    """What htpipe.load(dims=, fix=) is on the command line."""
    arguments: list[object] = []
    for name, size in (dims or {}).items():
        arguments += ["--dim", f"{name}={size}"]
    for name, value in (fix or {}).items():
        np.save(folder / f"fix_{name}.npy", np.asarray(value))
        arguments += ["--fix", f"{name}={folder / f'fix_{name}.npy'}"]
    return arguments
