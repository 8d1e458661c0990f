"""Samples: arrays, dicts of arrays, lists and iterables of them, as a source in C."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._native import Context, DataError, ffi, lib
from ._tensor import MOST_DIMS, TYPE_OF, Array, as_array, dims, dtype_of, fill

Sample = dict[str, Array]


def spelled(dtype: np.dtype[Any], dims: tuple[int, ...]) -> str:
    """Type and dims as messages of the library have them: float32[?,3]."""
    return f"{dtype}[{','.join('?' if d < 0 else str(d) for d in dims)}]"


@dataclass(frozen=True)
class Input:
    """An input of a model: -1 is an extent that is open."""

    name: str
    dtype: np.dtype[Any]
    dims: tuple[int, ...]

    def array(self, x: Any) -> Array:
        """What a feed has for this input, as an array of a type that tensors have."""
        try:
            a = as_array(x)
        except (TypeError, ValueError) as e:
            raise DataError(f"data: input '{self.name}': {e}") from e
        floats = a.dtype.kind == "f" and self.dtype.kind == "f"
        if not floats and a.dtype.newbyteorder("=") not in TYPE_OF:
            what = type(x).__name__ if a.dtype.hasobject else f"array of {a.dtype}"
            raise DataError(f"data: input '{self.name}': {what}, expected {self.dtype}")
        if a.ndim > MOST_DIMS:
            raise DataError(
                f"data: input '{self.name}': {a.ndim} dims, expected {list(self.dims)}"
            )
        if a.ndim == len(self.dims) - 1:
            raise DataError(
                f"data: the array for input '{self.name}' is {spelled(a.dtype, a.shape)}, "
                f"expected {spelled(self.dtype, self.dims)}, or with samples along a first "
                "axis: of one item x[0][None], not x[0]"
            )
        return a

    def split(self, a: Array) -> tuple[int, bool]:
        """How many samples an array has, and whether an axis counts them."""
        if a.ndim == len(self.dims) + 1:
            return a.shape[0], True
        batch = abs(self.dims[0]) if self.dims else 1
        if a.shape[1:] == self.dims[1:] and a.ndim and a.shape[0] == batch:
            return 1, False
        if a.ndim == len(self.dims) and a.ndim and a.shape[0] % max(batch, 1) == 0:
            return a.shape[0] // max(batch, 1), False
        return 1, False

    def part(self, a: Array, i: int, counted: bool) -> Array:
        """Sample i of an array, a view."""
        batch = abs(self.dims[0]) if self.dims else 1
        out: Array = a
        if counted:
            out = a[i]
        elif a.ndim and a.shape[0] != batch:
            out = a[i * batch : (i + 1) * batch]
        return out

    def plain(self, a: Array, floats: Any = None) -> Array:
        """The array as the library reads it: a copy only of other types and strides.

        Floats of other sizes become those of the input, or `floats`.
        """
        if a.dtype == self.dtype and a.flags.c_contiguous:
            return a
        if a.dtype.kind in "biu" and self.dtype == np.float32:
            raise DataError(
                f"data: the array for input '{self.name}' is {spelled(a.dtype, a.shape)}, "
                f"expected {spelled(self.dtype, self.dims)}: x.astype('float32'), scaled as "
                "the model expects it"
            )
        both = a.dtype.kind == "f" and self.dtype.kind == "f"
        to = self.dtype if floats is None else floats
        out: Array = np.ascontiguousarray(a, to if both else a.dtype.newbyteorder("="))
        out = out.reshape(a.shape)
        return out


def inputs_of(model: Any) -> list[Input]:
    """The inputs of an open model."""
    found = []
    for i in range(lib.qg_model_input_count(model)):
        r = ffi.new("qg_value_record *", {"size": ffi.sizeof("qg_value_record")})
        lib.qg_value_get(lib.qg_model_input(model, i), r)
        name = ffi.string(r.name).decode()
        found.append(Input(name, dtype_of(r.type), dims(r)))
    return found


def named(inputs: list[Input], feed: Any) -> Sample:
    """A feed as arrays by input name."""
    names = [i.name for i in inputs]
    if isinstance(feed, Mapping):
        for name in feed:
            if name not in names:
                raise DataError(f"data: no input '{name}', expected {names}")
        for name in names:
            if name not in feed:
                raise DataError(f"data: input '{name}' is missing, expected {names}")
        return {i.name: i.array(feed[i.name]) for i in inputs}
    if isinstance(feed, (str, bytes, os.PathLike)):
        raise DataError(
            f"data: '{os.fsdecode(feed)}' as one feed, expected arrays: files are named "
            "by one string, data='calib.npy'"
        )
    if isinstance(feed, (list, tuple)) and any(hasattr(a, "shape") for a in feed):
        if len(feed) != len(inputs):
            raise DataError(
                f"data: a {type(feed).__name__} of {len(feed)} as one feed, expected an "
                f"array for each of {names}; of pairs (data, label) give the data"
            )
        return {i.name: i.array(a) for i, a in zip(inputs, feed)}
    if len(inputs) != 1:
        raise DataError(f"data: an array for {len(inputs)} inputs, expected a dict {names}")
    return {names[0]: inputs[0].array(feed)}


def split(inputs: list[Input], feed: Any) -> Iterator[Sample]:
    """The samples of one feed."""
    arrays = named(inputs, feed)
    by_name = {i.name: i for i in inputs}
    parts = {name: by_name[name].split(a) for name, a in arrays.items()}
    counts = {n for n, _ in parts.values()}
    if len(counts) > 1:
        raise DataError(
            "data: inputs have different numbers of samples: "
            + ", ".join(f"{name} {n}" for name, (n, _) in parts.items())
        )
    for i in range(counts.pop() if counts else 0):
        yield {
            name: by_name[name].part(a, i, parts[name][1]) for name, a in arrays.items()
        }


class Source:
    """The samples of a verb, for qg_workload.

    Lists, arrays and dicts are read where they are, as often as the library asks; other
    iterables are read once, in order.
    """

    def __init__(self, ctx: Context, inputs: list[Input], data: Any) -> None:
        """Samples of anything but a string."""
        self._ctx = ctx
        self._inputs = {i.name: i for i in inputs}
        self._samples: list[Sample] | None = None
        whole = isinstance(data, (np.ndarray, Mapping)) or hasattr(data, "detach")
        if whole or isinstance(data, (list, tuple)):
            feeds = [data] if whole else data
            self._samples = [s for feed in feeds for s in split(inputs, feed)]
        elif not isinstance(data, Iterable):
            raise DataError(f"data: {type(data).__name__}, expected arrays or a path")
        else:
            self._stream = (s for feed in data for s in split(inputs, feed))
        if self._samples == []:
            raise DataError("data: no samples, expected at least one")
        self._fetch = ffi.callback(
            "qg_status(void *, size_t, qg_inputs *)", self._give, lib.QG_EDATA
        )
        count = 0 if self._samples is None else len(self._samples)
        self.c = ffi.new(
            "qg_source *",
            {"fetch": self._fetch, "count": count, "one_shot": self._samples is None},
        )

    def _give(self, _ud: Any, index: int, to: Any) -> int:
        try:
            if self._samples is not None:
                sample: Sample | None = self._samples[index]
            else:
                with self._ctx.lock.callback(f"data: sample {index}"):
                    sample = next(self._stream, None)
            for name, a in (sample or {}).items():
                status = self._set(to, name, a)
                if status:
                    return status
        except BaseException as e:
            return self._ctx.fail(e, f"data: sample {index}", lib.qg_inputs_ctx(to))
        return int(lib.QG_OK)

    def _set(self, to: Any, name: str, a: Array) -> int:
        t = ffi.new("qg_tensor *")
        # a network of float16 is float32 for verbs that quantize: the library converts
        plain = fill(t, self._inputs[name].plain(a, np.float32))
        kept = self._samples is not None and plain.ctypes.data == a.ctypes.data
        give = lib.qg_inputs_borrow if kept else lib.qg_inputs_set  # the latter copies
        return int(give(to, name.encode(), t))
