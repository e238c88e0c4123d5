"""Which files a piece of Python code was made of, so that its result can be kept as long as they are the same."""

from __future__ import annotations

import hashlib
import os
import sys
import sysconfig
from pathlib import Path
from typing import Any

_HERE = Path(__file__).parent


class Recorder:
    """Notes every file that is opened for reading from now on, in `folder` or anywhere outside Python's own folders.

    Libraries count by the files that hold their version. Files that compiled code opens itself (safetensors, for one)
    are not seen.
    """

    def __init__(self, folder: str) -> None:
        self._folder = os.path.realpath(folder)
        self._opened: set[str] = set()
        self._on = True
        sys.addaudithook(self._note)

    def files(self) -> dict[str, str]:
        """Path to SHA-256 of the content; ends the recording."""
        self._on = False
        wanted = {name for name in self._opened if self._counts(name)}
        for module in list(sys.modules.values()):
            file = getattr(module, "__file__", None)
            if file and self._counts(os.path.realpath(file)):
                wanted.add(os.path.realpath(file))
        wanted |= _library_versions()
        wanted.add(str(_HERE.resolve() / "_export.py"))
        return {name: _sha256(name) for name in sorted(wanted) if Path(name).is_file()}

    def _note(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event != "open" or not self._on:
            return
        name, mode = arguments[0], arguments[1]
        if isinstance(name, bytes):
            name = os.fsdecode(name)
        if isinstance(name, str) and isinstance(mode, str | None) and not set(mode or "r") & set("wax+"):
            self._opened.add(os.path.realpath(name))

    def _counts(self, name: str) -> bool:
        if name.endswith(".pyc") or name.startswith(("/proc/", "/sys/", "/dev/")):
            return False
        if name.startswith(self._folder + os.sep):
            return "__pycache__" not in name
        return not name.startswith(_python_folders())


def _python_folders() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    folders = {paths[key] for key in ("stdlib", "platstdlib", "purelib", "platlib", "data")}
    folders |= {sys.prefix, sys.base_prefix, "/etc", "/usr", str(_HERE), str(_HERE.resolve())}
    folders |= {str(Path(entry)) for entry in sys.path if entry.endswith(("site-packages", "dist-packages"))}
    return tuple(os.path.realpath(folder) + os.sep for folder in folders if folder)


def _library_versions() -> set[str]:
    """The files of imported libraries that change with each version."""
    found = set()
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if "." in name or not file or "-packages" not in file or Path(file).name != "__init__.py":
            continue
        folder = Path(file).parent
        found |= {os.path.realpath(folder / one) for one in ("__init__.py", "version.py", "_version.py")}
    return found


def _sha256(name: str) -> str:
    with Path(name).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
