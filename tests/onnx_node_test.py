"""ONNX's own tests of its operators: what passes is right, what does not is refused with a code, nothing else happens.

Each node test is imported, run by the float engine and compared with the outputs that come with it, with its own
tolerances; then once more after the default passes. Where the import needs constants it names inputs of the graph, and
is repeated with these inputs fixed to the values of the test. docs/onnx-coverage.md is the outcome:
`python tests/onnx_node_test.py --write` writes it.
"""

import argparse
import json
import multiprocessing
import os
import re
import sys
import tempfile
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parent.parent
BUILD = Path(os.environ.get("HTPIPE_BUILD", ROOT / "build"))
PACKAGE = BUILD / "python"
PAGE = ROOT / "docs" / "onnx-coverage.md"
CODES = ROOT / "src" / "base" / "error_codes.inc"

sys.path.insert(0, str(PACKAGE))
htpipe = pytest.importorskip("htpipe", reason=f"no Python package in {PACKAGE}")
onnx = pytest.importorskip("onnx", reason="the onnx package is not installed")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import onnx.backend.test.loader as onnx_loader
    from onnx import numpy_helper

DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"
FOLDERS = ("pytorch-converted", "pytorch-operator", "simple")
LEAST_PASSED = 1150
STORED = 140  # models of FOLDERS
TIMEOUT = 300  # seconds that one test may take
BF16_RTOL = 2**-6  # two units in the last place, as ONNX's own runner has it

# Tests whose own numbers are not exact enough for their tolerances. They must still differ, else they leave this list.
INEXACT = {
    "test_dft_inverse": "rounding noise of 1.9e-7 where the result is 0",
    "test_dft_inverse_opset19": "rounding noise of 1.9e-7 where the result is 0",
    "test_attention_4d_causal_fp16_expanded": "every step rounded to float16: two units in the last place",
}

PASSED = "passed"
INACCURATE = "inexact"
STALE = "STALE"
WRONG = "WRONG"
CRASHED = "CRASHED"


# --- one test -----------------------------------------------------------------------------------------------------


def difference(info: Any, actual: Any, expected: Any, rtol: float, atol: float) -> str:
    """What is wrong with an output; empty when it is right."""
    if isinstance(expected, (list, tuple)) or expected is None:
        return f"{info.name} is no tensor there"
    expected = np.asarray(expected)
    name = expected.dtype.name
    if name == "bfloat16":
        if info.dtype != "bf16":
            return f"{info.name} is {info.dtype}, expected bf16"
        expected, rtol = expected.astype(np.float32), max(rtol, BF16_RTOL)
    elif info.dtype == "bf16" or actual.dtype != expected.dtype:
        return f"{info.name} is {info.dtype}, expected {name}"
    if actual.shape != expected.shape:
        return f"{info.name} is {actual.shape}, expected {expected.shape}"
    try:
        np.testing.assert_allclose(actual, expected, rtol=rtol, atol=atol)
    except AssertionError as error:
        return " ".join(str(error).split())[:400]
    return ""


def normal(value: Any) -> Any:
    """Tensors may be messages."""
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def as_array(value: Any) -> Any:
    """What `run` and `fix` take; bfloat16 as float32."""
    if isinstance(value, (list, tuple)) or value is None:
        return value
    array = np.asarray(value)
    return array.astype(np.float32) if array.dtype.name == "bfloat16" else array


def sizes(proto: Any, given: dict[str, Any]) -> dict[str, int]:
    """The sizes of dimensions that have a name."""
    found = {}
    for value in proto.graph.input:
        shape = np.shape(given.get(value.name)) if value.type.HasField("tensor_type") else ()
        for dimension, size in zip(value.type.tensor_type.shape.dim, shape, strict=False):
            if dimension.dim_param:
                found[dimension.dim_param] = size
    return found


def load(path: Path, proto: Any, given: dict[str, Any]) -> Any:
    """Imports a model, and fixes the inputs that it wants to know."""
    fix: dict[str, Any] = {}
    dims = sizes(proto, given)
    while True:
        try:
            return htpipe.load(path, dims=dims, fix=fix)
        except htpipe.Error as error:
            if error.code != "needs-constant":
                raise
            named = re.findall(r"depends on the input (\S+)", "\n".join(error.notes))
            new = {name: as_array(given[name]) for name in named if name in given and name not in fix}
            if not new:
                raise
            fix |= new


def check(path: Path, proto: Any, data_sets: Any, rtol: float, atol: float) -> tuple[str, str]:
    """Outcome of a test, and what there is to say of it."""
    initialised = {tensor.name for tensor in proto.graph.initializer}
    names = [value.name for value in proto.graph.input if value.name not in initialised]
    try:
        for inputs, expected in data_sets:
            given = dict(zip(names, map(normal, inputs), strict=False))
            model = load(path, proto, given)
            arrays = [as_array(given[info.name]) for info in model.inputs]
            for form, what in ((model, ""), (model.optimise(), "after the passes: ")):
                results = form.run(*arrays)
                if len(results) != len(expected):
                    return WRONG, f"{what}{len(results)} outputs, expected {len(expected)}"
                for info, actual, wanted in zip(form.outputs, results, map(normal, expected), strict=True):
                    if text := difference(info, actual, wanted, rtol, atol):
                        return WRONG, what + text
    except htpipe.Error as error:
        return error.code, str(error.message)
    return PASSED, ""


def check_case(case: Any, folder: Path) -> tuple[str, str]:
    outcome, text = check_model(case, folder)
    if case.name in INEXACT:
        if outcome == WRONG and "Not equal to tolerance" in text:
            return INACCURATE, INEXACT[case.name]
        return STALE, f"{outcome}: it is in the list INEXACT, but does not differ"
    return outcome, text


def check_model(case: Any, folder: Path) -> tuple[str, str]:
    if case.model is None:
        directory = Path(case.model_dir)
        proto = onnx.load(directory / "model.onnx")
        return check(directory / "model.onnx", proto, list(stored_data(directory, proto)), case.rtol, case.atol)
    path = folder / "model.onnx"
    path.write_bytes(case.model.SerializeToString())
    return check(path, case.model, case.data_sets, case.rtol, case.atol)


def stored_data(directory: Path, proto: Any) -> Iterator[tuple[list[Any], list[Any]]]:
    """The data sets beside a model. A file holds a tensor, or a sequence where the model says so."""

    def read(path: Path, info: Any) -> Any:
        if info.type.HasField("sequence_type"):
            return numpy_helper.to_list(onnx.SequenceProto.FromString(path.read_bytes()))
        return numpy_helper.to_array(onnx.TensorProto.FromString(path.read_bytes()))

    for data in sorted(directory.glob("test_data_set_*")):
        inputs = [read(data / f"input_{i}.pb", proto.graph.input[i]) for i in range(len(list(data.glob("input_*.pb"))))]
        outputs = [read(data / f"output_{i}.pb", info) for i, info in enumerate(proto.graph.output)]
        yield inputs, outputs


# --- many tests, in processes of their own --------------------------------------------------------------------------


def work(cases: list[Any], orders: Connection) -> None:
    """Runs the tests whose numbers arrive, and answers each."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        while (number := orders.recv()) is not None:
            try:
                orders.send(check_case(cases[number], Path(folder)))
            except Exception as error:  # a defect: it is told, and the others go on
                orders.send((CRASHED, f"{type(error).__name__}: {error}"[:400]))


class Worker:
    def __init__(self, cases: list[Any]) -> None:
        context = multiprocessing.get_context("fork")  # the tests are inherited, not loaded again
        self.orders, theirs = context.Pipe()
        self.process = context.Process(target=work, args=(cases, theirs), daemon=True)
        self.process.start()
        theirs.close()
        self.number: int | None = None

    def give(self, number: int | None) -> None:
        self.number = number
        self.orders.send(number)

    def answer(self) -> tuple[str, str]:
        try:
            if self.orders.poll(0):
                return self.orders.recv()  # type: ignore[no-any-return]
        except EOFError:
            pass
        self.process.kill()
        self.process.join()
        return CRASHED, f"the process ended with {self.process.exitcode}"


def run_all(cases: list[Any], processes: int) -> list[tuple[str, str]]:
    """Outcomes of all tests. A test that ends its process, or takes too long, has crashed; the others go on."""
    outcomes: list[tuple[str, str]] = [("", "")] * len(cases)
    open_numbers = iter(range(len(cases)))
    workers = [Worker(cases) for _ in range(processes)]
    for worker in workers:
        worker.give(next(open_numbers, None))
    while busy := [worker for worker in workers if worker.number is not None]:
        ready = wait([worker.orders for worker in busy], timeout=TIMEOUT)
        late = not ready
        for worker in busy:
            if worker.orders not in ready and not late:
                continue
            assert worker.number is not None
            outcomes[worker.number] = worker.answer()
            if not worker.process.is_alive():
                workers[workers.index(worker)] = worker = Worker(cases)
            worker.give(next(open_numbers, None))
    return outcomes


def processes() -> int:
    return max(2, min(4, os.cpu_count() or 2))


# --- the page -------------------------------------------------------------------------------------------------------


def operator_of(case: Any) -> str:
    """The operator that a node test is about: its only one, or what its name says of a function that was expanded."""
    types = [f"{node.domain}.{node.op_type}" if node.domain else node.op_type for node in case.model.graph.node]
    return types[0] if len(types) == 1 else "functions, expanded"


def refused_of(counts: Counter[str]) -> int:
    return sum(n for outcome, n in counts.items() if outcome not in (PASSED, INACCURATE))


def page(cases: list[Any], outcomes: list[tuple[str, str]]) -> str:
    rows: dict[str, Counter[str]] = defaultdict(Counter)
    for case, (outcome, _) in zip(cases, outcomes, strict=True):
        rows[operator_of(case)][outcome] += 1
    total: Counter[str] = sum(rows.values(), Counter())

    def codes(counts: Counter[str]) -> str:
        refused = sorted((code, n) for code, n in counts.items() if code not in (PASSED, INACCURATE))
        return ", ".join(f"`{code}` {n}" for code, n in refused)

    lines = [
        "# ONNX operators",
        "",
        f"Made by `tests/onnx_node_test.py --write` from ONNX's own node tests (onnx {onnx.__version__}); do not edit.",
        "",
        "A test is passed when the imported model, run by the float engine, gives the outputs that come with the test,"
        " within its tolerances and with its data types. Where the import needs constants, the inputs that it names are"
        " fixed to the test's values (`--fix`). What is not passed is refused while it is imported, with the code that"
        " is given here ([errors.md](errors.md)); no test gives a wrong answer.",
        "",
        f"{total[PASSED]} of {sum(total.values())} tests pass, {refused_of(total)} are refused;"
        f" {total[INACCURATE]} have numbers that are less exact than their own tolerances (`INEXACT` in the test).",
        "",
        "| operator | passed | refused | codes |",
        "|---|---:|---:|---|",
    ]
    for name, counts in sorted(rows.items()):
        lines.append(f"| {name} | {counts[PASSED]} | {refused_of(counts)} | {codes(counts)} |")
    return "\n".join(lines) + "\n"


# --- pytest ---------------------------------------------------------------------------------------------------------


def node_cases() -> list[Any]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return sorted(onnx_loader.load_model_tests(kind="node"), key=lambda case: case.name)


def stored_cases() -> list[Any]:
    cases = [case for kind in FOLDERS for case in onnx_loader.load_model_tests(kind=kind)]
    return sorted((case for case in cases if case.model_dir is not None), key=lambda case: case.name)


def stable_codes() -> set[str]:
    """Codes of the table that say that a model is refused: not a defect of ours, nor an error of a command."""
    rows = re.findall(r'^HTPIPE_ERROR\(k\w+, "([^"]+)", (\d+),', CODES.read_text(), re.MULTILINE)
    return {word for word, exit_code in rows if exit_code == "1"}


def complaints(cases: list[Any], outcomes: list[tuple[str, str]]) -> list[str]:
    allowed = stable_codes() | {PASSED, INACCURATE}
    return [
        f"{case.name}: {outcome}: {text}"
        for case, (outcome, text) in zip(cases, outcomes, strict=True)
        if outcome not in allowed
    ]


@pytest.fixture(scope="module")
def nodes() -> tuple[list[Any], list[tuple[str, str]]]:
    cases = node_cases()
    return cases, run_all(cases, processes())


def test_node_tests_pass_or_are_refused_with_a_code(nodes: tuple[list[Any], list[tuple[str, str]]]) -> None:
    cases, outcomes = nodes
    assert not complaints(cases, outcomes)


def test_most_node_tests_pass(nodes: tuple[list[Any], list[tuple[str, str]]]) -> None:
    assert sum(outcome == PASSED for outcome, _ in nodes[1]) >= LEAST_PASSED


def test_the_page_is_up_to_date(nodes: tuple[list[Any], list[tuple[str, str]]]) -> None:
    written = PAGE.read_text()
    assert written == page(*nodes), f"{PAGE} is stale: python tests/onnx_node_test.py --write"


def test_stored_models_pass_or_are_refused_with_a_code() -> None:
    cases = stored_cases()
    assert len(cases) == STORED
    outcomes = run_all(cases, processes())
    assert not complaints(cases, outcomes)
    refused = {
        case.name for case, (outcome, _) in zip(cases, outcomes, strict=True) if outcome not in (PASSED, INACCURATE)
    }
    # Strings, and gradients, which are training.
    assert all(name.startswith(("test_strnorm_", "test_gradient_")) for name in refused), sorted(refused)


@pytest.mark.parametrize("path", sorted((DATA / "light").glob("*.onnx")), ids=lambda path: path.stem)
def test_light_topologies(path: Path) -> None:
    """Networks of the model zoo whose weights are made by ConstantOfShape; the input is what ONNX's runner makes."""
    proto = onnx.load(path)
    initialised = {tensor.name for tensor in proto.graph.initializer}
    (name,) = [value.name for value in proto.graph.input if value.name not in initialised]
    model = htpipe.load(path)
    (info,) = model.inputs
    assert info.name == name
    count = int(np.prod(info.shape))
    image = (np.arange(count).reshape(info.shape) / count).astype(np.float32)
    results = model.run(image)
    for i, (output, actual) in enumerate(zip(model.outputs, results, strict=True)):
        stored = path.with_name(f"{path.stem}_output_{i}.pb")
        expected = numpy_helper.to_array(onnx.TensorProto.FromString(stored.read_bytes()))
        assert difference(output, actual, expected, rtol=1e-3, atol=1e-7) == ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    parser.add_argument("--stored", action="store_true", help="the stored models instead of the node tests")
    parser.add_argument("--only", default="", help="tests whose names match this regular expression")
    parser.add_argument("--json", default="", help="write all outcomes to this file")
    arguments = parser.parse_args()
    cases = stored_cases() if arguments.stored else node_cases()
    cases = [case for case in cases if re.search(arguments.only, case.name)]
    outcomes = run_all(cases, processes())
    for case, (outcome, text) in zip(cases, outcomes, strict=True):
        if outcome != PASSED and (arguments.only or outcome in (WRONG, CRASHED, STALE, "bug")):
            print(f"{case.name}: {outcome}: {text}")
    for outcome, count in Counter(outcome for outcome, _ in outcomes).most_common():
        print(f"{count:5} {outcome}")
    if arguments.json:
        named = {case.name: outcome for case, outcome in zip(cases, outcomes, strict=True)}
        Path(arguments.json).write_text(json.dumps(named, indent=1))
    if arguments.write:
        PAGE.write_text(page(cases, outcomes))
    return 1 if complaints(cases, outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
