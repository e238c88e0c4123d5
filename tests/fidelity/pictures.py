"""Real photographs for the networks: PNG files of the scikit-image package, read without an image library."""

from __future__ import annotations

import functools
import importlib.util
import struct
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.generic]

# Each can be cut into several crops. The first four calibrate, so they are unlike each other.
PHOTOS = ["astronaut", "coffee", "grass", "motorcycle_left", "chelsea", "coins", "brick", "camera", "gravel", "ihc"]
CHANNELS = {0: 1, 2: 3, 4: 2, 6: 4}  # by colour type of PNG


class MissingError(Exception):
    """A package with data or weights is not installed."""


def folder_of(package: str) -> Path:
    """The folder of an installed package, without importing it: some import things that are not needed here."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise MissingError(f"{package} is not installed")
    return Path(next(iter(spec.submodule_search_locations)))


def unfiltered(data: bytes, height: int, row: int, step: int) -> Array:
    """The rows of a PNG without their filters (0 none, 1 sub, 2 up, 3 average, 4 Paeth)."""
    image = np.zeros((height + 1, row + step), np.uint8)  # a row above and a pixel to the left, all zero
    for y in range(height):
        kind, line = data[y * (row + 1)], data[y * (row + 1) + 1 : (y + 1) * (row + 1)]
        above, here = image[y].tolist(), [0] * step + list(line)
        if kind == 2:
            here = [(a + b) & 255 for a, b in zip(here, above, strict=True)]
        for x in range(step, row + step) if kind in (1, 3, 4) else ():
            left, up, corner = here[x - step], above[x], above[x - step]
            if kind == 1:
                predicted = left
            elif kind == 3:
                predicted = (left + up) // 2
            else:
                estimate = left + up - corner
                predicted = min((abs(estimate - left), 0, left), (abs(estimate - up), 1, up),
                                (abs(estimate - corner), 2, corner))[2]  # fmt: skip
            here[x] = (here[x] + predicted) & 255
        image[y + 1] = here
    return image[1:, step:]


@functools.cache
def photo(name: str) -> Array:
    """[height, width, 3] of 8 bits."""
    data = (folder_of("skimage") / "data" / f"{name}.png").read_bytes()
    width, height, depth, colour, _, _, interlaced = struct.unpack(">IIBBBBB", data[16:29])
    if depth != 8 or interlaced or colour not in CHANNELS:
        raise ValueError(f"{name}.png: a form of PNG that is not read here")
    packed, at = b"", 8
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at : at + 8])
        if kind == b"IDAT":
            packed += data[at + 8 : at + 8 + size]
        at += size + 12
    channels = CHANNELS[colour]
    pixels = unfiltered(zlib.decompress(packed), height, width * channels, channels).reshape(height, width, channels)
    return np.repeat(pixels[..., :1], 3, 2) if channels < 3 else pixels[..., :3]


def picture(index: int, size: int) -> Array:
    """[size, size, 3] from 0 to 1: a square of a photograph, averaged down. Each index is another one."""
    pixels = photo(PHOTOS[index % len(PHOTOS)])
    variant = index // len(PHOTOS)
    side = min(pixels.shape[:2]) * 3 // (3 + variant)
    top, left = (pixels.shape[0] - side) // 2, (pixels.shape[1] - side) // 2
    square = pixels[top : top + side, left : left + side].astype(np.float64) / 255
    # Areas by differences of the running sum; edges of cells may lie inside pixels.
    for axis in (0, 1):
        sums = np.concatenate([np.zeros_like(square[:1]), square.cumsum(0)])
        edges = np.linspace(0, side, size + 1)
        whole = np.minimum(edges.astype(int), side - 1)
        at_edges = sums[whole] + (edges - whole)[:, None, None] * (sums[whole + 1] - sums[whole])
        square = (np.diff(at_edges, axis=0) * (size / side)).transpose(1, 0, 2)
        del axis
    return square.astype(np.float32)


def normalised(count: int, size: int) -> npt.NDArray[np.float32]:
    """[count, 1, 3, size, size] as networks for ImageNet take them."""
    mean, deviation = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    stack = np.stack([(picture(i, size) - mean) / deviation for i in range(count)])
    return np.ascontiguousarray(stack.transpose(0, 3, 1, 2)[:, None], np.float32)
