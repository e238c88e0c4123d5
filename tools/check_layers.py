"""Checks that rooms of src/ include only rooms above them, that files stay short, and that no machine's paths leak in.

Usage: check_layers.py [ROOT]. Prints file:line and the reason for each fault; exit code 1 when there is one.
The table ROOMS must say the same as CMakeLists.txt.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

# Room -> rooms that it links. A room may include what it links, and what those link.
ROOMS: dict[str, list[str]] = {
    "base": [],
    "tensor": ["base"],
    "qnn": ["tensor"],
    "kernels": ["tensor"],
    "ir": ["tensor"],
    "ops": ["ir", "kernels"],
    "target": ["ops"],
    "import": ["ops"],
    "export": ["ops", "qnn"],
    "passes": ["ops", "target"],
    "exec": ["ops"],
    "quant": ["exec", "passes"],
    "accuracy": ["exec"],
    "check": ["export", "qnn", "quant"],
    "pipeline": ["import", "export", "passes", "exec", "quant", "qnn", "accuracy", "target", "check"],
    "report": ["pipeline"],
    "cli": ["pipeline", "report"],
}

WARN_LINES = 400
MAX_LINES = 800
# Folders of the machines on which the project is made; spelled so that this file does not contain them.
MACHINE_PATHS = ["/" + "work/", "/" + "root/"]
CODE = {".cc", ".h", ".py", ".inc"}
# Text that is generated or recorded, and may therefore be long.
SKIPPED_FOLDERS = {
    ".git",
    ".venv",
    "build",
    ".cache",
    "__pycache__",
    ".pytest_cache",
    ".ruff_cache",
    "node_modules",
    "out",
}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')


def allowed(room: str) -> set[str]:
    """`room` itself and every room that it reaches."""
    found: set[str] = set()
    open_rooms = [room]
    while open_rooms:
        current = open_rooms.pop()
        if current not in found:
            found.add(current)
            open_rooms += ROOMS[current]
    return found


def tree_files(root: Path) -> Iterator[Path]:
    """All files of the project, in a fixed order."""
    for path in sorted(root.iterdir()):
        if path.name in SKIPPED_FOLDERS or path.name.startswith("build-") or path.is_symlink():
            continue
        if path.is_dir():
            yield from tree_files(path)
        elif path.is_file():
            yield path


def check_includes(root: Path, path: Path, lines: list[str]) -> Iterator[str]:
    """Faults of the #include lines of one file below src/."""
    relative = path.relative_to(root)
    room = relative.parts[1]
    if len(relative.parts) < 3 or room not in ROOMS:
        yield f"{relative}:1: '{room}' is no room of the table in tools/check_layers.py"
        return
    # A test may look at everything: it is linked above all rooms.
    if path.name.endswith("_test.cc"):
        return
    rooms = allowed(room)
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        if match is None:
            continue
        target = match.group(1)
        first = target.split("/")[0]
        if "/" not in target or first not in ROOMS:
            yield f'{relative}:{number}: "{target}": write the path from src/, beginning with a room'
        elif first not in rooms:
            yield f'{relative}:{number}: room {room} may not include room {first} ("{target}")'
        elif not (root / "src" / target).is_file():
            yield f'{relative}:{number}: "{target}" does not exist'


def check_length(root: Path, path: Path, lines: list[str]) -> tuple[list[str], list[str]]:
    """Faults and warnings for the length of one code file."""
    relative = path.relative_to(root)
    count = len(lines)
    # The reason is a comment on the first line with the word "Long:".
    if count > MAX_LINES and "Long:" not in lines[0]:
        return [f'{relative}:1: {count} lines, at most {MAX_LINES}; split it, or say "Long: <reason>" on line 1'], []
    if count > WARN_LINES:
        return [], [f"{relative}:1: {count} lines; {WARN_LINES} are normal"]
    return [], []


def check_tree(root: Path) -> tuple[list[str], list[str]]:
    """All faults and warnings of the tree below `root`."""
    faults: list[str] = []
    warnings: list[str] = []
    for path in tree_files(root):
        data = path.read_bytes()
        if b"\0" in data[:8192]:
            found = [leak for leak in MACHINE_PATHS if leak.encode() in data]
            faults += [f"{path.relative_to(root)}: holds the machine's path '{leak}'" for leak in found]
            continue
        lines = data.decode(errors="replace").splitlines()
        for number, line in enumerate(lines, 1):
            faults += [
                f"{path.relative_to(root)}:{number}: holds the machine's path '{leak}'"
                for leak in MACHINE_PATHS
                if leak in line
            ]
        if path.suffix in CODE:
            long_faults, long_warnings = check_length(root, path, lines)
            faults += long_faults
            warnings += long_warnings
        if path.suffix in {".cc", ".h", ".inc"} and path.relative_to(root).parts[0] == "src":
            faults += check_includes(root, path, lines)
    return faults, warnings


def main() -> int:
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent).resolve()
    faults, warnings = check_tree(root)
    for warning in warnings:
        print(f"warning: {warning}", file=sys.stderr)
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
