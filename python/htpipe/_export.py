"""From a live torch.nn.Module to an exported program, with the help that some models need.

torch.export is tried with one recipe after the other, until one succeeds:

1. "plain": the module in evaluation mode, without gradients and without PyTorch's fused encoder layers.
2. "registered cache" (models of transformers only): transformers' caches are made known to torch.export.
3. "no cache" (models of transformers only): use_cache=False, so that no cache is returned.
4. "strict" (or "not strict", when strict was asked for): the other way in which torch.export traces.

When all fail, the error of the first one that is about the model, not about a cache, is shown.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from htpipe._error import Error, Place
from htpipe._findings import Finding, find_problems

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram

PathLike = str | os.PathLike[str]
# Of torch's reason, which can be pages long.
MOST_LINES = 12
MOST_LETTERS = 200


@dataclass
class Exported:
    """What `export` made.

    Attributes:
        program: PyTorch's exported program.
        recipe: the recipe that succeeded, see this module's documentation.
        path: the .pt2 file, when one was asked for.
        findings: nodes that cannot become part of a graph on the chip: candidates for a fallback.
        notes: what was done beyond the plain call, a sentence each.
    """

    program: ExportedProgram
    recipe: str
    path: Path | None = None
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def save(self, path: PathLike) -> Path:
        """Writes the .pt2 file, whole or not at all; makes missing folders.

        Errors: torch-export-failed, output-unwritable.
        """
        import torch

        file = Path(path)
        partial = file.with_name(f"{file.name}.{os.getpid()}.partial")
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            with partial.open("wb") as stream:
                torch.export.save(self.program, stream)
            partial.replace(file)
        except OSError as reason:
            raise Error("output-unwritable", str(reason), Place(file=str(file))) from reason
        except Exception as reason:  # PyTorch raises many types
            raise Error("torch-export-failed", f"torch.export.save: {_reason(reason)}") from reason
        finally:
            with contextlib.suppress(OSError):
                partial.unlink(missing_ok=True)
        return file

    def __str__(self) -> str:
        lines = [f"exported ({self.recipe})" + (f" to {self.path}" if self.path else "")]
        lines += [f"  {note}" for note in self.notes]
        lines += [f"  {finding}" for finding in self.findings]
        return "\n".join(lines)


def export(
    model: torch.nn.Module,
    example_inputs: Any,
    path: PathLike | None = None,
    dims: Mapping[str, Mapping[int, str]] | None = None,
    strict: bool = False,
) -> Exported:
    """Exports a module; the module itself stays as it is, its training mode included.

    Args:
        model: the module. Wrappers of torch.compile and DataParallel are taken off.
        example_inputs: a tensor, a tuple or list of positional arguments, or a dict of keyword arguments. Their shapes
            become the shapes of the graph.
        path: where to write the .pt2 file; not written when None.
        dims: names of dimensions that are not fixed, per input and axis: {"x": {0: "batch"}}.
        strict: trace with TorchDynamo.

    Errors: torch-export-failed with PyTorch's reason, the line of the model's code and the module path;
    python-missing without PyTorch; usage; output-unwritable.
    """
    torch = import_torch()
    module = _unwrapped(torch, model)
    args, kwargs = split_inputs(example_inputs)
    shapes = _dynamic_shapes(torch, module, args, kwargs, dims)
    exported = _try_recipes(torch, module, args, kwargs, shapes, strict)
    if any(part.training for part in module.modules()):
        exported.notes.append("the module was in training mode; it was exported in evaluation mode")
    exported.findings = find_problems(exported.program)
    if path is not None:
        exported.path = exported.save(path)
    return exported


def import_torch() -> Any:
    """PyTorch, which the package does not depend on. Errors: python-missing."""
    try:
        import torch
        import torch.export
    except ImportError as reason:
        raise Error(
            "python-missing", f"PyTorch is needed: {reason}", hint="Install torch 2.13 for this Python."
        ) from reason
    return torch


def split_inputs(inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments of what users give as inputs."""
    if isinstance(inputs, Mapping):
        return (), dict(inputs)
    if isinstance(inputs, tuple | list):
        return tuple(inputs), {}
    return (inputs,), {}


@contextlib.contextmanager
def evaluation(torch: Any, module: torch.nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients; afterwards every submodule has its own mode again."""
    modes = [(part, part.training) for part in module.modules()]
    fast_path = torch.backends.mha.get_fastpath_enabled()
    try:
        module.eval()
        # The fused encoder layer is one operator without a decomposition.
        torch.backends.mha.set_fastpath_enabled(False)
        with torch.no_grad():
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast_path)
        for part, mode in modes:
            part.training = mode


def _unwrapped(torch: Any, model: Any) -> torch.nn.Module:
    """The user's own module."""
    if isinstance(model, torch.jit.ScriptModule):
        raise Error("torch-export-failed", "torch.export takes no TorchScript; give the module that it was made from")
    if not isinstance(model, torch.nn.Module):
        raise Error("usage", f"a torch.nn.Module is needed, this is {type(model).__name__}")
    while True:
        inner = getattr(model, "_orig_mod", None)
        if inner is None and isinstance(model, torch.nn.DataParallel | torch.nn.parallel.DistributedDataParallel):
            inner = model.module
        if not isinstance(inner, torch.nn.Module):
            return model  # type: ignore[no-any-return]
        model = inner


def _dynamic_shapes(
    torch: Any,
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    dims: Mapping[str, Mapping[int, str]] | None,
) -> dict[str, Any] | None:
    """What torch.export takes as dynamic_shapes: an entry for every input."""
    if not dims:
        return None
    import inspect

    try:
        bound = list(inspect.signature(module.forward).bind(*args, **kwargs).arguments)
    except TypeError as reason:
        raise Error("usage", f"the example inputs do not fit {type(module).__name__}.forward: {reason}") from reason
    unknown = [name for name in dims if name not in bound]
    if unknown:
        raise Error("usage", f"dims names no input {unknown[0]!r}; there are {', '.join(bound)}")
    known: dict[str, Any] = {}
    shapes: dict[str, Any] = {}
    for name in bound:
        axes = dims.get(name)
        shapes[name] = (
            {axis: known.setdefault(word, torch.export.Dim(word)) for axis, word in axes.items()} if axes else None
        )
    return shapes


def _try_recipes(
    torch: Any, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], shapes: Any, strict: bool
) -> Exported:
    def call(words: dict[str, Any], strictly: bool) -> Any:
        with evaluation(torch, module):
            return torch.export.export(module, args, words, dynamic_shapes=shapes, strict=strictly)

    def registered() -> Any:
        _register_caches()
        return call(kwargs, strict)

    def without_cache() -> Any:
        with use_cache_off(module):
            return call(kwargs, strict)

    recipes: list[tuple[str, Callable[[], Any]]] = [("plain", lambda: call(kwargs, strict))]
    if _is_transformers_model(module):
        recipes.append(("registered cache", registered))
        recipes.append(("no cache", without_cache))
    recipes.append(("not strict" if strict else "strict", lambda: call(kwargs, not strict)))

    failures: list[tuple[str, Exception]] = []
    for name, recipe in recipes:
        try:
            program = recipe()
        except Exception as reason:  # PyTorch raises many types
            failures.append((name, reason))
            continue
        notes = [f"recipe {failed!r} failed: {_first_line(reason)}" for failed, reason in failures]
        return Exported(program, name, notes=notes)
    raise _export_error(module, failures) from failures[0][1]


def _is_transformers_model(module: Any) -> bool:
    """Whether it is one of transformers' models or holds one; told without importing transformers."""
    transformers = sys.modules.get("transformers")
    base = getattr(transformers, "PreTrainedModel", None)
    return base is not None and any(isinstance(part, base) for part in module.modules())


def _register_caches() -> None:
    from transformers.integrations.executorch import register_dynamic_cache_export_support

    # It may have been called before.
    with contextlib.suppress(ValueError):
        register_dynamic_cache_export_support()


@contextlib.contextmanager
def use_cache_off(module: Any) -> Iterator[None]:
    """config.use_cache is False in all parts for a while."""
    configs = {
        id(part.config): part.config
        for part in module.modules()
        if getattr(getattr(part, "config", None), "use_cache", False)
    }
    try:
        for config in configs.values():
            config.use_cache = False
        yield
    finally:
        for config in configs.values():
            config.use_cache = True


# --- errors ---------------------------------------------------------------------------------------------------------


def _reason(reason: BaseException) -> str:
    """PyTorch's own words, without its advice for developers of PyTorch."""
    text = str(reason).split("\nFor more information, run with", 1)[0].split("\nUser Stack", 1)[0]
    text = text.split("\nfrom user code:", 1)[0].split("\nThe error above occurred", 1)[0]
    lines = [
        line.rstrip() for line in text.strip().splitlines() if line.strip() and not line.startswith("Caused by: (")
    ]
    if len(lines) > MOST_LINES:
        lines = [*lines[:MOST_LINES], "…"]
    return "\n".join(lines) or type(reason).__name__


def _first_line(reason: BaseException) -> str:
    line = _reason(reason).splitlines()[0]
    return line if len(line) <= MOST_LETTERS else line[:MOST_LETTERS] + "…"


def _export_error(module: Any, failures: Sequence[tuple[str, Exception]]) -> Error:
    def about_caches(reason: Exception) -> bool:
        return "not a known type" in str(reason) or "pytree" in str(reason)

    name, reason = next(((n, r) for n, r in failures if not about_caches(r)), failures[0])
    place, layer = locate(reason, module)
    first, *rest = _reason(reason).splitlines()
    notes = rest
    if layer:
        notes = [f"module {layer}", *notes]
    notes += [f"recipe {other!r}: {_first_line(error)}" for other, error in failures if other != name]
    return Error("torch-export-failed", f"{type(reason).__name__}: {first}", place, notes)


def locate(reason: BaseException, module: Any = None) -> tuple[Place, str]:
    """The innermost line of the user's own code (else of a library that is not PyTorch), and the module path."""
    places: list[tuple[str, int]] = []
    layer = ""
    names = {id(part): name for name, part in module.named_modules()} if module is not None else {}
    for frame, line in _frames(reason.__traceback__):
        owner = frame.f_locals.get("self")
        layer = names.get(id(owner), layer)
        places.append((frame.f_code.co_filename, line))
    # TorchDynamo raises far from the user's code, and tells its place apart.
    places += [(entry.filename, entry.lineno or 0) for entry in getattr(reason, "real_stack", None) or []]
    told = re.findall(r'^\s*File "([^"]+)", line (\d+)', str(reason), re.MULTILINE)
    places += [(file, int(line)) for file, line in told]
    if isinstance(reason, SyntaxError) and reason.filename:
        places.append((reason.filename, reason.lineno or 0))
    candidates = [(file, line) for file, line in places if not _is_machinery(file)]
    own = [place for place in candidates if "site-packages" not in place[0]]
    chosen = (own or candidates or [("", 0)])[-1]
    return Place(file=chosen[0], line=chosen[1]), layer


def _frames(trace: TracebackType | None) -> Iterator[tuple[Any, int]]:
    yield from traceback.walk_tb(trace)


_HERE = str(Path(__file__).parent)
_HERE_RESOLVED = str(Path(__file__).resolve().parent)
_STANDARD = sysconfig.get_paths()["stdlib"]


def _is_machinery(file: str) -> bool:
    """PyTorch, this package, the standard library, or generated code."""
    if file.startswith("<") or file.startswith((_HERE + os.sep, _HERE_RESOLVED + os.sep)):
        return True
    if re.search(r"[/\\](site|dist)-packages[/\\](torch|functorch)[/\\]", file):
        return True
    return file.startswith(_STANDARD) and "-packages" not in file
