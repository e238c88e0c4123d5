"""Whether an exported ONNX file is valid and computes what its source computes, by ONNX's own checker and runtime."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np

from htpipe._arrays import Array, to_numpy
from htpipe._check import distance
from htpipe._error import Error, Place

ELEMENTS = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(int16)": np.int16,
    "tensor(int8)": np.int8,
    "tensor(uint64)": np.uint64,
    "tensor(uint32)": np.uint32,
    "tensor(uint16)": np.uint16,
    "tensor(uint8)": np.uint8,
    "tensor(bool)": np.bool_,
}


def verify(request: dict[str, Any]) -> dict[str, Any]:
    """Checks `exported` and compares it with `source` on seeded random inputs.

    Request:
        exported: the ONNX file, with fixed shapes.
        source: what it was made from, an .onnx, .pt2 or .htir; nothing is compared when absent.
        seed: of the inputs, 0 when absent.
        samples: how many sets of inputs, 1 when absent.
        ranges: per input name its smallest and largest value. Else floats are normal, integers 0 or 1.
        fixed: per input of the source that the export does not have, the .npy file with its value.
    Result: outputs (name, shape, dtype, max_abs, range, source_name), onnx and onnxruntime versions, inputs.
    Errors: python-missing, graph-invalid (the checker's reason), python-failed (the runtime's), shape-mismatch.
    """
    onnx = _need("onnx")
    runtime = _need("onnxruntime")
    exported = request["exported"]
    try:
        # By path: a model in memory may not be larger than 2 GB.
        onnx.checker.check_model(exported, full_check=True)
    except FileNotFoundError as reason:
        raise Error("file-missing", str(reason), Place(file=exported)) from reason
    except Exception as reason:  # the checker's errors have no common type
        raise Error("graph-invalid", f"onnx.checker: {_first(reason)}", Place(file=exported)) from reason
    session = _session(runtime, exported)
    source = request.get("source")
    generator = np.random.default_rng(request.get("seed", 0))
    rows: list[dict[str, Any]] = []
    for _ in range(request.get("samples", 1)):
        inputs = {
            value.name: random_input(generator, value, exported, (request.get("ranges") or {}).get(value.name))
            for value in session.get_inputs()
        }
        ours = dict(zip([value.name for value in session.get_outputs()], _run(session, inputs, exported), strict=True))
        theirs = _source_outputs(runtime, source, inputs, request.get("fixed") or {}) if source else ours
        _add_rows(rows, ours, theirs, exported)
    return {
        "outputs": rows,
        "inputs": [
            {"name": name, "shape": list(array.shape), "dtype": str(array.dtype)} for name, array in inputs.items()
        ],
        "compared": bool(source),
        "onnx": onnx.__version__,
        "onnxruntime": runtime.__version__,
    }


def random_input(generator: np.random.Generator, value: Any, file: str, bounds: list[float] | None) -> Array:
    """An array for an input of a session. Errors: dynamic-shape, unsupported-form."""
    if any(not isinstance(size, int) for size in value.shape):
        raise Error("dynamic-shape", f"input {value.name} is {value.shape}", Place(file=file, node=value.name))
    if value.type not in ELEMENTS:
        raise Error("unsupported-form", f"input {value.name} is a {value.type}", Place(file=file, node=value.name))
    dtype = np.dtype(ELEMENTS[value.type])
    shape = tuple(value.shape)
    if dtype.kind == "f":
        if bounds:
            return np.asarray(generator.uniform(bounds[0], bounds[1], shape)).astype(dtype)
        return np.asarray(generator.standard_normal(shape)).astype(dtype)
    low, high = (int(bounds[0]), int(bounds[1])) if bounds else (0, 1)
    return np.asarray(generator.integers(low, high, shape, endpoint=True)).astype(dtype)


def _add_rows(rows: list[dict[str, Any]], ours: dict[str, Array], theirs: dict[str, Array], file: str) -> None:
    """One row per output; of several samples the largest difference and range stay."""
    if len(ours) != len(theirs):
        raise Error("shape-mismatch", f"{len(ours)} outputs, the source has {len(theirs)}", Place(file=file))
    by_name = set(ours) == set(theirs)
    new = not rows
    for index, (name, array) in enumerate(ours.items()):
        source_name = name if by_name else list(theirs)[index]
        other = theirs[source_name]
        if array.shape != other.shape:
            raise Error(
                "shape-mismatch",
                f"output {name} is {list(array.shape)}, the source gives {list(other.shape)}",
                Place(file=file, node=name),
            )
        far, spread = distance(array, other)
        # JSON has no infinity.
        far = far if np.isfinite(far) else float(np.finfo(np.float64).max)
        if new:
            rows.append(
                {
                    "name": name,
                    "source_name": source_name,
                    "shape": list(array.shape),
                    "dtype": str(array.dtype),
                    "max_abs": far,
                    "range": spread,
                }
            )
        else:
            rows[index]["max_abs"] = max(rows[index]["max_abs"], far)
            rows[index]["range"] = max(rows[index]["range"], spread)


def _source_outputs(runtime: Any, source: str, inputs: dict[str, Array], fixed: dict[str, Any]) -> dict[str, Array]:
    kind = Path(source).suffix.lower()
    if kind == ".onnx":
        return _onnx_outputs(runtime, source, inputs, fixed)
    if kind == ".pt2":
        return _torch_outputs(source, inputs)
    if kind == ".htir":
        from htpipe._model import load

        model = load(source)
        arrays = model.run(*inputs.values())
        assert isinstance(arrays, list)
        return {info.name: array for info, array in zip(model.outputs, arrays, strict=True)}
    raise Error("model-format", "a source is an .onnx, .pt2 or .htir file", Place(file=source))


def _onnx_outputs(runtime: Any, source: str, inputs: dict[str, Array], fixed: dict[str, Any]) -> dict[str, Array]:
    session = _session(runtime, source)
    wanted = session.get_inputs()
    free = [value for value in wanted if value.name not in fixed]
    if len(free) != len(inputs):
        raise Error("shape-mismatch", f"it has {len(free)} inputs, the export {len(inputs)}", Place(file=source))
    by_name = all(value.name in inputs for value in free)
    feed = {
        value.name: inputs[value.name] if by_name else array for value, array in zip(free, inputs.values(), strict=True)
    }
    for value in wanted:
        if value.name in fixed:
            feed[value.name] = np.load(fixed[value.name]).astype(ELEMENTS.get(value.type))
    return dict(zip([value.name for value in session.get_outputs()], _run(session, feed, source), strict=True))


def _torch_outputs(source: str, inputs: dict[str, Array]) -> dict[str, Array]:
    torch = _need("torch")
    from torch.utils import _pytree as pytree

    try:
        program = torch.export.load(source)
        specs = [spec.arg for spec in program.graph_signature.input_specs if spec.kind.name == "USER_INPUT"]
        # Inputs that are no tensors are constants of the program.
        names = [arg.name for arg in specs if type(arg).__name__ != "ConstantArgument"]
        if len(names) != len(inputs):
            raise Error("shape-mismatch", f"it has {len(names)} inputs, the export {len(inputs)}", Place(file=source))
        by_name = set(names) == set(inputs)
        values = {
            name: torch.from_numpy(inputs[name] if by_name else array)
            for name, array in zip(names, inputs.values(), strict=True)
        }
        leaves = [arg.value if type(arg).__name__ == "ConstantArgument" else values[arg.name] for arg in specs]
        args, kwargs = pytree.tree_unflatten(leaves, program.call_spec.in_spec)
        with torch.no_grad():
            result = program.module()(*args, **kwargs)
    except Error:
        raise
    except Exception as reason:  # PyTorch raises many types
        raise Error("python-failed", f"PyTorch: {_first(reason)}", Place(file=source)) from reason
    tensors = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
    names = [spec.arg.name for spec in program.graph_signature.output_specs if spec.kind.name == "USER_OUTPUT"]
    if len(names) != len(tensors) or len(set(names)) != len(names):
        names = [f"output {index}" for index in range(len(tensors))]
    return {name: to_numpy(tensor) for name, tensor in zip(names, tensors, strict=True)}


def _session(runtime: Any, file: str) -> Any:
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    # As written: a fused or reordered sum would be compared with ours.
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        return runtime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    except Exception as reason:  # the runtime's errors have no common type
        raise Error("python-failed", f"onnxruntime cannot load it: {_first(reason)}", Place(file=file)) from reason


def _run(session: Any, inputs: dict[str, Array], file: str) -> list[Array]:
    try:
        return [np.asarray(array) for array in session.run(None, inputs)]
    except Exception as reason:  # the runtime's errors have no common type
        raise Error("python-failed", f"onnxruntime cannot run it: {_first(reason)}", Place(file=file)) from reason


def _need(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as reason:
        raise Error(
            "python-missing", f"{module} is needed: {reason}", hint=f"Install it: python -m pip install {module}"
        ) from reason


def _first(reason: BaseException) -> str:
    lines = str(reason).strip().splitlines()
    return lines[0][:500] if lines else type(reason).__name__
