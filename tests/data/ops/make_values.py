"""Writes values.txt: what operators compute, as PyTorch and numpy give it; src/ops/values_test.cc runs the cases.

One case is a graph of one node on one line, a line "in" for each of its inputs and a line "out" for each result, with
data type, shape and numbers. Usage: make_values.py (needs torch 2.13 and numpy).
"""

from __future__ import annotations

import itertools
import random
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from numpy import ndarray

HERE = Path(__file__).resolve().parent
NAMES = {"float64": "f64", "float32": "f32", "float16": "f16", "bool": "bool"}
NAMES |= {f"{kind}int{bits}": f"{kind or 'i'}{bits}" for kind in ("", "u") for bits in (8, 16, 32, 64)}
INTS = ["int64", "int32", "int16", "int8", "uint32", "uint16", "uint8"]
ALL = ["float32", "float16", "float64", "bool", *INTS]
Case = str


def type_of(array: ndarray) -> str:
    return f"{NAMES[array.dtype.name]}[{','.join(map(str, array.shape))}]"


def number(value: object) -> str:
    if isinstance(value, bool):
        return str(int(value))
    return repr(value).replace("inf", "inf")


def line(word: str, array: ndarray) -> str:
    numbers = [
        number(x) for x in array.reshape(-1).astype(np.float64 if array.dtype.kind == "f" else array.dtype).tolist()
    ]
    return " ".join([word, type_of(array), *numbers])


def attribute(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value!r}f"
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, (list, tuple)):
        return f"[{','.join(str(int(x)) for x in value)}]"
    return str(int(value))


def case(op: str, inputs: list[ndarray], results: list[ndarray], constant: int = -1, **attributes: object) -> Case:
    """One case; operand `constant` is a constant of the graph where it is small enough to stand inline."""
    if constant >= 0 and not (0 < inputs[constant].size <= 16 and inputs[constant].ndim > 0):
        constant = -1
    names = [f"%x{i}" for i in range(len(inputs))]
    parameters = ", ".join(
        f"{n}: {type_of(x)}" for i, (n, x) in enumerate(zip(names, inputs, strict=True)) if i != constant
    )
    outs = ", ".join(f"%y{i}" for i in range(len(results)))
    body = ""
    if constant >= 0:
        numbers = ",".join(map(str, inputs[constant].reshape(-1).tolist()))
        body = f"%x{constant} = const {type_of(inputs[constant])} [{numbers}] "
    words = ", ".join(f"{key}={attribute(value)}" for key, value in attributes.items())
    body += f"{outs} = {op}({', '.join(names)}) {{{words}}}"
    lines = [f"graph @{op}({parameters}) -> ({outs}) {{ {body} }}"]
    lines += [line("in", x) for i, x in enumerate(inputs) if i != constant]
    lines += [line("out", np.asarray(y)) for y in results]
    return "\n".join(lines)


class Maker:
    """Random arrays and shapes; the same seed makes the same file."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.dtypes = itertools.cycle(ALL)

    def shape(self, low: int = 0, high: int = 4, least: int = 1) -> list[int]:
        return [self.rng.randint(least, 4) for _ in range(self.rng.randint(low, high))]

    def array(self, shape: list[int], dtype: str) -> ndarray:
        count = int(np.prod(shape))
        if dtype == "bool":
            return np.array([self.rng.random() < 0.5 for _ in range(count)], dtype=bool).reshape(shape)
        low = 0 if dtype.startswith("u") else -20
        numbers = [self.rng.randint(low, 20) for _ in range(count)]
        scale = 4 if dtype.startswith("float") else 1
        return (np.array(numbers, dtype=np.float64) / scale).reshape(shape).astype(dtype)

    def indices(self, shape: list[int], size: int) -> ndarray:
        """Of both data types, negative ones too, often several alike."""
        count = int(np.prod(shape))
        dtype = self.rng.choice([np.int64, np.int32])
        return np.array([self.rng.randint(-size, size - 1) for _ in range(count)], dtype=dtype).reshape(shape)


def reductions(m: Maker) -> Iterator[Case]:
    functions = {"Mean": np.mean, "Sum": np.sum, "Max": np.max, "Min": np.min, "Prod": np.prod}
    functions["SumSquare"] = lambda x, **k: np.sum(x * x, **k)
    for name, function in functions.items():
        for i in range(10):
            dtype = ["float32", "int64", "float16", "int32", "float32"][i % 5]
            x = m.array(m.shape(), dtype)
            axes = sorted(m.rng.sample(range(x.ndim), m.rng.randint(0, x.ndim)))
            if name == "Prod":
                x = (np.sign(x) * np.minimum(np.abs(x), 3)).astype(dtype)
            wide = x.astype(np.float64) if dtype.startswith("float") else x.astype(np.int64)
            y = function(wide, axis=tuple(axes), keepdims=bool(i % 2))
            if name == "Mean" and not dtype.startswith("float"):
                count = int(np.prod([x.shape[a] for a in axes]))
                total = np.sum(wide, axis=tuple(axes), keepdims=bool(i % 2))
                y = np.sign(total) * (np.abs(total) // count)
            yield case(f"Reduce{name}", [x], [np.asarray(y).astype(dtype)], axes=axes, keep_dims=bool(i % 2))
    for name, function in {"Max": np.any, "Min": np.all, "Prod": np.all}.items():
        x = m.array([3, 4], "bool")
        yield case(f"Reduce{name}", [x], [function(x, axis=1)], axes=[1])
        empty = np.zeros([2, 0], bool)
        yield case(f"Reduce{name}", [empty], [function(empty, axis=1)], axes=[1])
    odd = np.array([[1, np.nan, 3], [np.inf, -np.inf, 0]], np.float32)
    for name in ("Max", "Min", "Sum"):
        y = getattr(np, name.lower())(odd, axis=1)
        yield case(f"Reduce{name}", [odd], [y], axes=[1])
        yield case(f"Reduce{name}", [odd.T.copy()], [y], axes=[0])
    empty = np.zeros([2, 0, 3], np.float32)
    yield case("ReduceSum", [empty], [np.sum(empty, axis=1)], axes=[1])
    yield case("ReduceProd", [empty], [np.prod(empty, axis=1)], axes=[1])
    yield case("ReduceMean", [empty], [np.full([2, 3], np.nan, np.float32)], axes=[1])
    yield case("ReduceSum", [empty], [np.sum(empty, axis=0)], axes=[0])
    # 16777216 + 1 + 1 is lost in single precision, whose result is 16777216.
    yield case("ReduceSum", [np.array([16777216, 1, 1], np.float32)], [np.array(16777218, np.float32)], axes=[0])


def slices(m: Maker) -> Iterator[Case]:
    for _ in range(40):
        x = m.array(m.shape(least=0), next(m.dtypes))
        begin, end, strides, index = [], [], [], []
        for size in x.shape:
            step = m.rng.choice([1, 1, 2, 3, -1, -2, 100])
            if step > 0:
                b, e = m.rng.randint(0, size), m.rng.randint(0, size)
            else:
                b, e = m.rng.randint(-1, max(size, 1) - 1), m.rng.randint(-1, size)
            begin.append(b)
            end.append(e)
            strides.append(step)
            # numpy has no end "before 0" but None.
            index.append(slice(0, 0) if b < 0 else slice(b, None if step < 0 and e < 0 else e, step))
        yield case("StridedSlice", [x], [x[tuple(index)].copy()], begin=begin, end=end, strides=strides)


def splits(m: Maker) -> Iterator[Case]:
    for _ in range(12):
        x = m.array(m.shape(low=1), next(m.dtypes))
        axis = m.rng.randrange(x.ndim)
        cuts = sorted(m.rng.randint(0, x.shape[axis]) for _ in range(m.rng.randint(0, 3)))
        yield case("Split", [x], [p.copy() for p in np.split(x, cuts, axis)], axis=axis, split_index=cuts)


def tiles(m: Maker) -> Iterator[Case]:
    for _ in range(12):
        x = m.array(m.shape(high=3, least=0), next(m.dtypes))
        multiples = [m.rng.randint(0 if m.rng.random() < 0.1 else 1, 3) for _ in x.shape]
        yield case("Tile", [x], [np.tile(x, multiples) if x.ndim else x], multiples=multiples)


def pads(m: Maker) -> Iterator[Case]:
    schemes = {"constant": "constant", "mirror_symmetric": "symmetric", "mirror_reflect": "reflect"}
    schemes |= {"edge": "edge", "wrap": "wrap"}
    for name, mode in schemes.items():
        for _ in range(8):
            x = m.array(m.shape(high=3), next(m.dtypes))
            pad = [[m.rng.randint(0, 6), m.rng.randint(0, 3)] for _ in x.shape]
            flat = [a for pair in pad for a in pair]
            if mode != "constant":
                yield case("Pad", [x], [np.pad(x, pad, mode) if x.ndim else x], scheme=name, pad_amount=flat)
                continue
            value = 1.0 if x.dtype == bool else float(m.rng.randint(0, 5))
            y = np.pad(x, pad, mode, constant_values=value) if x.ndim else x
            yield case("Pad", [x], [y], scheme=name, pad_amount=flat, pad_constant_value=value)
    low = np.array([1], np.float32)
    y = np.array([1, -np.inf], np.float32)
    yield case("Pad", [low], [y], pad_amount=[0, 1], pad_constant_value=-np.inf)
    yield case("Pad", [np.zeros([0], np.float32)], [np.zeros([3], np.float32)], pad_amount=[1, 2])


def gathers(m: Maker) -> Iterator[Case]:
    for i in range(16):
        x = m.array(m.shape(low=1, high=3), next(m.dtypes))
        axis = m.rng.randrange(x.ndim)
        index = m.indices(m.shape(high=2, least=0), x.shape[axis])
        yield case("Gather", [x, index], [np.take(x, index, axis)], constant=1 if i % 2 else -1, axis=axis)
    for i in range(16):
        x = m.array(m.shape(low=1, high=3), m.rng.choice(ALL[:4] + INTS[:4]))
        axis = m.rng.randrange(x.ndim)
        shape = [m.rng.randint(0, 5) if a == axis else m.rng.randint(1, s) for a, s in enumerate(x.shape)]
        index = m.indices(shape, x.shape[axis])
        positive = torch.from_numpy(np.where(index < 0, index + x.shape[axis], index).astype(np.int64))
        y = torch.gather(torch.from_numpy(x), axis, positive).numpy()
        yield case("GatherElements", [x, index], [y], constant=1 if i % 2 else -1, axis=axis)
    for i in range(16):
        x = m.array(m.shape(low=1, high=4), next(m.dtypes))
        batch = m.rng.randint(0, min(2, x.ndim - 1))
        depth = m.rng.randint(0 if i == 3 else 1, x.ndim - batch)
        lead = [*x.shape[:batch], *m.shape(high=2)]
        columns = [m.indices([*lead, 1], x.shape[batch + k]).astype(np.int64) for k in range(depth)]
        index = np.concatenate(columns, -1) if columns else np.zeros([*lead, 0], np.int64)
        y = np.zeros([*lead, *x.shape[batch + depth :]], x.dtype)
        for at in np.ndindex(*lead):
            y[at] = x[at[:batch]][tuple(index[at])]
        yield case("GatherNd", [x, index], [y], constant=1 if i % 2 else -1, batch_dims=batch)


def scatters(m: Maker) -> Iterator[Case]:
    torch_names = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}
    for reduction in ("none", *torch_names):
        for i in range(10):
            dtype = ["float32", "int64", "float16", "int32", "uint8", "int8", "float64", "int16"][i % 8]
            x = m.array(m.shape(low=1, high=3), dtype)
            axis = m.rng.randrange(x.ndim)
            shape = [m.rng.randint(0, 5) if a == axis else m.rng.randint(1, s) for a, s in enumerate(x.shape)]
            index = m.indices(shape, x.shape[axis])
            updates = m.array(shape, dtype)
            if dtype == "float16" and reduction in ("add", "mul"):
                # PyTorch may keep float16 sums in single precision; small whole numbers are exact either way.
                x, updates = np.round(np.clip(x, -2, 2)), np.round(np.clip(updates, -2, 2))
            positive = torch.from_numpy(np.where(index < 0, index + x.shape[axis], index).astype(np.int64))
            t, u = torch.from_numpy(x), torch.from_numpy(updates)
            if reduction == "none":
                # PyTorch leaves open which of several updates stays: here the last.
                y = x.copy()
                for at in np.ndindex(*shape):
                    y[(*at[:axis], int(positive[at]), *at[axis + 1 :])] = updates[at]
            else:
                y = t.scatter_reduce(axis, positive, u, torch_names[reduction]).numpy()
            yield case("ScatterElements", [x, index, updates], [y], 1 if i % 2 else -1, axis=axis, reduction=reduction)
    functions = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}
    for reduction in ("none", *functions):
        for i in range(8):
            dtype = ["float32", "int64", "bool", "int32", "uint16", "float64", "uint32", "int8"][i % 8]
            x = m.array(m.shape(low=1, high=3), dtype)
            depth = m.rng.randint(0 if i == 3 else 1, x.ndim)
            lead = m.shape(high=2)
            columns = [m.indices([*lead, 1], x.shape[k]).astype(np.int64) for k in range(depth)]
            index = np.concatenate(columns, -1) if columns else np.zeros([*lead, 0], np.int64)
            updates = m.array([*lead, *x.shape[depth:]], dtype)
            y = x.copy()
            for at in np.ndindex(*lead):
                where = tuple(index[at])
                y[where] = updates[at] if reduction == "none" else functions[reduction](y[where], updates[at])
            yield case("ScatterNd", [x, index, updates], [y], 1 if i % 2 else -1, reduction=reduction)


def blocks(m: Maker) -> Iterator[Case]:
    for i in range(12):
        n, c, h, w = (m.rng.randint(1, 3) for _ in range(4))
        bh, bw = (m.rng.randint(1, 3) for _ in range(2))
        depth = m.array([n, c * bh * bw, h, w], next(m.dtypes))
        mode = "crd" if i % 2 else "dcr"
        if mode == "crd":
            space = depth.reshape(n, c, bh, bw, h, w).transpose(0, 1, 4, 2, 5, 3).reshape(n, c, h * bh, w * bw)
            if bh == bw and depth.dtype == np.float32:
                shuffled = torch.nn.functional.pixel_shuffle(torch.from_numpy(depth), bh).numpy()
                assert (shuffled == space).all()
        else:
            space = depth.reshape(n, bh, bw, c, h, w).transpose(0, 3, 4, 1, 5, 2).reshape(n, c, h * bh, w * bw)
        last = [np.ascontiguousarray(a.transpose(0, 2, 3, 1)) for a in (depth, space)]
        for layout, (d, s) in {"nchw": (depth, space), "nhwc": last}.items():
            yield case("DepthToSpace", [d], [s], block_size=[bh, bw], mode=mode, data_layout=layout)
            yield case("SpaceToDepth", [s], [d], block_size=[bh, bw], mode=mode, data_layout=layout)


def rankings(m: Maker) -> Iterator[Case]:
    for i in range(16):
        dtype = ["float32", "int64", "float16", "int32", "uint8", "bool"][i % 6]
        x = m.array(m.shape(low=1, high=3), dtype)
        axis = m.rng.randrange(x.ndim)
        largest = bool(i % 2)
        for last in (False, True):
            best = x.max(axis, keepdims=True) if largest else x.min(axis, keepdims=True)
            same = x == best
            size = x.shape[axis]
            y = size - 1 - np.argmax(np.flip(same, axis), axis) if last else np.argmax(same, axis)
            y = np.expand_dims(y, axis) if last else y
            op = "Argmax" if largest else "Argmin"
            yield case(op, [x], [y.astype(np.int32)], axis=axis, keep_dims=last, select_last=last)
        k = m.rng.randint(0, x.shape[axis])
        key = x.astype(np.float64)
        order = np.argsort(-key if largest else key, axis, kind="stable").take(range(k), axis)
        values = np.take_along_axis(x, order, axis)
        yield case("TopK", [x], [values, order.astype(np.int32)], k=k, axis=axis, largest=largest)
    odd = np.array([[3, 1, 3, 2], [np.nan, 5, -1, 7]], np.float32)
    for largest in (True, False):
        top = torch.topk(torch.from_numpy(odd[1]), 4, largest=largest)
        yield case(
            "TopK", [odd[1]], [top.values.numpy(), top.indices.numpy().astype(np.int32)], k=4, axis=0, largest=largest
        )
    yield case("Argmax", [odd], [torch.from_numpy(odd).argmax(1).numpy().astype(np.int32)], axis=1)
    yield case("Argmin", [odd], [torch.from_numpy(odd).argmin(1).numpy().astype(np.int32)], axis=1)


def sums_and_others(m: Maker) -> Iterator[Case]:
    for i in range(12):
        x = m.array(m.shape(low=1, high=3), ["float32", "int64", "float16", "int32"][i % 4])
        axis, exclusive, reverse = m.rng.randrange(x.ndim), bool(i & 1), bool(i & 2)
        y = np.flip(x, axis) if reverse else x
        y = torch.cumsum(torch.from_numpy(y.copy()), axis).numpy() - (y if exclusive else 0)
        y = np.flip(y, axis) if reverse else y
        yield case("CumulativeSum", [x], [y.astype(x.dtype)], axis=axis, exclusive=exclusive, reverse=reverse)
    for i in range(8):
        depth = m.rng.randint(1, 5)
        x = m.indices(m.shape(high=2), depth)
        axis = m.rng.randint(0, x.ndim)
        dtype = ["float32", "int64", "bool", "float16"][i % 4]
        y = torch.nn.functional.one_hot(torch.from_numpy(np.asarray(x.astype(np.int64) % depth)), depth).numpy()
        y = np.moveaxis(y, -1, axis)
        if i >= 4:
            on, off = (1.0, 0.0) if dtype == "bool" else (5.0, -2.0)
            y = np.where(y, on, off)
            values = {"on_value": on, "off_value": off}
        else:
            values = {}
        yield case("OneHot", [x], [y.astype(dtype)], depth=depth, axis=axis, to=NAMES[dtype], **values)
    out_of_range = np.array([0, 3, -4, -1], np.int64)
    yield case(
        "OneHot",
        [out_of_range],
        [np.eye(4, 3, dtype=np.float32) * [[1], [0], [0], [0]] + np.array([[0, 0, 0]] * 3 + [[0, 0, 1]])],
        depth=3,
        axis=1,
        to="f64",
    )
    for i in range(8):
        x = m.array(m.shape(low=2, high=4), next(m.dtypes))
        batch, time = m.rng.sample(range(x.ndim), 2)
        lengths = np.array(
            [m.rng.randint(0, x.shape[time]) for _ in range(x.shape[batch])], [np.int64, np.int32][i % 2]
        )
        y = np.moveaxis(x.copy(), [batch, time], [0, 1])
        for sequence, length in enumerate(lengths):
            y[sequence, :length] = y[sequence, :length][::-1].copy()
        y = np.moveaxis(y, [0, 1], [batch, time])
        yield case("ReverseSequence", [x, lengths], [y], 1 if i % 2 else -1, batch_axis=batch, time_axis=time)
    for _ in range(11):
        x = m.array(m.shape(least=0), next(m.dtypes))
        perm = m.rng.sample(range(x.ndim), x.ndim)
        yield case("Transpose", [x], [x.transpose(perm)], perm=perm)
        yield case("Reshape", [x], [x.reshape(-1)], shape=[x.size])
        if x.ndim == 0:
            continue
        axis = m.rng.randrange(x.ndim)
        other = m.array([m.rng.randint(0, 3) if a == axis else s for a, s in enumerate(x.shape)], x.dtype.name)
        yield case("Concat", [x, other, x], [np.concatenate([x, other, x], axis)], axis=axis)
    # Larger than the tiles in which a transpose is copied.
    x = m.array([37, 2, 45], "int8")
    yield case("Transpose", [x], [x.transpose(2, 1, 0)], perm=[2, 1, 0])


def main() -> None:
    warnings.simplefilter("ignore")
    m = Maker(7)
    parts = [reductions, slices, splits, tiles, pads, gathers, scatters, blocks, rankings, sums_and_others]
    cases = [each for part in parts for each in part(m)]
    head = f"# Written by make_values.py with PyTorch {torch.__version__.split('+')[0]} and numpy {np.__version__}."
    (HERE / "values.txt").write_text("\n".join([head, *cases]) + "\n")
    print(f"{len(cases)} cases")


if __name__ == "__main__":
    main()
