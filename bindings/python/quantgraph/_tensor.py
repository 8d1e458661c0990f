"""Arrays of numpy and tensors of the library, over the same memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._native import ffi, lib, text

Array = np.ndarray[Any, Any]

# Types of numpy with the same elements; the others (bfloat16, float8, packed ones) are
# not seen by numpy.
NAMES = {"float32", "float64", "float16", "bool", "int8", "int16", "int32", "int64",
         "uint8", "uint16", "uint32", "uint64"}
TYPE_OF = {np.dtype(n): int(lib.qg_dtype_named(n.encode())) for n in sorted(NAMES)}
MOST_DIMS = 8
DTYPE_OF = {code: dtype for dtype, code in TYPE_OF.items()}


def dtype_of(code: int) -> np.dtype[Any]:
    """The numpy type of a type of the library; uint8 shows the bytes of others."""
    return DTYPE_OF.get(int(code), np.dtype(np.uint8))


def dims(t: Any) -> tuple[int, ...]:
    """The dims of a tensor, or of a record of a value; () when the rank is unknown."""
    return tuple(t.dim[k] for k in range(max(t.rank, 0)))


def fill(t: Any, a: Array) -> Array:
    """Point tensor t at the memory of a, which the caller keeps."""
    if a.dtype not in TYPE_OF:
        raise TypeError(f"array of {a.dtype}, expected one of {', '.join(sorted(NAMES))}")
    if a.ndim > MOST_DIMS:
        raise ValueError(f"array of {a.ndim} dims, expected at most {MOST_DIMS}")
    shape = ffi.new("int64_t[8]", [*a.shape, *[0] * (8 - a.ndim)])
    lib.qg_tensor_init(t, TYPE_OF[a.dtype], a.ndim, shape)
    for k in range(a.ndim):
        t.stride[k] = a.strides[k] // a.itemsize
    t.data = ffi.cast("void *", a.ctypes.data)
    return a


def view(t: Any, writes: bool = False) -> Array:
    """The memory of tensor t as an array, without a copy; valid as long as t's is."""
    shape, dtype = dims(t), dtype_of(t.dtype)
    if t.data == ffi.NULL or 0 in shape:
        return np.empty(shape, dtype)
    if t.dtype not in DTYPE_OF:
        raise TypeError(f"{text(lib.qg_dtype_name(t.dtype))} is no type of numpy")
    strides = tuple(t.stride[k] * dtype.itemsize for k in range(t.rank))
    last = sum((n - 1) * s for n, s in zip(shape, strides)) + dtype.itemsize
    out: Array = np.ndarray(shape, dtype, ffi.buffer(t.data, last), 0, strides)
    out.flags.writeable = writes
    return out


def as_array(x: Any) -> Array:
    """An array of anything that numpy reads, and of torch tensors."""
    if hasattr(x, "detach"):
        x = x.detach().cpu()
        if str(x.dtype) == "torch.bfloat16":  # numpy has no such type
            x = x.float()
        x = x.numpy()
    return np.asarray(x)
