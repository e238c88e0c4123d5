"""Trains, exports and references the example model: a small residual CNN for Fashion-MNIST.

Writes two files beside this script:

* ``fashion_resnet.pt2``: the model after ``torch.export``, input ``[1, 1, 28, 28]`` float32 with pixels in 0..1,
  output ``[1, 10]`` logits.
* ``reference.npz``: what PyTorch itself computes with that file, so that another engine can be compared with PyTorch
  where no Python is installed: ``logits`` (float32 ``[100, 10]``, the first 100 test images), ``predictions`` (uint8
  ``[10000]``, all test images), ``torch_top1`` (float64 scalar, 0..1) and ``model_sha256`` (uint8 ``[64]``, the hex
  digits of the model file's digest in ASCII).

The data are the idx files of Debian's package ``dataset-fashion-mnist``.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
REFERENCE_IMAGES = 100


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions beside a 1x1 shortcut; ReLU after the addition."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        """Maps ``inputs`` channels to ``outputs`` channels and divides height and width by ``stride``."""
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
        self.shortcut_bn = nn.BatchNorm2d(outputs)

    def forward(self, x: Tensor) -> Tensor:
        """[N, inputs, H, W] to [N, outputs, H / stride, W / stride]."""
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return F.relu(y + self.shortcut_bn(self.shortcut(x)))


class FashionResNet(nn.Module):
    """Stem, two residual blocks, global average pooling and a linear classifier."""

    def __init__(self) -> None:
        """Builds the model with random weights."""
        super().__init__()
        self.conv = nn.Conv2d(1, 16, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(16)
        self.pool = nn.MaxPool2d(2)
        self.block1 = ResidualBlock(16, 32, stride=1)
        self.block2 = ResidualBlock(32, 64, stride=2)
        self.global_pool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        """[N, 1, 28, 28] pixels in 0..1 to [N, 10] logits."""
        x = self.pool(F.relu(self.bn(self.conv(x))))
        x = self.block2(self.block1(x))
        return self.classifier(torch.flatten(self.global_pool(x), 1))


def read_idx(path: Path) -> npt.NDArray[np.uint8]:
    """Reads one gzip-compressed idx file of unsigned bytes."""
    content = gzip.decompress(path.read_bytes())
    if content[:3] != b"\0\0\x08":
        raise ValueError(f"{path} is no idx file of unsigned bytes")
    rank = content[3]
    shape = tuple(np.frombuffer(content, ">u4", rank, 4).tolist())
    return np.frombuffer(content, np.uint8, offset=4 + 4 * rank).reshape(shape)


def load(folder: Path, split: str) -> tuple[Tensor, Tensor]:
    """Images [N, 1, 28, 28] in 0..1 and labels [N] of the split ``train`` or ``t10k``."""
    images = read_idx(folder / f"{split}-images-idx3-ubyte.gz")
    labels = read_idx(folder / f"{split}-labels-idx1-ubyte.gz")
    return torch.from_numpy(images.astype(np.float32) / 255.0).unsqueeze(1), torch.from_numpy(labels.astype(np.int64))


def top1(model: nn.Module, images: Tensor, labels: Tensor) -> float:
    """Share of ``images`` whose largest logit is the label."""
    model.eval()
    with torch.inference_mode():
        right = sum(
            int((model(x).argmax(1) == y).sum()) for x, y in zip(images.split(500), labels.split(500), strict=True)
        )
    return right / len(labels)


def train(data: Path, epochs: int, batch: int, seed: int) -> FashionResNet:
    """Trains with AdamW and a one-cycle learning rate; the result depends on the seed and the torch build only."""
    torch.manual_seed(seed)
    images, labels = load(data, "train")
    test_images, test_labels = load(data, "t10k")
    model = FashionResNet()
    print(f"{sum(p.numel() for p in model.parameters())} parameters")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.02)
    steps = len(images) // batch
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=8e-3, epochs=epochs, steps_per_epoch=steps)
    loss_function = nn.CrossEntropyLoss(label_smoothing=0.05)
    for epoch in range(epochs):
        model.train()
        start = time.process_time()
        order = torch.randperm(len(images))
        total = 0.0
        for step in range(steps):
            chosen = order[step * batch : (step + 1) * batch]
            x = images[chosen]
            x = torch.where(torch.rand(batch, 1, 1, 1) < 0.5, x.flip(3), x)
            loss = loss_function(model(x), labels[chosen])
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item()
        seconds = time.process_time() - start
        accuracy = top1(model, test_images, test_labels)
        mean = total / steps
        print(f"epoch {epoch + 1}: loss {mean:.4f}, test top-1 {accuracy:.4f}, {seconds:.0f} CPU s", flush=True)
    return model


def export(model: nn.Module, path: Path) -> None:
    """Exports for batch 1 and saves; stack traces name files of this repository relative to its root."""
    exported = torch.export.export(model.eval(), (torch.zeros(1, 1, 28, 28),))
    for node in exported.graph.nodes:
        if trace := node.meta.get("stack_trace"):
            node.meta["stack_trace"] = trace.replace(f"{REPOSITORY}/", "")
    exported.example_inputs = None
    torch.export.save(exported, path)


def write_reference(model_path: Path, path: Path, data: Path) -> float:
    """Runs the saved program on the test images, writes ``reference.npz`` and returns top-1."""
    images, labels = load(data, "t10k")
    program = torch.export.load(model_path).module()
    with torch.inference_mode():
        logits = torch.cat([program(x) for x in images.split(1)])
    predictions = logits.argmax(1)
    accuracy = int((predictions == labels).sum()) / len(labels)
    digest = hashlib.sha256(model_path.read_bytes()).hexdigest()
    np.savez(
        path,
        logits=logits[:REFERENCE_IMAGES].numpy(),
        predictions=predictions.numpy().astype(np.uint8),
        torch_top1=np.float64(accuracy),
        model_sha256=np.frombuffer(digest.encode(), np.uint8),
    )
    return accuracy


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("/usr/share/datasets/fashion-mnist"), help="the idx files")
    parser.add_argument("--output", type=Path, default=HERE, help="folder of the two files")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1, help="more threads may change the last bits")
    parser.add_argument("--reference-only", action="store_true", help="recompute reference.npz from the .pt2")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    model_path = arguments.output / "fashion_resnet.pt2"
    if not arguments.reference_only:
        export(train(arguments.data, arguments.epochs, arguments.batch, arguments.seed), model_path)
    accuracy = write_reference(model_path, arguments.output / "reference.npz", arguments.data)
    print(f"{model_path.name}: {model_path.stat().st_size} bytes, PyTorch top-1 {accuracy:.4f} on the test images")


if __name__ == "__main__":
    main()
