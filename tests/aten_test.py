"""ATen operators one family at a time: the imported graph gives PyTorch's outputs, whole and decomposed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch_oracle
from aten_cases import CASES, Function, in_place_view, module_of
from torch import Tensor, nn
from torch_oracle import htpipe


@pytest.mark.parametrize("decomposed", [False, True], ids=["whole", "decomposed"])
@pytest.mark.parametrize("name", CASES)
def test_outputs_are_those_of_pytorch(name: str, decomposed: bool, tmp_path: Path) -> None:
    inputs = CASES[name][1]
    torch_oracle.check(module_of(name), inputs, {}, tmp_path, decomposed)


def load_error(module: nn.Module, inputs: tuple[Tensor, ...], folder: Path, **options: Any) -> Any:
    """The error of the import."""
    torch_oracle.save(module, inputs, {}, folder / "model.pt2", decomposed=False)
    with pytest.raises(htpipe.Error) as caught:
        htpipe.load(folder / "model.pt2", **options)
    return caught.value


def test_a_shared_weight_is_one_constant(tmp_path: Path) -> None:
    model = torch_oracle.check(module_of("shared_weight"), CASES["shared_weight"][1], {}, tmp_path, decomposed=False)
    constants = [line for line in model.text().splitlines() if " = const f32[9,4]" in line]
    assert len(constants) == 1


def test_all_fallback_candidates_are_named(tmp_path: Path) -> None:
    inner = Function(lambda m, x: torch.special.i0(m.a(x)), a=nn.ReLU())
    module = Function(lambda m, x: (torch.linalg.inv(m.inner(x)), torch.cumsum(x, 0), torch.igamma(x, x)), inner=inner)
    error = load_error(module.eval(), (torch.rand(3, 3),), tmp_path)
    assert error.code == "unsupported-op"
    notes = [note for note in error.notes if note.startswith("fallback candidate: ")]
    assert len(notes) == 3
    text = "\n".join(notes)
    for target in ("special_i0", "linalg_inv", "igamma"):
        assert target in text
    assert "cumsum" not in text
    assert "in module inner" in text
    assert "aten_cases.py:" in text


def test_custom_operators_are_named(tmp_path: Path) -> None:
    library = torch.library.Library("htpipe_aten_test", "FRAGMENT")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
    torch.library.register_fake("htpipe_aten_test::twice", lambda x: torch.empty_like(x), lib=library)
    error = load_error(Function(lambda x: torch.ops.htpipe_aten_test.twice(x) + 1).eval(), (torch.rand(3),), tmp_path)
    assert error.code == "unsupported-op"
    assert "htpipe_aten_test.twice" in str(error)


def test_data_dependent_shapes_are_named(tmp_path: Path) -> None:
    error = load_error(Function(lambda x: (torch.nonzero(x), x + 1)).eval(), (torch.rand(3),), tmp_path)
    assert "nonzero" in "\n".join([str(error), *error.notes])


class Dynamic(nn.Module):
    """Sizes are computed from those of the input."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """A reshape and a slice whose sizes depend on the input's."""
        half = x.shape[1] // 2
        return x.reshape(x.shape[0] * half, -1), x[:, :half] + x.shape[0]


def save_dynamic(folder: Path) -> Path:
    """A model with an open batch and an open, even length."""
    batch, length = torch.export.Dim("batch", min=2, max=9), torch.export.Dim("length", min=2, max=70)
    program = torch.export.export(Dynamic(), (torch.rand(3, 8),), dynamic_shapes=({0: batch, 1: 2 * length},))
    torch.export.save(program, folder / "model.pt2")
    return folder / "model.pt2"


@pytest.mark.parametrize("shape", [(1, 4), (5, 10)])
def test_open_dimensions_are_fixed_by_place(shape: tuple[int, int], tmp_path: Path) -> None:
    model = htpipe.load(save_dynamic(tmp_path), dims={"batch": shape[0], "x.1": shape[1]})
    x = torch.rand(shape)
    for ours, theirs in zip(model.run(x), Dynamic()(x), strict=True):
        np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-6)


@pytest.mark.parametrize(
    ("dims", "words"),
    [
        ({}, ["x.0", "x.1", "--dim"]),
        ({"x.0": 2}, ["x.1", "--dim"]),
        ({"x.0": 2, "x.1": 7}, ["x.1", "7"]),
        ({"x.0": 20, "x.1": 8}, ["20", "9"]),
        ({"width": 3, "x.0": 2, "x.1": 8}, ["width", "x.0"]),
    ],
)
def test_open_dimensions_are_refused_by_name(dims: dict[str, int], words: list[str], tmp_path: Path) -> None:
    with pytest.raises(htpipe.Error) as caught:
        htpipe.load(save_dynamic(tmp_path), dims=dims)
    assert caught.value.code == "dynamic-shape"
    text = f"{caught.value} {caught.value.hint}"
    for word in words:
        assert word in text


@pytest.mark.parametrize(
    "function",
    [lambda m, x: m.b.add_(x.sum()) * x, lambda m, x: in_place_view(x.mul_(2))],
    ids=["buffer", "input"],
)
@pytest.mark.parametrize("decomposed", [False, True], ids=["whole", "decomposed"])
def test_writes_that_outlive_the_run_are_refused(
    function: Callable[..., Tensor], decomposed: bool, tmp_path: Path
) -> None:
    module = Function(function, a=nn.Identity()).eval()
    module.register_buffer("b", torch.zeros(1))
    torch_oracle.save(module, (torch.rand(3, 3, 4),), {}, tmp_path / "model.pt2", decomposed)
    with pytest.raises(htpipe.Error) as caught:
        htpipe.load(tmp_path / "model.pt2")
    assert caught.value.code == "unsupported-form"


def test_half_precision_stays_at_the_border(tmp_path: Path) -> None:
    model = torch_oracle.check(module_of("half"), CASES["half"][1], {}, tmp_path, decomposed=False)
    assert [info.dtype for info in (*model.inputs, *model.outputs)] == ["f16", "f16"]


def test_numbers_and_nones_as_inputs(tmp_path: Path) -> None:
    class Mixed(nn.Module):
        def forward(self, x: Tensor, k: int, y: Tensor | None = None) -> tuple[Tensor, int]:
            return (x * k if y is None else x + y), k

    model = torch_oracle.check(Mixed(), (torch.rand(3), 4, None), {}, tmp_path, decomposed=False)
    assert [info.name for info in model.inputs] == ["x"]
    assert model.warnings
