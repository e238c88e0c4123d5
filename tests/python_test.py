"""The Python package: loading, running, exporting and checking models, and its wheel."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

ROOT = Path(__file__).parent.parent
BUILD = Path(os.environ.get("HTPIPE_BUILD", ROOT / "build"))
PACKAGE = BUILD / "python"
EXAMPLE = ROOT / "examples" / "fashion_resnet" / "fashion_resnet.pt2"

sys.path.insert(0, str(PACKAGE))
htpipe = pytest.importorskip("htpipe", reason=f"no Python package in {PACKAGE}")

DTYPES = {
    "f64": np.float64,
    "f32": np.float32,
    "f16": np.float16,
    "i64": np.int64,
    "i32": np.int32,
    "i16": np.int16,
    "i8": np.int8,
    "u32": np.uint32,
    "u16": np.uint16,
    "u8": np.uint8,
    "bool": np.bool_,
}


def small_net() -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.5), nn.Flatten())


# --- models ---------------------------------------------------------------------------------------------------------


def test_a_model_tells_what_it_is_and_runs() -> None:
    model = htpipe.load(EXAMPLE)
    assert (model.format, model.warnings) == ("pt2", [])
    assert model.producer.startswith("torch 2.")
    assert model.inputs == [htpipe.TensorInfo("x", "f32", (1, 1, 28, 28))]
    image = np.random.default_rng(0).random((1, 1, 28, 28), np.float32)
    (logits,) = model.run(image)
    expected = torch.export.load(EXAMPLE).module()(torch.from_numpy(image)).detach().numpy()
    np.testing.assert_allclose(logits, expected, atol=1e-5)
    assert logits.flags.writeable
    named = model.run(x=image)
    np.testing.assert_array_equal(named[model.outputs[0].name], logits)
    optimised = model.optimise()
    assert optimised.passes
    np.testing.assert_allclose(optimised.run(image)[0], logits, atol=1e-5)
    assert model.text().startswith("graph @fashion_resnet(")
    assert model.digest() != optimised.digest()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0, 2), (2, 3)])
def test_arrays_of_every_dtype_go_through(dtype: str, shape: tuple[int, ...]) -> None:
    sizes = ",".join(map(str, shape))
    model = htpipe.parse(f"graph @same(%x: {dtype}[{sizes}]) -> (%x) {{\n}}\n")
    array = np.random.default_rng(0).integers(0, 2, shape).astype(DTYPES[dtype])
    (result,) = model.run(array)
    assert (result.dtype, result.shape) == (array.dtype, shape)
    np.testing.assert_array_equal(result, array)
    assert model.inputs[0].numpy_dtype == array.dtype


def test_bfloat16_is_float32_outside() -> None:
    model = htpipe.parse("graph @same(%x: bf16[5]) -> (%x) {\n}\n")
    values = torch.tensor([1.0, 1.00390625, 1.01171875, -3.3e38, float("nan")])
    (result,) = model.run(values.numpy())
    assert result.dtype == np.float32
    np.testing.assert_array_equal(result, values.bfloat16().float().numpy())
    np.testing.assert_array_equal(model.run(values.bfloat16())[0], result)


def test_arrays_that_are_not_contiguous_and_plain_lists() -> None:
    model = htpipe.parse("graph @same(%x: f32[2,3]) -> (%x) {\n}\n")
    array = np.arange(6, dtype=np.float32).reshape(3, 2).T
    np.testing.assert_array_equal(model.run(array)[0], array)
    np.testing.assert_array_equal(model.run([[1, 2, 3], [4, 5, 6]])[0], [[1, 2, 3], [4, 5, 6]])
    frozen = np.zeros((2, 3), np.float32)
    frozen.setflags(write=False)
    np.testing.assert_array_equal(model.run(frozen)[0], frozen)


@pytest.mark.parametrize(
    ("call", "code", "words"),
    [
        (lambda m, x: m.run(x.astype(np.float64)), "dtype-mismatch", "float64, needs float32"),
        (lambda m, x: m.run(x[0]), "shape-mismatch", "[1,28,28], needs [1,1,28,28]"),
        (lambda m, x: m.run(), "usage", "no array for x"),
        (lambda m, x: m.run(x, x), "usage", "2 inputs given"),
        (lambda m, x: m.run(y=x), "usage", "no input 'y'"),
        (lambda m, x: m.run(x, x=x), "usage", "given twice"),
        (lambda m, x: m.coverage("pentium"), "unknown-target", "pentium"),
        (lambda m, x: m.coverage("SM8650", "int3"), "usage", "int3"),
        (lambda m, x: m.optimise(skip=["nothing"]), "usage", "nothing"),
        (lambda m, x: htpipe.load("gone.pt2"), "file-missing", "gone.pt2"),
        (lambda m, x: htpipe.load(ROOT / "README.md"), "model-format", "README.md"),
        (lambda m, x: htpipe.parse("graph @x(%a: f32[2) -> (%a) {}"), "graph-syntax", "graph text:1"),
    ],
)
def test_errors_have_code_place_and_hint(call: Any, code: str, words: str) -> None:
    model = htpipe.load(EXAMPLE)
    with pytest.raises(htpipe.Error) as caught:
        call(model, np.zeros((1, 1, 28, 28), np.float32))
    assert caught.value.code == code
    assert words in str(caught.value)
    assert caught.value.hint


def test_coverage_has_a_line_for_every_node() -> None:
    coverage = htpipe.load(EXAMPLE).coverage("SM8650")
    assert coverage["target"] == "snapdragon-8-gen-3"
    assert len(coverage["nodes"]) == coverage["total"]


# --- export ---------------------------------------------------------------------------------------------------------


class Branch(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0:  # the line that the error must name
            return x
        return x + 1


BRANCH_LINE = next(
    n for n, line in enumerate(Path(__file__).read_text().splitlines(), 1) if "the error must name" in line
)


def test_torchs_reason_stands_at_the_users_line() -> None:
    module = nn.Sequential(nn.Identity(), nn.ModuleDict({"inner": Branch()})["inner"])
    with pytest.raises(htpipe.Error) as caught:
        htpipe.export(module, torch.ones(3))
    error = caught.value
    assert error.code == "torch-export-failed"
    assert "data-dependent" in error.message
    assert (Path(error.place.file).name, error.place.line) == ("python_test.py", BRANCH_LINE)
    assert "module 1" in error.notes
    assert any("'strict'" in note for note in error.notes)


def test_the_module_keeps_its_modes(tmp_path: Path) -> None:
    module = small_net().train()
    module[3].eval()
    modes = [part.training for part in module.modules()]
    image = torch.randn(1, 3, 8, 8)
    exported = htpipe.export(module, image, tmp_path / "m.pt2")
    assert [part.training for part in module.modules()] == modes
    assert exported.recipe == "plain"
    assert "evaluation mode" in str(exported)
    (ours,) = htpipe.load(tmp_path / "m.pt2").run(image)
    with torch.no_grad():
        np.testing.assert_allclose(ours, module.eval()(image).numpy(), atol=1e-5)


def test_inputs_by_keyword_in_any_order() -> None:
    class Difference(nn.Module):
        def forward(self, a: Tensor, *, b: Tensor, scale: float = 2.0) -> Tensor:
            return (a - b) * scale

    a, b = torch.full((2,), 5.0), torch.full((2,), 3.0)
    exported = htpipe.export(Difference(), {"a": a, "b": b})
    np.testing.assert_array_equal(htpipe.run(exported, {"b": b, "a": a})[0], [4, 4])
    np.testing.assert_array_equal(htpipe.run(Difference(), {"b": b.numpy(), "a": a.numpy()})[0], [4, 4])
    with pytest.raises(htpipe.Error, match="no input c"):
        htpipe.run(exported, {"a": a, "b": b, "c": a})


def test_a_transformers_model_with_a_cache() -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=50,
        use_cache=True,
    )
    model = transformers.LlamaForCausalLM(config)
    # A fresh interpreter: the cache type must not be registered by another test.
    exported = htpipe.export(model, {"input_ids": torch.arange(8)[None]})
    assert exported.recipe in ("plain", "registered cache")
    # Logits, and keys and values of two layers.
    assert len(exported.program.graph_signature.user_outputs) == 5
    assert config.use_cache


@torch.library.custom_op("htpipe_test::twice", mutates_args=())
def twice(x: Tensor) -> Tensor:
    return x * 2


@twice.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


class Awkward(nn.Module):
    class Inner(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.ops.htpipe_test.twice(x)

    def __init__(self) -> None:
        super().__init__()
        self.inner = self.Inner()

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = self.inner(x)
        return y, torch.nonzero(y)


def test_fallback_candidates_are_listed_with_module_and_line() -> None:
    findings = htpipe.export(Awkward(), torch.ones(3)).findings
    assert [(f.kind, f.op, f.layer) for f in findings] == [
        ("custom-op", "htpipe_test.twice.default", "inner"),
        ("data-dependent-shape", "aten.nonzero.default", ""),
    ]
    assert all("fallback candidate" in str(f) and f.line.startswith("python_test.py:") for f in findings)


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda: htpipe.export("m.pt2", torch.ones(1)), "usage"),
        (lambda: htpipe.export(torch.jit.script(nn.ReLU()), torch.ones(1)), "torch-export-failed"),
        (lambda: htpipe.export(nn.ReLU(), torch.ones(1), dims={"x": {0: "n"}}), "usage"),
        (lambda: htpipe.export(nn.ReLU(), torch.ones(1), "/proc/no/m.pt2"), "output-unwritable"),
        (lambda: htpipe.export(nn.ReLU(), (torch.ones(1), torch.ones(1))), "torch-export-failed"),
        (lambda: htpipe.check(nn.ReLU()), "usage"),
    ],
)
def test_wrong_calls_are_errors(make: Any, code: str) -> None:
    with pytest.raises(htpipe.Error) as caught:
        make()
    assert caught.value.code == code


# --- check ----------------------------------------------------------------------------------------------------------


def test_check_compares_with_the_live_module() -> None:
    report = htpipe.check(small_net(), "SM8650", torch.randn(1, 3, 8, 8))
    assert report.ok, report
    assert [d.graph for d in report.differences] == ["imported", "optimised"]
    assert all(d.relative < 1e-5 for d in report.differences)
    assert report.coverage is not None
    assert "snapdragon-8-gen-3 in int8" in str(report)


def test_check_reports_what_cannot_be_imported() -> None:
    report = htpipe.check(Awkward(), None, torch.ones(3))
    assert not report.ok
    assert report.error is not None
    assert len(report.findings) == 2
    assert str(report).startswith("not ok")


def test_check_sees_a_wrong_graph() -> None:
    exported = htpipe.export(nn.ReLU(), torch.ones(4))
    wrong = htpipe.parse("graph @w(%x: f32[4]) -> (%x) {\n}\n")
    (difference,) = htpipe._check.compare(wrong, "imported", [np.float32([-1, 0, 1, 2])], [np.float32([0, 0, 1, 2])])
    assert (difference.max_abs, difference.range, difference.relative) == (1.0, 2.0, 0.5)
    assert htpipe.check(exported, inputs=torch.randn(4)).ok


def test_check_of_a_file() -> None:
    assert htpipe.check(EXAMPLE, "v75").ok
    with pytest.raises(htpipe.Error, match="unknown-target"):
        htpipe.check(EXAMPLE, "pentium")


# --- the wheel ------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(os.environ.get("HTPIPE_TEST_WHEEL") != "1", reason="takes minutes; set HTPIPE_TEST_WHEEL=1")
def test_the_wheel_installs_and_runs(tmp_path: Path) -> None:
    built = subprocess.run([ROOT / "dev", "wheel", tmp_path], capture_output=True, text=True, check=True)
    wheel = Path(built.stdout.strip())
    site = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", site, wheel]
    subprocess.run(pip, check=True)
    script = (
        f"import htpipe; m = htpipe.load({str(EXAMPLE)!r}); "
        "assert m.coverage('SM8650')['unsupported'] == 0; print(htpipe.__file__)"
    )
    environment = {**os.environ, "PYTHONPATH": str(site)}
    result = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert str(site) in result.stdout
    assert (site / "htpipe" / "py.typed").is_file()
