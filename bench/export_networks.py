"""Writes FOLDER/{mobilenet_v2,resnet50}.pt2 for the benchmarks: the published architectures at 224 x 224 (or --size).

The weights are random, as training would start, and the statistics of the batch normalisations are those of random
images, so that every layer's values have the range that they have in a trained network.
"""

import argparse
import pathlib

import torch
from networks import MobileNetV2, ResNet50
from torch import nn

NETWORKS = {"mobilenet_v2": MobileNetV2, "resnet50": ResNet50}


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
