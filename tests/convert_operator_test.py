"""htpipe convert, operator by operator: our engine against ONNX Runtime on the exported graph."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
from convert_tools import PROGRAM, ROOT, convert, outputs, run, session  # noqa: E402

CONFORMANCE = sorted((ROOT / "tests/conformance").glob("*.htir"))

pytestmark = pytest.mark.skipif(not PROGRAM.is_file(), reason=f"{PROGRAM} is not built")


# --- every operator: the conformance cases, our engine against ONNX Runtime ------------------------------------------


def cases(path: Path) -> list[tuple[str, str]]:
    """Name and text of the graphs in a file of cases."""
    found = []
    for name, text in re.findall(
        r"^# case: (\S+)\n(?:#[^\n]*\n)*(graph .*?}$(?=\n\n|\n?\Z))", path.read_text(), re.M | re.S
    ):
        found.append((name, text))
    return found


def ranges(path: Path, name: str) -> dict[str, tuple[float, float]]:
    block = path.read_text().split(f"# case: {name}\n")[1].split("\ngraph ")[0]
    return {
        value: (float(low), float(high)) for value, low, high in re.findall(r"(\S+)=(-?[\d.]+)\.\.(-?[\d.]+)", block)
    }


@pytest.mark.parametrize("path", CONFORMANCE, ids=lambda path: path.stem)
def test_every_conformance_case(path: Path, tmp_path: Path) -> None:
    htpipe = pytest.importorskip("htpipe")
    from htpipe._verify_onnx import random_input

    compared = 0
    for name, text in cases(path):
        if "<" in text.split("{")[0]:
            continue  # stored integers: quantized_test.cc
        for opset in (17, 21):
            source, written = tmp_path / f"{name}.htir", tmp_path / f"{name}_{opset}.onnx"
            source.write_text(text)
            if opset == 17:
                refused = run("convert", source, "-o", written, "--opset", opset, "--no-verify").stderr
                if "unsupported-form" in refused and re.search("needs? opset", refused):
                    continue
            convert(source, written, "--opset", opset, "--no-verify")
            onnx.checker.check_model(str(written), full_check=True)
            bounds = ranges(path, name)
            generator = np.random.default_rng(1)
            inputs = {
                value.name: random_input(generator, value, str(written), list(bounds.get(value.name, (-1, 1))))
                for value in session(written).get_inputs()
            }
            model = htpipe.load(source)
            expected = model.run(*inputs.values())
            for info, ours, theirs in zip(model.outputs, expected, outputs(written, inputs), strict=True):
                assert theirs.shape == info.shape, name
                assert theirs.dtype == ours.dtype, name
                np.testing.assert_allclose(theirs, ours, rtol=2e-5, atol=2e-5, err_msg=f"{name}, opset {opset}")
        compared += 1
    assert compared > 0 or path.stem in {"chain", "convert", "dequantize", "quantize"}


# --- operators that have no conformance cases, and other data types --------------------------------------------------

BINARY = ["add", "subtract", "multiply", "divide", "maximum", "minimum", "mod", "fmod", "floor_div", "power",
          "squared_difference", "atan2", "equal", "not_equal", "less", "less_equal", "greater",
          "greater_equal"]  # fmt: skip
UNARY = ["abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "erf", "exp", "floor", "log",
         "neg", "reciprocal", "round", "rsqrt", "sign", "sin", "sinh", "sqrt", "tan", "trunc"]  # fmt: skip
TEXTS = {
    **{
        f"binary_{op}": f"graph @g(%x: f32[3,4], %z: f32[4]) -> (%y) {{ %y = ElementWiseBinary(%x, %z) "
        f'{{operation="{op}"}} }}'
        for op in BINARY
    },
    **{
        f"binary_{op}_{dtype}": f"graph @g(%x: {dtype}[3,4], %z: {dtype}[4]) -> (%y) "
        f'{{ %y = ElementWiseBinary(%x, %z) {{operation="{op}"}} }}'
        for dtype in ("i64", "i32", "i8", "u8")
        for op in ("add", "multiply", "maximum", "less", "not_equal", "squared_difference")
    },
    **{
        f"logic_{op}": f"graph @g(%x: bool[3,4], %z: bool[4]) -> (%y) {{ %y = ElementWiseBinary(%x, %z) "
        f'{{operation="{op}"}} }}'
        for op in ("and", "or", "xor", "not_equal", "equal", "maximum", "multiply")
    },
    **{
        f"unary_{op}": f'graph @g(%x: f32[3,4]) -> (%y) {{ %y = ElementWiseUnary(%x) {{operation="{op}"}} }}'
        for op in UNARY
    },
    **dict(cases(ROOT / "tests/data/convert/operators.htir")),
}
POSITIVE = {"binary_power", "unary_log", "unary_sqrt", "unary_rsqrt", "unary_reciprocal", "unary_acosh"}
INNER = {"unary_acos", "unary_asin", "unary_atanh"}
NEWEST_ONLY = {"resize_antialias": 18, "grid_sample": 16, "grid_sample_nhwc": 16, "roi_align": 16}


@pytest.mark.parametrize("name", TEXTS)
def test_every_operator(name: str, tmp_path: Path) -> None:
    htpipe = pytest.importorskip("htpipe")
    source = tmp_path / "g.htir"
    source.write_text(TEXTS[name])
    model = htpipe.load(source)
    generator = np.random.default_rng(1)
    inputs: dict[str, Any] = {}
    for info in model.inputs:
        if info.dtype in ("f32", "f16"):
            low, high = (1.1, 3) if name in POSITIVE else (-0.9, 0.9) if name in INNER else (-3, 3)
            inputs[info.name] = generator.uniform(low, high, info.shape).astype(info.numpy_dtype)
        elif info.dtype == "bool":
            inputs[info.name] = generator.integers(0, 2, info.shape).astype(bool)
        else:
            low = 0 if info.dtype.startswith("u") or info.name == "z" else -9
            inputs[info.name] = generator.integers(low, 9, info.shape).astype(info.numpy_dtype)
    expected = model.run(*inputs.values())
    for opset in (13, 17, 18, 21):
        if opset < NEWEST_ONLY.get(name, 13):
            continue
        written = tmp_path / f"g_{opset}.onnx"
        document = convert(source, written, "--opset", opset, "--no-verify")
        assert document["verified"] is False
        onnx.checker.check_model(str(written), full_check=True)
        for ours, theirs in zip(expected, outputs(written, inputs), strict=True):
            assert theirs.dtype == ours.dtype
            np.testing.assert_allclose(
                theirs, ours, rtol=2e-3 if name == "f16" else 3e-5, atol=2e-5, err_msg=str(opset)
            )
