"""Imported models give PyTorch's outputs, and what cannot be imported is named with module and line.

Each case is a small module: PyTorch exports it and computes the reference; `htpipe run` imports, optimises and
compares, then quantises it and, with Qualcomm's libraries, compiles and emulates it for three chips.
"""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

ROOT = Path(__file__).parent.parent
BUILD = Path(os.environ.get("HTPIPE_BUILD", ROOT / "build"))
PROGRAM = BUILD / "bin" / "htpipe"
SAMPLES = 8

pytestmark = pytest.mark.skipif(not PROGRAM.is_file(), reason=f"{PROGRAM} is not built")


class Lambda(nn.Module):
    """Layers by name, and a function of them and the input."""

    def __init__(self, function: Callable[..., Tensor], **layers: nn.Module) -> None:
        super().__init__()
        self.function = function
        for name, layer in layers.items():
            setattr(self, name, layer)

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self, x)


def head(y: Tensor) -> Tensor:
    """Any image to one row per sample."""
    return torch.flatten(F.adaptive_avg_pool2d(y, 1), 1)


def trained_looking(module: nn.Module) -> nn.Module:
    """Batch norms with statistics that are neither 0 nor 1."""
    for layer in module.modules():
        if isinstance(layer, nn.BatchNorm2d):
            nn.init.uniform_(layer.running_mean, -0.5, 0.5)
            nn.init.uniform_(layer.running_var, 0.5, 2.0)
            nn.init.uniform_(layer.weight, 0.5, 1.5)
            nn.init.uniform_(layer.bias, -0.5, 0.5)
    return module.eval()


def conv(*arguments: int, **options: Any) -> nn.Conv2d:
    """A convolution."""
    return nn.Conv2d(*arguments, **options)


CASES: dict[str, Callable[[], nn.Module]] = {
    "conv_bn_relu": lambda: nn.Sequential(
        conv(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten()
    ),
    "conv_bias_bn": lambda: nn.Sequential(conv(3, 5, 3, stride=2), nn.BatchNorm2d(5), nn.Flatten()),
    "dilated": lambda: nn.Sequential(conv(3, 4, 3, padding=2, dilation=2), nn.ReLU(), nn.Flatten()),
    "unequal_window": lambda: nn.Sequential(conv(3, 4, (3, 1), stride=(1, 2), padding=(1, 0)), nn.Flatten()),
    "grouped": lambda: nn.Sequential(conv(3, 6, 1), nn.ReLU(), conv(6, 6, 3, groups=3, padding=1), nn.Flatten()),
    "depthwise": lambda: nn.Sequential(
        conv(3, 6, 1),
        nn.ReLU6(),
        conv(6, 6, 3, groups=6, padding=1, bias=False),
        nn.BatchNorm2d(6),
        nn.ReLU6(),
        nn.Flatten(),
    ),
    "depthwise_stride": lambda: nn.Sequential(conv(3, 3, 3, groups=3, stride=2, padding=1), nn.Flatten()),
    "residual": lambda: Lambda(lambda m, x: head(F.relu(m.a(x) + m.b(x))), a=conv(3, 8, 3, padding=1), b=conv(3, 8, 1)),
    "max_pool": lambda: nn.Sequential(conv(3, 4, 3), nn.MaxPool2d(3, 2, 1), nn.Flatten()),
    "max_pool_ceil": lambda: nn.Sequential(conv(3, 4, 1), nn.MaxPool2d(3, 2, ceil_mode=True), nn.Flatten()),
    "avg_pool": lambda: nn.Sequential(conv(3, 4, 3, padding=1), nn.AvgPool2d(2), nn.Flatten()),
    "adaptive_pool": lambda: nn.Sequential(conv(3, 4, 3, padding=1), nn.AdaptiveAvgPool2d(2), nn.Flatten()),
    "mean": lambda: Lambda(lambda m, x: m.a(x).mean((2, 3)), a=conv(3, 7, 3)),
    "mean_keepdim": lambda: Lambda(lambda m, x: torch.flatten(m.a(x).mean([-1, -2], keepdim=True), 1), a=conv(3, 7, 3)),
    "cat": lambda: Lambda(lambda m, x: head(torch.cat([m.a(x), m.b(x)], 1)), a=conv(3, 4, 1), b=conv(3, 6, 1)),
    "multiply": lambda: Lambda(lambda m, x: head(m.a(x) * m.b(x)), a=conv(3, 4, 1), b=conv(3, 4, 1)),
    "scalar": lambda: Lambda(lambda m, x: head(m.a(x) * 0.5 + 1.0), a=conv(3, 4, 1)),
    "subtract": lambda: Lambda(lambda m, x: head(m.a(x) - m.b(x)), a=conv(3, 4, 1), b=conv(3, 4, 1)),
    "squeeze_excite": lambda: Lambda(
        lambda m, x: head(m.a(x) * torch.sigmoid(m.c(F.relu(m.b(F.adaptive_avg_pool2d(m.a(x), 1)))))),
        a=conv(3, 8, 3),
        b=conv(8, 4, 1),
        c=conv(4, 8, 1),
    ),
    "hard_swish": lambda: nn.Sequential(conv(3, 4, 3), nn.Hardswish(), nn.Flatten()),
    "hard_sigmoid": lambda: nn.Sequential(conv(3, 4, 3), nn.Hardsigmoid(), nn.Flatten()),
    "tanh": lambda: nn.Sequential(conv(3, 4, 3), nn.Tanh(), nn.Flatten()),
    "gelu": lambda: nn.Sequential(conv(3, 4, 3), nn.GELU(), nn.Flatten()),
    "permute": lambda: Lambda(lambda m, x: torch.flatten(m.a(x).permute(0, 2, 3, 1), 1), a=conv(3, 4, 3)),
    "mlp": lambda: nn.Sequential(nn.Flatten(), nn.Linear(192, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 5)),
    "half_weights": lambda: Lambda(lambda m, x: head(F.conv2d(x, m.a.weight.float())), a=conv(3, 4, 3).half()),
}


def export(module: nn.Module, folder: Path) -> tuple[Path, np.ndarray]:
    """Writes model.pt2 and returns it with random inputs."""
    torch.manual_seed(3)
    program = torch.export.export(module, (torch.zeros(1, 3, 8, 8),))
    file = folder / "model.pt2"
    torch.export.save(program, file)
    return file, np.random.default_rng(5).uniform(-1, 1, (SAMPLES, 3, 8, 8)).astype(np.float32)


def run(folder: Path, model: Path, inputs: np.ndarray, logits: np.ndarray) -> subprocess.CompletedProcess[str]:
    """Runs the pipeline on a model with random inputs and PyTorch's outputs."""
    np.savez(folder / "data.npz", input=inputs, labels=logits.argmax(1).astype(np.int64))
    np.savez(folder / "reference.npz", logits=logits)
    config = {
        "model": {"id": "case", "source": str(model), "reference": str(folder / "reference.npz")},
        "targets": ["snapdragon-8-gen-3", "snapdragon-888", "snapdragon-7-gen-3"],
        "data": {
            "format": "npz",
            "calibration": {"file": str(folder / "data.npz"), "samples": SAMPLES},
            "evaluation": {"file": str(folder / "data.npz"), "samples": SAMPLES},
        },
        "gates": {"layer_cosine": 0.9, "max_accuracy_drop": 1.0, "reference_samples": SAMPLES},
        "emulator": {"layer_samples": SAMPLES, "task_samples": SAMPLES},
        "output": str(folder / "out"),
    }
    file = folder / "pipeline.yaml"
    file.write_text(json.dumps(config))
    return subprocess.run([PROGRAM, "run", file, "--json"], capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.parametrize("name", CASES)
def test_outputs_are_those_of_pytorch(name: str, tmp_path: Path) -> None:
    torch.manual_seed(11)
    module = trained_looking(CASES[name]())
    model, inputs = export(module, tmp_path)
    with torch.no_grad():
        logits = np.concatenate([module(torch.from_numpy(row[None])).numpy() for row in inputs])
    result = run(tmp_path, model, inputs, logits)
    assert result.returncode == 0, result.stderr + result.stdout[-3000:]
    report = json.loads(result.stdout)["result"]
    stages = {stage["stage"] for stage in report["stages"]}
    assert "compare with PyTorch" in stages


def test_unknown_operators_are_all_named(tmp_path: Path) -> None:
    module = Lambda(lambda m, x: torch.special.i0(torch.lgamma(m.inner(x))), inner=Lambda(lambda _, x: torch.erfinv(x)))
    model, inputs = export(module.eval(), tmp_path)
    result = run(tmp_path, model, inputs, np.zeros((SAMPLES, 192), np.float32))
    assert result.returncode == 1
    error = json.loads(result.stdout)["error"]
    assert error["code"] == "unsupported-op"
    notes = "\n".join(error["notes"])
    for operator in ("aten.special_i0.default", "aten.lgamma.default", "aten.erfinv.default"):
        assert operator in notes
    assert "import_test.py:" in notes
    assert "inner" in notes


def test_dynamic_shape_is_refused_by_name(tmp_path: Path) -> None:
    module = nn.Sequential(conv(3, 4, 3), nn.Flatten()).eval()
    program = torch.export.export(module, (torch.zeros(2, 3, 8, 8),), dynamic_shapes=({0: torch.export.Dim("batch")},))
    model = tmp_path / "model.pt2"
    torch.export.save(program, model)
    result = run(tmp_path, model, np.zeros((SAMPLES, 3, 8, 8), np.float32), np.zeros((SAMPLES, 144), np.float32))
    assert result.returncode == 1
    assert json.loads(result.stdout)["error"]["code"] == "dynamic-shape"


def test_training_mode_is_refused(tmp_path: Path) -> None:
    model, inputs = export(nn.Sequential(conv(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten()).train(), tmp_path)
    result = run(tmp_path, model, inputs, np.zeros((SAMPLES, 144), np.float32))
    assert result.returncode == 1
    error = json.loads(result.stdout)["error"]
    assert "eval()" in json.dumps(error) or error["code"] == "unsupported-op"
