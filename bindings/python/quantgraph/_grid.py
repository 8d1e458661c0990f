"""Quantizers on arrays, with gradients: fake quantization, LSQ, NNCF.

Each is a function of numpy arrays; of torch tensors it is a torch.autograd.Function
with the library's gradients.  `NAME.gradients(x, ..., g=g)` are those without torch.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from ._native import Context, encode, ffi, lib
from ._tensor import Array, as_array, fill


def is_tensor(x: Any) -> bool:
    """Whether x is a torch tensor, without importing torch."""
    return type(x).__module__.split(".")[0] == "torch"


def floats(a: Array) -> Any:
    """The address of a contiguous float32 array."""
    return ffi.cast("float *", a.ctypes.data)


def doubles(a: Array) -> Any:
    """The address of a contiguous float64 array."""
    return ffi.cast("double *", a.ctypes.data)


class Layout:
    """An array as [outer, channels, inner], and one parameter per channel."""

    def __init__(self, x: Any, axis: int | None) -> None:
        """A copy only of other types and strides."""
        self.x = np.ascontiguousarray(as_array(x), np.float32)
        shape = self.x.shape or (1,)
        if axis is not None and not -len(shape) <= axis < len(shape):
            raise ValueError(f"axis {axis}, expected one of {len(shape)} dims")
        at = 0 if axis is None else axis % len(shape)
        self.outer = 1 if axis is None else int(np.prod(shape[:at]))
        self.channels = 1 if axis is None else shape[at]
        self.inner = self.x.size // max(self.outer * self.channels, 1)
        self.axis = -1 if axis is None else at

    def parameter(self, p: Any, dtype: Any = np.float64) -> Array:
        """One number per channel."""
        a = np.ascontiguousarray(as_array(p), dtype).ravel()
        if a.size not in (1, self.channels):
            many = f"1 or {self.channels}" if self.axis >= 0 else "1, or axis=..."
            raise ValueError(f"{a.size} parameters, expected {many}")
        out: Array = np.ascontiguousarray(np.broadcast_to(a, (self.channels,)))
        return out


def limits(bits: int, signed: bool, qmin: int | None, qmax: int | None) -> tuple[int, int]:
    """The codes: those given, or all of the width."""
    if not isinstance(bits, (int, np.integer)) or not 1 <= bits <= 32:
        raise ValueError(f"bits {bits!r}, expected an integer from 2 to 32")
    low = -(1 << (bits - 1)) if signed else 0
    return (low if qmin is None else qmin), (low + (1 << bits) - 1 if qmax is None else qmax)


def summed(like: Any, per_channel: Array) -> Array:
    """Gradients per channel in the shape of the parameter."""
    a = as_array(like)
    total = per_channel.sum(keepdims=True) if a.size == 1 else per_channel
    out: Array = total.reshape(a.shape).astype(np.float32)
    return out


class Quantizer:
    """A quantizer of arrays, and a torch.autograd.Function of tensors."""

    def __repr__(self) -> str:
        """Return the name of the function."""
        return f"<quantizer {self.name}; call it on an array or a tensor>"

    name = ""
    #: positional arguments that have a gradient, after x
    learned: tuple[str, ...] = ()
    _function: Any = None

    def forward(self, x: Any, *parameters: Any, **how: Any) -> Array:
        """The quantized array."""
        raise NotImplementedError

    def gradients(self, x: Any, *parameters: Any, g: Any, **how: Any) -> tuple[Array, ...]:
        """The gradients of a loss for x and for each learned parameter, from g = dL/dy."""
        raise NotImplementedError

    def _apply(self, x: Any, *parameters: Any, **how: Any) -> Any:
        if not is_tensor(x):
            return self.forward(x, *parameters, **how)
        if self._function is None:
            type(self)._function = _torch_function(self)
        return self._function.apply(how, x, *parameters)


def _torch_function(q: Quantizer) -> Any:
    """A torch.autograd.Function of a quantizer."""
    import torch

    class Function(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, how: Any, x: Any, *parameters: Any) -> Any:
            ctx.how, ctx.n = how, len(parameters)
            kept = [p if is_tensor(p) else torch.as_tensor(np.asarray(p)) for p in parameters]
            ctx.save_for_backward(x, *kept)
            return torch.from_numpy(q.forward(x, *kept, **how)).to(x)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            x, *parameters = ctx.saved_tensors
            found = q.gradients(x, *parameters, g=g, **ctx.how)
            out = [torch.from_numpy(a).to(t) for a, t in zip(found, (x, *parameters))]
            return (None, *out, *[None] * (1 + ctx.n - len(out)))

    return Function


class FakeQuantize(Quantizer):
    """Fake quantization with fixed parameters; straight-through inside of the range."""

    name = "fake_quantize"

    def __call__(self, x: Any, scale: Any, offset: Any = 0, *, bits: int = 8,
                 signed: bool = True, qmin: int | None = None, qmax: int | None = None,
                 axis: int | None = None, rounding: str = "half-even") -> Any:
        """Round to scale * (code - offset), codes in [qmin, qmax].

        axis: the channels of scale and offset; None: one grid.  The gradient of x is 1
        where the code is in range; scale and offset have none.
        """
        return self._apply(x, scale, offset, bits=bits, signed=signed, qmin=qmin, qmax=qmax,
                           axis=axis, rounding=rounding)

    def forward(self, x: Any, *parameters: Any, **how: Any) -> Array:
        """qg_fake_quantize."""
        ctx = Context()
        layout, (scale, offset) = Layout(x, how["axis"]), parameters
        s = ffi.new("qg_scheme *")
        low, high = limits(how["bits"], how["signed"], how["qmin"], how["qmax"])
        z = layout.parameter(offset, np.int32)
        grain = lib.QG_PER_TENSOR if how["axis"] is None else lib.QG_PER_CHANNEL
        kind = lib.QG_ASYMMETRIC if z.any() or not how["signed"] else lib.QG_SYMMETRIC
        s.policy, s.bits, s.axis = grain | lib.QG_LINEAR | kind, how["bits"], layout.axis
        s.qmin, s.qmax = low, high
        rounding = lib.qg_rounding_named(how["rounding"].encode())
        s.rounding = max(int(rounding), 0)
        if rounding < 0:
            raise ValueError(f"no rounding '{how['rounding']}' (qg.list('roundings'))")
        ctx.check(lib.qg_scheme_check(ctx.ctx, b"fake_quantize", s))
        f = layout.parameter(scale, np.float32)
        p = ffi.new("qg_qparam *", {"n": layout.channels, "scale": floats(f),
                                    "offset": ffi.cast("int32_t *", z.ctypes.data)})
        y = np.empty_like(layout.x)
        tx, ty = ffi.new("qg_tensor *"), ffi.new("qg_tensor *")
        fill(tx, layout.x)
        fill(ty, y)
        ctx.check(lib.qg_fake_quantize(ctx.ctx, b"fake_quantize", s, p, tx, ty))
        return y

    def gradients(self, x: Any, *parameters: Any, g: Any, **how: Any) -> tuple[Array, ...]:
        """dL/dx."""
        low, high = limits(how.get("bits", 8), how.get("signed", True), how.get("qmin"),
                           how.get("qmax"))
        scale, offset = (*parameters, 0)[:2]
        return learned_gradients(lib.QG_LEARNED_STE, Layout(x, how.get("axis")), scale, offset,
                                 (low, high), g, 1.0)[:1]


def learned_layer(method: int, layout: Layout, p: Any, b: Any, codes: tuple[int, int]) -> Any:
    """A qg_learned_layer and the grids that it points to."""
    grids = ffi.new("qg_learned_grid[]", layout.channels)
    for c, (step, offset) in enumerate(zip(layout.parameter(p), layout.parameter(b))):
        grids[c] = (method, codes[0], codes[1], step, offset)
    layer = ffi.new("qg_learned_layer *", (layout.outer, layout.channels, layout.inner, grids))
    return layer, grids


def learned_gradients(method: int, layout: Layout, p: Any, b: Any, codes: tuple[int, int],
                      g: Any, factor: float) -> tuple[Array, Array, Array]:
    """dL/dx, and dL/dp and dL/db in the shapes of p and b."""
    ctx = Context()
    layer, grids = learned_layer(method, layout, p, b, codes)
    dy = np.ascontiguousarray(as_array(g), np.float32)
    if dy.shape != layout.x.shape:
        raise ValueError(f"g is {dy.shape}, expected {layout.x.shape}")
    dx, dp, db = np.empty_like(layout.x), np.empty(layout.channels), np.empty(layout.channels)
    out = ffi.new("qg_learned_gradients *", (factor, floats(dx), doubles(dp), doubles(db)))
    status = lib.qg_learned_backward(
        ctx.ctx, b"gradients", layer, floats(layout.x), floats(dy), out
    )
    ctx.check(status)
    del grids
    return dx, summed(p, dp), summed(b, db)


class Lsq(Quantizer):
    """Learned step size (Esser et al. 2020), and LSQ+ (Bhalgat et al. 2020)."""

    name = "lsq"

    def __call__(self, x: Any, step: Any, offset: Any = None, *, bits: int = 8,
                 signed: bool = True, qmin: int | None = None, qmax: int | None = None,
                 axis: int | None = None, scaled: bool = True) -> Any:
        """step * round(clip(x / step)); with an offset, LSQ+.

        scaled: gradients of step and offset are multiplied by 1 / sqrt(n qmax), n the
        elements per step, as in the paper.
        """
        more = () if offset is None else (offset,)
        return self._apply(x, step, *more, bits=bits, signed=signed, qmin=qmin, qmax=qmax,
                           axis=axis, scaled=scaled)

    def forward(self, x: Any, *parameters: Any, **how: Any) -> Array:
        """qg_learned_forward."""
        ctx, layout = Context(), Layout(x, how.get("axis"))
        method, step, offset, codes = self._grid(parameters, how)
        layer, grids = learned_layer(method, layout, step, offset, codes)
        y = np.empty_like(layout.x)
        ctx.check(lib.qg_learned_forward(ctx.ctx, b"lsq", layer, floats(layout.x), floats(y)))
        del grids
        return y

    def gradients(self, x: Any, *parameters: Any, g: Any, **how: Any) -> tuple[Array, ...]:
        """dL/dx, dL/dstep, and of LSQ+ dL/doffset."""
        layout = Layout(x, how.get("axis"))
        method, step, offset, codes = self._grid(parameters, how)
        n = layout.x.size // max(layout.channels, 1)
        factor = lib.qg_lsq_factor(n, codes[1]) if how.get("scaled", True) else 1.0
        found = learned_gradients(method, layout, step, offset, codes, g, factor)
        return tuple(found[: 1 + len(parameters)])

    @staticmethod
    def _grid(parameters: tuple[Any, ...], how: dict[str, Any]) -> Any:
        codes = limits(how.get("bits", 8), how.get("signed", True), how.get("qmin"),
                       how.get("qmax"))
        if len(parameters) > 1:
            return lib.QG_LEARNED_LSQ_PLUS, parameters[0], parameters[1], codes
        return lib.QG_LEARNED_LSQ, parameters[0], 0, codes


class Nncf(Quantizer):
    """The symmetric fake quantization of networks trained with NNCF."""

    name = "nncf"

    def __call__(self, x: Any, scale: Any, *, bits: int = 8, signed: bool = True,
                 narrow: bool = False, axis: int | None = None,
                 gradient: Literal["exact", "nncf"] = "exact",
                 eps: float = 1e-16) -> Any:
        """Quantize on the levels of a scale.

        gradient: "exact", or "nncf", as published, without the factor
        1 - level_low / level_high inside of the range.
        """
        return self._apply(x, scale, bits=bits, signed=signed, narrow=narrow, axis=axis,
                           gradient=gradient, eps=eps)

    @staticmethod
    def _layer(x: Any, scale: Any, how: dict[str, Any]) -> Any:
        """A qg_nncf, its ranges, the layout and the scales."""
        layout = Layout(x, how.get("axis"))
        levels = lib.qg_nncf_levels_symmetric(how.get("bits", 8), how.get("signed", True),
                                              how.get("narrow", False))
        scales, eps = layout.parameter(scale, np.float32), how.get("eps", 1e-16)
        ranges = ffi.new("qg_nncf_range[]", layout.channels)
        for c, s in enumerate(scales):
            ranges[c] = lib.qg_nncf_range_symmetric(float(s), eps, levels)
        q = ffi.new("qg_nncf *")
        q.levels, q.range = levels, ranges
        q.outer, q.channels, q.inner = layout.outer, layout.channels, layout.inner
        name = how.get("gradient", "exact")
        kind = lib.qg_nncf_grad_named(encode(name))
        if kind < 0:
            raise ValueError(f"gradient '{name}', expected exact or nncf")
        q.grad = kind
        return q, ranges, layout, scales

    def forward(self, x: Any, *parameters: Any, **how: Any) -> Array:
        """qg_nncf_forward."""
        ctx = Context()
        q, ranges, layout, _ = self._layer(x, parameters[0], how)
        y: Array = np.empty_like(layout.x)
        ctx.check(lib.qg_nncf_forward(ctx.ctx, b"nncf", q, floats(layout.x), floats(y)))
        del ranges
        return y

    def gradients(self, x: Any, *parameters: Any, g: Any, **how: Any) -> tuple[Array, ...]:
        """dL/dx and dL/dscale."""
        ctx = Context()
        q, ranges, layout, scales = self._layer(x, parameters[0], how)
        dy = np.ascontiguousarray(as_array(g), np.float32)
        if dy.shape != layout.x.shape:
            raise ValueError(f"g is {dy.shape}, expected {layout.x.shape}")
        dx, ds = np.empty_like(layout.x), np.empty(layout.channels)
        out = ffi.new("qg_nncf_gradients *", {"x": floats(dx), "range": doubles(ds)})
        ctx.check(lib.qg_nncf_backward(ctx.ctx, b"nncf", q, floats(layout.x), floats(dy), out))
        del ranges
        return dx, summed(parameters[0], ds * np.sign(scales))


fake_quantize = FakeQuantize()
lsq = Lsq()
nncf = Nncf()
