"""Models as Python objects."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from htpipe import _core
from htpipe._arrays import NUMPY_DTYPES, Array, from_carrier, own_name, to_carrier, to_numpy
from htpipe._error import Error

PathLike = str | os.PathLike[str]


@dataclass(frozen=True)
class TensorInfo:
    """Name, dtype and shape of an input or output. `dtype` is our name ("f32", "i64", "bf16" …)."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def numpy_dtype(self) -> Any:
        """The dtype of its arrays; that of bf16 is float32."""
        return NUMPY_DTYPES[self.dtype]

    def __str__(self) -> str:
        return f"%{self.name} {self.dtype}[{','.join(map(str, self.shape))}]"


class Model:
    """An imported graph, executed in float on this computer. Made by `load`; never changes.

    Attributes:
        name: name of the graph.
        format: "pt2", "onnx" or "htir".
        producer: what wrote the file, for instance "torch 2.13.0"; empty when unknown.
        warnings: what the importer had to assume.
        passes: what `optimise` did, a sentence per rewrite.
    """

    def __init__(self, core: _core.Model, passes: Sequence[str] = ()) -> None:
        self._core = core
        self.passes: list[str] = list(passes)

    @property
    def name(self) -> str:
        return self._core.name

    @property
    def format(self) -> str:
        return self._core.format

    @property
    def producer(self) -> str:
        return self._core.producer

    @property
    def warnings(self) -> list[str]:
        return self._core.warnings

    @property
    def inputs(self) -> list[TensorInfo]:
        """In the order of `run`'s positional arguments."""
        return [TensorInfo(value.name, value.dtype, tuple(value.shape)) for value in self._core.inputs]

    @property
    def outputs(self) -> list[TensorInfo]:
        return [TensorInfo(value.name, value.dtype, tuple(value.shape)) for value in self._core.outputs]

    def text(self) -> str:
        """The graph's text form: one line per node, weights by digest."""
        return self._core.text()

    def digest(self) -> str:
        """SHA-256 over the text form and every constant."""
        return self._core.digest()

    def verify(self) -> None:
        """Checks the graph's invariants and every operator's rule. Errors: graph-invalid and those of the operators."""
        self._core.verify()

    def optimise(self, skip: Sequence[str] = ()) -> Model:
        """The graph after the default passes, without those named in `skip`. Errors: usage, graph-invalid."""
        core, passes = self._core.optimise(list(skip))
        return Model(core, passes)

    def run(self, *arrays: Any, **named: Any) -> list[Array] | dict[str, Array]:
        """Computes the outputs in float32 (integers as they are).

        Give every input once: by position, or by name. Arrays and torch tensors must have the shape and dtype of the
        input; f16 is float16, bf16 is float32, rounded. Plain numbers and lists are converted.

        Returns the outputs in order, or by name when the inputs were named.
        Errors: usage, shape-mismatch, dtype-mismatch, unsupported-form.
        """
        infos = self.inputs
        values = self._ordered(infos, arrays, named)
        given = [to_carrier(info.name, info.dtype, value) for info, value in zip(infos, values, strict=True)]
        results = self._core.run(given)
        outputs = self.outputs
        arrays_out = [from_carrier(info.dtype, array) for info, array in zip(outputs, results, strict=True)]
        if named and not arrays:
            return {info.name: array for info, array in zip(outputs, arrays_out, strict=True)}
        return arrays_out

    def coverage(self, target: str, precision: str = "int8") -> dict[str, Any]:
        """What the target's rules say of every node: native, rewritten or unsupported, with the reason.

        Errors: unknown-target, usage, and those of `optimise`.
        """
        optimised = self._core.optimise([])[0]
        report: dict[str, Any] = json.loads(self._core.coverage(optimised, target, str(targets_folder()), precision))
        return report

    def __repr__(self) -> str:
        inputs = ", ".join(map(str, self.inputs))
        outputs = ", ".join(map(str, self.outputs))
        return f"<htpipe.Model {self.name}: {inputs} -> {outputs}, {self._core.node_count} nodes>"

    def _ordered(self, infos: list[TensorInfo], arrays: tuple[Any, ...], named: Mapping[str, Any]) -> list[Any]:
        names = [info.name for info in infos]
        if len(arrays) > len(infos):
            raise Error("usage", f"{len(arrays)} inputs given, the model has {len(infos)}: {', '.join(names)}")
        values = dict(zip(names, arrays, strict=False))
        for name, value in named.items():
            if name not in names:
                raise Error("usage", f"no input {name!r}; the model has {', '.join(names)}")
            if name in values:
                raise Error("usage", f"input {name!r} is given twice")
            values[name] = value
        missing = [name for name in names if name not in values]
        if missing:
            raise Error("usage", f"no array for {', '.join(missing)}")
        return [values[name] for name in names]


def load(
    path: PathLike,
    dims: Mapping[str, int] | None = None,
    fix: Mapping[str, Any] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
) -> Model:
    """Imports a model file: a .pt2 of torch.export.save, an .onnx, or a graph text (.htir).

    Args:
        path: the file.
        dims: size of each named dimension, for files with shapes like ["batch", 3, 224, 224]. "INPUT.AXIS" names a
            dimension by its place.
        fix: inputs that become constants, by name.
        shapes: whole shapes of inputs, by name.

    Errors: file-missing, model-format, unsupported-op (a note for every operator), dynamic-shape, and more.
    """
    arrays = {}
    for name, value in (fix or {}).items():
        array = to_numpy(value)
        arrays[name] = to_carrier(name, own_name(array), array)
    given_shapes = {name: list(shape) for name, shape in (shapes or {}).items()}
    return Model(_core.Model.load(os.fspath(path), dict(dims or {}), given_shapes, arrays))


def parse(text: str) -> Model:
    """Reads a graph's text form. Errors: graph-syntax with the line."""
    return Model(_core.Model.parse(text))


def targets_folder() -> Path:
    """The data files of the chips: $HTPIPE_DATA_DIR/targets, else those of the package."""
    data = os.environ.get("HTPIPE_DATA_DIR")
    return Path(data) / "targets" if data else Path(__file__).parent / "data" / "targets"
