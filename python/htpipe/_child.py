"""What htpipe's C++ programs run in a Python process of its own: `python -m htpipe._child COMMAND`.

The request is a JSON object on stdin; the response goes to the file that it names as "response":
{"ok": true, "result": ...} or {"ok": false, "error": {code, message, place, notes, hint}}. What the user's code prints
goes to stdout and stderr, which nobody parses. The exit code is 0 whenever a response was written.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from htpipe._error import Error, Place


def export_factory(request: dict[str, Any]) -> dict[str, Any]:
    """Exports what a factory makes.

    Request: source ("package.module:factory"), folder (put in front of sys.path), output (the .pt2), inputs (pairs of
    name and type like "f32[1,3,32,32]"; empty when the factory gives them), strict.
    Result: recipe, notes, findings, torch, files (whose change makes the export worthless: path to SHA-256).
    """
    from htpipe._dependencies import Recorder

    recorder = Recorder(request["folder"])
    from htpipe._export import export, import_torch

    torch = import_torch()
    torch.manual_seed(0)
    made = _make(request["source"], request["folder"])
    module, inputs = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    if not isinstance(module, torch.nn.Module):
        raise Error("usage", f"{request['source']} must give a torch.nn.Module, not {type(module).__name__}")
    if request.get("inputs"):
        inputs = {name: _example(torch, name, type_text) for name, type_text in request["inputs"]}
    if inputs is None:
        raise Error(
            "usage",
            f"{request['source']} gives no example inputs",
            hint="Return (module, inputs), or write inputs below source: in the pipeline file.",
        )
    exported = export(module, inputs, request["output"], strict=bool(request.get("strict", False)))
    return {
        "recipe": exported.recipe,
        "notes": exported.notes,
        "findings": [str(finding) for finding in exported.findings],
        "torch": torch.__version__,
        "files": recorder.files(),
    }


def verify_onnx_files(request: dict[str, Any]) -> dict[str, Any]:
    """See htpipe._verify_onnx.verify."""
    from htpipe._verify_onnx import verify

    return verify(request)


COMMANDS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "export": export_factory,
    "verify-onnx": verify_onnx_files,
}


def _make(source: str, folder: str) -> Any:
    """Calls the factory. Errors: usage, python-failed at the user's line."""
    module_name, _, attribute = source.partition(":")
    if not module_name or not attribute:
        raise Error("usage", f"{source!r} is not of the form package.module:factory")
    sys.path.insert(0, folder)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as reason:
        if reason.name and (module_name == reason.name or module_name.startswith(reason.name + ".")):
            raise Error("usage", f"no module {reason.name!r} in {folder} or among the installed ones") from reason
        raise _failure(f"importing {module_name}", reason) from reason
    except Exception as reason:  # whatever the user's code raises
        raise _failure(f"importing {module_name}", reason) from reason
    factory = module
    for part in attribute.split("."):
        if not hasattr(factory, part):
            raise Error("usage", f"{module_name} has no {attribute!r}", Place(file=str(module.__file__)))
        factory = getattr(factory, part)
    import torch

    if isinstance(factory, torch.nn.Module) or not callable(factory):
        return factory
    try:
        return factory()
    except Error:
        raise
    except Exception as reason:
        raise _failure(f"calling {source}", reason) from reason


def _failure(doing: str, reason: BaseException) -> Error:
    from htpipe._export import locate

    place, _ = locate(reason)
    code = "python-missing" if isinstance(reason, ModuleNotFoundError) else "python-failed"
    return Error(code, f"{doing}: {type(reason).__name__}: {reason}", place)


def _example(torch: Any, name: str, type_text: str) -> Any:
    """A tensor of a type like "i64[1,16]": normal floats, and integers and flags of 0 and 1."""
    from htpipe._arrays import NUMPY_DTYPES

    dtype_name, bracket, rest = type_text.partition("[")
    dtype_name = dtype_name.strip()
    try:
        if dtype_name not in NUMPY_DTYPES or not bracket or not rest.endswith("]"):
            raise ValueError
        shape = [int(size) for size in rest[:-1].split(",") if size.strip()]
        if any(size < 0 for size in shape):
            raise ValueError
    except ValueError:
        raise Error("usage", f"input {name}: {type_text!r} is no type; write it like f32[1,3,224,224]") from None
    dtype = (
        torch.bfloat16 if dtype_name == "bf16" else torch.from_numpy(NUMPY_DTYPES[dtype_name].type(0).reshape(1)).dtype
    )
    generator = torch.Generator().manual_seed(0)
    if dtype.is_floating_point:
        return torch.randn(shape, generator=generator).to(dtype)
    return torch.randint(0, 2, shape, generator=generator).to(dtype)


def error_json(error: Error) -> dict[str, Any]:
    place = error.place
    return {
        "code": error.code,
        "message": error.message,
        "place": {
            "file": place.file,
            "line": place.line,
            "node": place.node,
            "pass": place.pass_name,
            "target": place.target,
        },
        "notes": error.notes,
        "hint": error.hint,
    }


def main() -> int:
    request = json.load(sys.stdin)
    try:
        response = {"ok": True, "result": COMMANDS[sys.argv[1]](request)}
    except Error as error:
        response = {"ok": False, "error": error_json(error)}
    except MemoryError:
        response = {"ok": False, "error": error_json(Error("out-of-memory", "an allocation failed"))}
    except Exception as reason:  # a defect of ours or a surprise of a library: still an answer
        response = {"ok": False, "error": error_json(_failure(sys.argv[1], reason))}
    file = Path(request["response"])
    partial = file.with_name(file.name + ".partial")
    partial.write_text(json.dumps(response))
    partial.rename(file)
    sys.stdout.flush()
    sys.stderr.flush()
    # Threads of libraries must not keep the process alive, nor their destructors crash it.
    os._exit(0)


if __name__ == "__main__":
    main()
