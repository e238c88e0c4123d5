"""What the tests of htpipe convert share: the program, ONNX Runtime without its optimisations, counting operators."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import onnxruntime as runtime

ROOT = Path(__file__).parent.parent
BUILD = Path(os.environ.get("HTPIPE_BUILD", ROOT / "build"))
PROGRAM = BUILD / "bin" / "htpipe"

sys.path.insert(0, str(BUILD / "python"))


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [str(PROGRAM), *map(str, arguments)]
    env = os.environ | {"HTPIPE_PYTHON": sys.executable}
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=env, timeout=600)


def convert(source: Path, output: Path, *arguments: object) -> dict[str, Any]:
    """Converts, and gives the answer of a conversion that worked."""
    result = run("convert", source, "-o", output, "--json", *arguments)
    document: dict[str, Any] = json.loads(result.stdout)
    assert result.returncode == 0, (document, result.stderr)
    answer: dict[str, Any] = document["result"]
    return answer


def session(model: Path) -> Any:
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return runtime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])


def outputs(model: Path, inputs: dict[str, Any]) -> list[Any]:
    return list(session(model).run(None, inputs))


def operators(model: Any) -> Counter[str]:
    return Counter(node.op_type for node in model.graph.node)
