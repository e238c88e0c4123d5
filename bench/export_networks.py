"""Writes FOLDER/{mobilenet_v2,resnet50}.pt2 for the benchmarks: the published architectures at 224 x 224 (or --size).

The weights are random, as training would start, and the statistics of the batch normalisations are those of random
images, so that every layer's values have the range that they have in a trained network.
"""

import argparse
import pathlib

import torch
from torch import nn


def conv(inside: int, outside: int, kernel: int, stride: int = 1, groups: int = 1, act: type | None = None):
    layers = [
        nn.Conv2d(inside, outside, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outside),
    ]
    if act is not None:
        layers.append(act())
    return nn.Sequential(*layers)


class Inverted(nn.Module):
    """The block of MobileNetV2: widen, depthwise, narrow; with the input added where the shapes agree."""

    def __init__(self, inside: int, outside: int, stride: int, widen: int):
        super().__init__()
        hidden = inside * widen
        layers = [conv(inside, hidden, 1, act=nn.ReLU6)] if widen != 1 else []
        layers += [conv(hidden, hidden, 3, stride, hidden, nn.ReLU6), conv(hidden, outside, 1)]
        self.body = nn.Sequential(*layers)
        self.adds = stride == 1 and inside == outside

    def forward(self, x):
        return x + self.body(x) if self.adds else self.body(x)


def mobilenet_v2() -> nn.Module:
    layers = [conv(3, 32, 3, 2, act=nn.ReLU6)]
    inside = 32
    plan = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
    for widen, outside, count, stride in plan:
        for i in range(count):
            layers.append(Inverted(inside, outside, stride if i == 0 else 1, widen))
            inside = outside
    layers.append(conv(inside, 1280, 1, act=nn.ReLU6))
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1280, 1000))


class Bottleneck(nn.Module):
    def __init__(self, inside: int, width: int, stride: int):
        super().__init__()
        outside = 4 * width
        self.body = nn.Sequential(
            conv(inside, width, 1, act=nn.ReLU), conv(width, width, 3, stride, act=nn.ReLU), conv(width, outside, 1)
        )
        self.skip = nn.Identity() if stride == 1 and inside == outside else conv(inside, outside, 1, stride)
        self.relu = nn.ReLU()

    def forward(self, x):
        return self.relu(self.body(x) + self.skip(x))


def resnet50() -> nn.Module:
    layers = [conv(3, 64, 7, 2, act=nn.ReLU), nn.MaxPool2d(3, 2, 1)]
    inside = 64
    for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for i in range(count):
            layers.append(Bottleneck(inside, width, stride if i == 0 else 1))
            inside = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


NETWORKS = {"mobilenet_v2": mobilenet_v2, "resnet50": resnet50}


def images(count: int, size: int) -> torch.Tensor:
    """Smooth random colours with some noise, as photos have them."""
    coarse = torch.randn(count, 3, 7, 7)
    smooth = nn.functional.interpolate(coarse, (size, size), mode="bilinear")
    return (smooth + 0.2 * torch.randn(count, 3, size, size)).clamp(-2.2, 2.4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("networks", nargs="*", default=list(NETWORKS), help=" ".join(NETWORKS))
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    for name in args.networks:
        torch.manual_seed(0)
        network = NETWORKS[name]()
        with torch.no_grad():
            for _ in range(10):  # the running statistics converge by a tenth a step
                network(images(4, 224))
            for layer in network.modules():
                if isinstance(layer, nn.BatchNorm2d):
                    layer.bias.normal_(0, 0.3)
        network.eval()
        program = torch.export.export(network, (images(1, args.size),))
        torch.export.save(program, args.folder / f"{name}.pt2")


if __name__ == "__main__":
    main()
