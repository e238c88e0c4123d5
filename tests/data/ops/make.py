"""Writes torch_shapes.txt: result shapes as PyTorch gives them, the oracle of the operators' shape rules.

One line per case: operator, key=integers ..., "->", the result shape or "error". Usage: make.py (needs torch 2.13).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

HERE = Path(__file__).resolve().parent
Shape = list[int]


def line(op: str, arguments: dict[str, Shape], call: Callable[[], Tensor]) -> str:
    """One case; PyTorch's refusal becomes "error"."""
    try:
        result = ",".join(map(str, call().shape))
    except (RuntimeError, IndexError):
        result = "error"
    words = [f"{key}={','.join(map(str, value))}" for key, value in arguments.items()]
    return f"{op} {' '.join(words)} -> {result}"


def conv(rng: random.Random) -> str:
    """Conv2d, with groups, dilation and windows that may be too large."""
    group = rng.choice([1, 1, 2, 3])
    per_group = rng.randint(1, 3)
    shape = [rng.randint(1, 2), per_group * group, rng.randint(1, 12), rng.randint(1, 12)]
    weight = [group * rng.randint(1, 3), per_group, rng.randint(1, 4), rng.randint(1, 4)]
    if rng.random() < 0.1:
        weight[rng.randint(0, 1)] += 1
    stride, pad, dilation = ([rng.randint(low, 3), rng.randint(low, 3)] for low in (1, 0, 1))
    arguments = {"in": shape, "weight": weight, "stride": stride, "pad": pad, "dilation": dilation, "group": [group]}
    x, w = torch.zeros(shape), torch.zeros(weight)
    return line("conv", arguments, lambda: F.conv2d(x, w, None, stride, pad, dilation, group))


def pool(rng: random.Random) -> str:
    """Both pools, rounding down and up; PyTorch allows padding up to half the window."""
    shape = [rng.randint(1, 2), rng.randint(1, 3), rng.randint(1, 13), rng.randint(1, 13)]
    window = [rng.randint(1, 5), rng.randint(1, 5)]
    stride = [rng.randint(1, 5), rng.randint(1, 5)]
    pad = [rng.randint(0, window[0] // 2), rng.randint(0, window[1] // 2)]
    ceil = rng.randint(0, 1)
    arguments = {"in": shape, "window": window, "stride": stride, "pad": pad, "ceil": [ceil]}
    x = torch.zeros(shape)
    if rng.random() < 0.5:
        return line("max", arguments, lambda: F.max_pool2d(x, window, stride, pad, 1, bool(ceil)))
    return line("avg", arguments, lambda: F.avg_pool2d(x, window, stride, pad, bool(ceil)))


def broadcast(rng: random.Random) -> str:
    """Two shapes that mostly fit together."""
    result = [rng.randint(1, 4) for _ in range(rng.randint(1, 5))]
    shapes = []
    for _ in range(2):
        shape = [1 if rng.random() < 0.3 else size for size in result[rng.randint(0, len(result)) :]]
        if shape and rng.random() < 0.1:
            shape[rng.randrange(len(shape))] += 1
        shapes.append(shape or [1])
    a, b = shapes
    return line("binary", {"a": a, "b": b}, lambda: torch.zeros(a) + torch.zeros(b))


def linear(rng: random.Random) -> str:
    """Linear layers on inputs of rank 2 to 4."""
    features = rng.randint(1, 5)
    shape = [rng.randint(1, 3) for _ in range(rng.randint(1, 3))] + [features]
    weight = [rng.randint(1, 4), features + (rng.random() < 0.1)]
    return line("linear", {"in": shape, "weight": weight}, lambda: F.linear(torch.zeros(shape), torch.zeros(weight)))


def move(rng: random.Random) -> str:
    """Concat, transpose and reshape."""
    shape = [rng.randint(1, 4) for _ in range(rng.randint(1, 5))]
    x = torch.zeros(shape)
    kind = rng.randint(0, 2)
    if kind == 0:
        axis = rng.randrange(len(shape))
        other = list(shape)
        other[axis if rng.random() < 0.8 else rng.randrange(len(shape))] += rng.randint(0, 2)
        return line(
            "concat", {"a": shape, "b": other, "axis": [axis]}, lambda: torch.cat([x, torch.zeros(other)], axis)
        )
    if kind == 1:
        perm = rng.sample(range(len(shape)), len(shape))
        if rng.random() < 0.15:
            perm[rng.randrange(len(perm))] = perm[0]
        return line("transpose", {"in": shape, "perm": perm}, lambda: x.permute(perm))
    target = [-1 if rng.random() < 0.3 else size for size in rng.sample(shape, len(shape))]
    if rng.random() < 0.2:
        target.append(rng.randint(1, 3))
    return line("reshape", {"in": shape, "shape": target}, lambda: x.reshape(target))


def main() -> None:
    """Writes the file; the cases depend on the seed only."""
    rng = random.Random(0)
    makers = [(conv, 150), (pool, 200), (broadcast, 80), (linear, 40), (move, 130)]
    lines = [maker(rng) for maker, count in makers for _ in range(count)]
    (HERE / "torch_shapes.txt").write_text("\n".join(lines) + "\n")
    print(f"{len(lines)} cases, {sum(each.endswith('error') for each in lines)} errors")


if __name__ == "__main__":
    main()
