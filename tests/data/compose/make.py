"""Writes torch_windows.txt: what PyTorch computes for small convolutions and pools, the oracle of src/import/compose.

One line per case: operator, key=integers ..., "->", the result shape, ":" and its elements. Data and weights are small
integers that the test makes in the same way (numbers). Usage: make.py (needs torch 2.13).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

HERE = Path(__file__).resolve().parent
LARGEST = 90  # elements of a result


def numbers(shape: list[int], factor: int, modulus: int) -> Tensor:
    """Small integers around 0."""
    count = int(torch.tensor(shape).prod())
    return ((torch.arange(count) * factor + 3) % modulus - modulus // 2).double().reshape(shape)


def line(op: str, arguments: dict[str, list[int]], call: Callable[[], Tensor]) -> str | None:
    """One case; None when PyTorch refuses it or the result is long."""
    try:
        result = call()
    except RuntimeError:
        return None
    if result.numel() == 0 or result.numel() > LARGEST:
        return None
    words = [f"{key}={','.join(map(str, value))}" for key, value in arguments.items()]
    elements = " ".join(f"{x:.7g}" for x in result.flatten().tolist())
    return f"{op} {' '.join(words)} -> {','.join(map(str, result.shape))} : {elements}"


def sizes(rng: random.Random, axes: int) -> list[int]:
    """Spatial sizes; fewer elements along each of more axes."""
    return [rng.randint(1, {1: 12, 2: 7, 3: 5}[axes]) for _ in range(axes)]


def each(rng: random.Random, axes: int, low: int, high: int) -> list[int]:
    """One number per axis."""
    return [rng.randint(low, high) for _ in range(axes)]


def conv(rng: random.Random) -> str | None:
    """Convolutions, also transposed ones, with groups and depthwise."""
    axes = rng.choice([1, 2, 2, 3])
    transposed = rng.random() < 0.5
    group = rng.choice([1, 1, 2, 3])
    per_group_in = rng.choice([1, 1, 2])
    per_group_out = rng.choice([1, 2, 3])
    kernel = each(rng, axes, 1, 3)
    in_channels, out_channels = group * per_group_in, group * per_group_out
    shape = [rng.randint(1, 2), in_channels, *sizes(rng, axes)]
    weight = [in_channels, per_group_out, *kernel] if transposed else [out_channels, per_group_in, *kernel]
    stride, dilation = each(rng, axes, 1, 3), each(rng, axes, 1, 2)
    pad = each(rng, axes, 0, 2)
    out_pad = [rng.randint(0, max(s, d) - 1) if transposed else 0 for s, d in zip(stride, dilation, strict=True)]
    bias = rng.randint(0, 1)
    arguments = {"in": shape, "weight": weight, "stride": stride, "pad": pad, "dilation": dilation}
    arguments |= {"output_padding": out_pad, "group": [group], "bias": [bias], "transposed": [int(transposed)]}
    x, w = numbers(shape, 7, 11), numbers(weight, 5, 7)
    b = numbers([out_channels], 3, 5) if bias else None
    if transposed:
        function = getattr(F, f"conv_transpose{axes}d")
        return line("conv", arguments, lambda: function(x, w, b, stride, pad, out_pad, group, dilation))
    function = getattr(F, f"conv{axes}d")
    return line("conv", arguments, lambda: function(x, w, b, stride, pad, dilation, group))


def pool(rng: random.Random) -> str | None:
    """Maxima and means, with rounding up, counted padding, dilation and divisors."""
    axes = rng.choice([1, 2, 2, 3])
    shape = [rng.randint(1, 2), rng.randint(1, 2), *sizes(rng, axes)]
    kernel, stride = each(rng, axes, 1, 4), each(rng, axes, 1, 3)
    pad = [rng.randint(0, k // 2) for k in kernel]
    ceil = rng.randint(0, 1)
    x = numbers(shape, 7, 11)
    arguments = {"in": shape, "kernel": kernel, "stride": stride, "pad": pad, "ceil": [ceil]}
    if rng.random() < 0.4:
        arguments["dilation"] = dilation = each(rng, axes, 1, 2)
        function = getattr(F, f"max_pool{axes}d")
        return line("max", arguments, lambda: function(x, kernel, stride, pad, dilation, bool(ceil)))
    arguments["count"] = [count] = [rng.randint(0, 1)]
    arguments["divisor"] = [divisor] = [rng.choice([0, 0, 0, 5]) if axes > 1 else 0]
    function = getattr(F, f"avg_pool{axes}d")
    more = [divisor or None] if axes > 1 else []
    return line("avg", arguments, lambda: function(x, kernel, stride, pad, bool(ceil), bool(count), *more))


def adaptive(rng: random.Random) -> str | None:
    """Adaptive pools, whose windows differ in size where the sizes do not divide."""
    axes = rng.choice([1, 2, 2, 3])
    shape = [rng.randint(1, 2), rng.randint(1, 2), *sizes(rng, axes)]
    out = each(rng, axes, 1, 4)
    kind = rng.choice(["max", "avg", "avg"])
    x = numbers(shape, 7, 11)
    function = getattr(F, f"adaptive_{kind}_pool{axes}d")
    return line(f"adaptive_{kind}", {"in": shape, "out": out}, lambda: function(x, out))


def main() -> None:
    """Writes the file; the cases depend on the seed only."""
    rng = random.Random(0)
    lines: list[str] = []
    for maker, count in ((conv, 220), (pool, 200), (adaptive, 60)):
        found: list[str] = []
        while len(found) < count:
            if text := maker(rng):
                found.append(text)
        lines += found
    (HERE / "torch_windows.txt").write_text("\n".join(lines) + "\n")
    print(f"{len(lines)} cases")


if __name__ == "__main__":
    main()
