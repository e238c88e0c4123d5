"""tools/check_layers.py on small trees with one fault each."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CHECKER = ROOT / "tools" / "check_layers.py"


def run(tree: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, CHECKER, tree], capture_output=True, text=True, check=False)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree without faults."""
    files = {
        "src/base/io.h": "#include <string>\n",
        "src/tensor/tensor.h": '#include "base/io.h"\n',
        "src/ir/graph.h": '#include "tensor/tensor.h"\n#include "base/io.h"\n',
        "src/import/pt2/reader.cc": '#include "ir/graph.h"\n',
        "src/qnn/graph_spec.cc": '#include "tensor/tensor.h"\n',
        "docs/page.md": "Text.\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_a_tree_without_faults_passes(tree: Path) -> None:
    result = run(tree)
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("src/base/io.cc", '\n#include "tensor/tensor.h"\n', "src/base/io.cc:2: room base may not include room tensor"),
        ("src/qnn/loader.cc", '#include "ir/graph.h"\n', "src/qnn/loader.cc:1: room qnn may not include room ir"),
        ("src/import/pt2/a.h", ' # include "passes/fold.h"', "src/import/pt2/a.h:1: room import may not include"),
        ("src/ir/op.cc", '#include "graph.h"\n', 'src/ir/op.cc:1: "graph.h": write the path from src/'),
        ("src/ir/op.cc", '#include "../base/io.h"\n', "src/ir/op.cc:1:"),
        ("src/ir/op.cc", '#include "base/gone.h"\n', 'src/ir/op.cc:1: "base/gone.h" does not exist'),
        ("src/misc/a.cc", "\n", "src/misc/a.cc:1: 'misc' is no room"),
        ("src/ir/op.cc", "// x\n" * 801, "src/ir/op.cc:1: 801 lines"),
        ("docs/page.md", "fine\nsee " + "/" + "work/main\n", "docs/page.md:2: holds the machine's path"),
        ("tools/data.bin", "\0 " + "/" + "root/x", "tools/data.bin: holds the machine's path"),
    ],
)
def test_a_fault_is_found_with_its_place(tree: Path, name: str, text: str, complaint: str) -> None:
    (tree / name).parent.mkdir(parents=True, exist_ok=True)
    (tree / name).write_text(text)
    result = run(tree)
    assert result.returncode == 1
    assert complaint in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_long_file_with_a_reason_passes(tree: Path) -> None:
    (tree / "src/ir/table.cc").write_text("// Long: one table.\n" + "// x\n" * 900)
    result = run(tree)
    assert result.returncode == 0
    assert "warning: src/ir/table.cc:1: 901 lines" in result.stderr


def test_a_test_may_include_any_room(tree: Path) -> None:
    (tree / "src/base/io_test.cc").write_text('#include "ir/graph.h"\n')
    assert run(tree).returncode == 0


def test_folders_of_builds_are_not_read(tree: Path) -> None:
    for name in ["build/a.txt", "build-asan/a.txt", ".venv/a.txt", ".git/a.txt"]:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text("/" + "work/\n")
    assert run(tree).returncode == 0


def test_the_rooms_are_those_of_cmake() -> None:
    sys.path.insert(0, str(CHECKER.parent))
    import check_layers

    rooms = {}
    for call in re.findall(r"^htpipe_room\(([^)]*)\)", (ROOT / "CMakeLists.txt").read_text(), re.MULTILINE):
        name, *words = call.split()
        key = ""
        rooms[name] = []
        for word in words:
            if word in {"DEPS", "FOLDERS", "LIBS"}:
                key = word
            elif key == "DEPS":
                rooms[name].append(word)
    assert rooms == check_layers.ROOMS
