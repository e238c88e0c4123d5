"""Between our dtypes and numpy's. numpy has no bfloat16: it is float32 here and the bits of its upper half inside."""

from __future__ import annotations

from typing import Any

import numpy as np

from htpipe._error import Error, Place

Array = np.ndarray[Any, np.dtype[Any]]

NUMPY_DTYPES: dict[str, np.dtype[Any]] = {
    name: np.dtype(dtype)
    for name, dtype in {
        "f64": np.float64,
        "f32": np.float32,
        "f16": np.float16,
        "bf16": np.float32,
        "i64": np.int64,
        "i32": np.int32,
        "i16": np.int16,
        "i8": np.int8,
        "u64": np.uint64,
        "u32": np.uint32,
        "u16": np.uint16,
        "u8": np.uint8,
        "bool": np.bool_,
    }.items()
}


def to_numpy(value: Any) -> Array:
    """Any array, number, nested list or torch tensor as a numpy array."""
    if hasattr(value, "detach") and hasattr(value, "cpu"):  # a torch tensor, told without importing torch
        value = value.detach().cpu()
        if str(value.dtype) == "torch.bfloat16":
            value = value.float()
        return np.asarray(value.resolve_conj().resolve_neg().numpy())
    return np.asarray(value)


def own_name(array: Array) -> str:
    """Our name of an array's dtype."""
    for name, dtype in NUMPY_DTYPES.items():
        if name != "bf16" and dtype == array.dtype:
            return name
    raise Error("dtype-mismatch", f"arrays of {array.dtype} have no counterpart")


def to_carrier(name: str, dtype: str, value: Any) -> tuple[str, Array]:
    """What the extension takes for the input `name` of our type `dtype`.

    An array must have that type; numbers and lists of numbers, which have none of their own, are converted when nothing
    is lost. Errors: dtype-mismatch.
    """
    typed = hasattr(value, "dtype")
    array = to_numpy(value)
    wanted = NUMPY_DTYPES[dtype]
    if array.dtype != wanted:
        if typed or not np.can_cast(array.dtype, wanted, casting="same_kind"):
            raise Error("dtype-mismatch", f"input is {array.dtype}, needs {wanted}", Place(node=name))
        array = array.astype(wanted)
    if dtype == "bf16":
        array = _to_bf16(array)
    # ascontiguousarray makes a scalar one-dimensional.
    return dtype, np.ascontiguousarray(array).reshape(array.shape)


def from_carrier(dtype: str, array: Array) -> Array:
    """The array for people."""
    if dtype != "bf16":
        return array
    return (array.astype(np.uint32) << 16).view(np.float32)


def _to_bf16(array: Array) -> Array:
    """Rounded to nearest, ties to even; NaN stays NaN."""
    bits = np.ascontiguousarray(array, dtype=np.float32).reshape(array.shape).view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    rounded = np.where(np.isnan(array), (bits >> 16) | 0x40, rounded)
    return np.asarray(rounded.astype(np.uint16))
