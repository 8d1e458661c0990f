"""Extensions in Python: hooks, passes, observers, operators, quantization functions.

Operators, observers and quantization functions act where something names them, so
defining one makes it known to every model that is opened afterwards.  Passes and hooks
act by being there: they are given to `quantize(extend=[...])` and `run(hooks=[...])`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ._native import ConfigError, Context, encode, ffi, lib, options, text
from ._records import Endpoint, Graph, Node, Scheme, Value
from ._tensor import Array, dims, fill, view

Function = Callable[..., Any]
_REGISTERED: dict[tuple[str, str], Extension] = {}


class Extension:
    """What a context can be extended by."""

    name: str
    kind = ""

    def __str__(self) -> str:
        """Return its name, as options and backends write it."""
        return self.name

    def __repr__(self) -> str:
        """Return kind and name."""
        return f"<{self.kind} {self.name}>"

    def add(self, ctx: Context) -> None:
        """Add it to a context of the library."""
        raise NotImplementedError

    def register(self) -> None:
        """Make it known to models that are opened from now on; replaces its name."""
        Context().extend(self)  # a wrong one is refused here, not by every later model
        _REGISTERED[self.kind, self.name] = self


def registered() -> list[Extension]:
    """The operators, observers and quantization functions that were defined."""
    return list(_REGISTERED.values())


def forget(name: str) -> None:
    """Remove a definition: models that are opened from now on do not have it."""
    for key in [k for k in _REGISTERED if k[1] == name]:
        del _REGISTERED[key]


def guarded(ctx: Context, what: str, run: Callable[[], Any], on: Any = None) -> int:
    """Run a callback: its exception becomes a status and a message."""
    try:
        with ctx.lock.callback(what):
            run()
    except BaseException as e:
        return ctx.fail(e, what, on)
    return int(lib.QG_OK)


# --- hooks ---


class At:
    """Where a hook is called."""

    def __init__(self, graph: Graph, event: Any) -> None:
        """Read the event; valid during the call."""
        self._graph, self._event = graph, event
        self.slot = int(event.slot)
        self.is_output = bool(event.is_output)
        self.rounded = bool(event.rounded)  #: after the endpoint quantized it
        self.sample = int(event.sample)

    @property
    def node(self) -> Node:
        """The node that runs."""
        return Node(self._graph, ffi.cast("qg_node *", self._event.node))

    @property
    def name(self) -> str:
        """The endpoint: "Conv_0.out0"."""
        return f"{self.node.name}.{'out' if self.is_output else 'in'}{self.slot}"

    @property
    def value(self) -> Value | None:
        """The value at the endpoint."""
        v = self._event.value
        return None if v == ffi.NULL else Value(self._graph, ffi.cast("qg_value *", v))

    @property
    def endpoint(self) -> Endpoint | None:
        """The record in force there; None: not quantized, or mode float."""
        t = self._event.tqc
        return None if t == ffi.NULL else Endpoint(self._graph, ffi.cast("qg_tqc *", t))


class Hook:
    """A function that sees, and may replace, tensors while a model runs."""

    def __init__(self, select: str, run: Function, writes: bool, rounded: bool | None) -> None:
        """Made by `hook`."""
        self.select, self.writes, self.rounded = select, writes, rounded
        self._run = run
        self._takes_at = len(inspect.signature(run).parameters) > 1
        self.__doc__ = run.__doc__

    def __call__(self, *args: Any) -> Any:
        """Call the function itself."""
        return self._run(*args)

    def row(self, model: Any) -> Any:
        """A qg_session_hook for sessions of a model, with what it refers to."""
        ctx: Context = model._ctx

        def see(_ud: Any, c: Any, event: Any, x: Any) -> int:
            if self.rounded is not None and bool(event.rounded) != self.rounded:
                return int(lib.QG_OK)
            return guarded(ctx, f"hook '{self.select}'", lambda: self._see(model, event, x), c)

        callback = ffi.callback(
            "qg_status(void *, qg_ctx *, qg_hook_event *, qg_tensor *)", see, lib.QG_EDATA
        )
        select = encode(self.select)
        out = ffi.new("qg_session_hook *")
        out.select, out.writes, out.see = select, self.writes, callback
        return out, select, callback

    def _see(self, graph: Graph, event: Any, x: Any) -> None:
        a = view(x, self.writes)
        result = self._run(a, At(graph, event)) if self._takes_at else self._run(a)
        if result is None:
            return
        if not self.writes:
            raise ConfigError("the hook returned a tensor, expected None or writes=True")
        if np.shape(result) != a.shape:
            raise ConfigError(f"the hook returned {np.shape(result)}, expected {a.shape}")
        a[...] = result


def hook(
    select: str, *, writes: bool = True, rounded: bool | None = False
) -> Callable[[Function], Hook]:
    """Make a hook of a function f(x) or f(x, at), for `run(hooks=[f])`.

    select: a glob over endpoints: "Conv_*.out0", "*.in0".  x: the tensor, a numpy view
    without a copy, valid during the call; the function may write into it, or return
    another one in its place.  writes=False: x is read-only.  rounded: see the tensor as
    computed (False), after the endpoint quantized it (True), or both (None).
    """
    if not isinstance(select, str):
        raise ConfigError(f"hook: {select!r}, expected endpoints: @qg.hook('Conv_*.out0')")
    return lambda run: Hook(select, run, writes, rounded)


# --- passes ---


class PassGraph(Graph):
    """The model in a pass: its records, their setters, and edits of the graph."""

    def __init__(self, ctx: Context, handle: Any, env: Any) -> None:
        """Valid during the pass."""
        super().__init__(ctx, handle)
        self._env = env

    def count(self, changes: int = 1) -> None:
        """Report that something was changed."""
        lib.qg_pass_count(self._env, changes)

    def match(self, pattern: str) -> None:
        """Report a match, for the coverage table."""
        self._check(lib.qg_pass_match(self._env, pattern.encode()))

    def miss(self, pattern: str, node: Node, condition: str) -> None:
        """Report that a pattern nearly matched, and the condition that failed."""
        status = lib.qg_pass_miss(
            self._env, pattern.encode(), node._handle, condition.encode()
        )
        self._check(status)

    def replace_value(self, old: Value, new: Value) -> None:
        """Make the consumers of a value read another one."""
        self._check(lib.qg_model_replace_value(self._handle, old._handle, new._handle))

    def set_input(self, node: Node, slot: int, value: Value | None) -> None:
        """Make an input of a node read a value, or nothing."""
        v = ffi.NULL if value is None else value._handle
        self._check(lib.qg_model_set_input(self._handle, node._handle, slot, v))

    def remove_node(self, node: Node) -> None:
        """Remove a node whose outputs have no consumers."""
        self._check(lib.qg_model_remove_node(self._handle, node._handle))

    def add_constant(self, name: str, array: Any) -> Value:
        """Add a constant."""
        t = ffi.new("qg_tensor *")
        a = fill(t, np.ascontiguousarray(array))
        self._check(lib.qg_model_add_constant(self._handle, name.encode(), t, False))
        del a
        return Value(self, lib.qg_model_find_value(self._handle, name.encode()))

    def add_node(
        self, op: str, inputs: Sequence[str], outputs: Sequence[str], name: str | None = None
    ) -> Node:
        """Add a node without attributes."""
        o = options("qg_node_options")
        words = [encode(op), encode(name)]
        lists = [[encode(w) for w in ws] for ws in (inputs, outputs)]
        arrays = [ffi.new("char *[]", ws) for ws in lists]
        o.op, o.name = words
        setattr(o, "in", arrays[0])
        o.n_in, o.out, o.n_out = len(inputs), arrays[1], len(outputs)
        made = ffi.new("qg_node **")
        self._check(lib.qg_model_add_node(self._handle, o, made))
        return Node(self, made[0])


class Pass(Extension):
    """A function that runs between two passes of every pipeline."""

    kind = "pass"

    def __init__(self, name: str, run: Function, after: str | None, before: str | None,
                 edits: bool) -> None:
        """Made by `pass_`."""
        self.name, self._run = name, run
        self.after, self.before, self.edits = after, before, edits
        self.__doc__ = run.__doc__

    def add(self, ctx: Context) -> None:
        """Insert it into the pipelines of a context."""

        def run(_ud: Any, env: Any, m: Any) -> int:
            return guarded(ctx, self.name, lambda: self._run(PassGraph(ctx, m, env)))

        o = options("qg_host_pass")
        words = [encode(self.name), encode((self.__doc__ or self.name).split("\n")[0]),
                 encode(self.before), encode(self.after)]
        o.name, o.summary, o.before, o.after = words
        o.edits = self.edits
        o.run = ctx.keep(
            ffi.callback("qg_status(void *, qg_pass_env *, qg_model *)", run, lib.QG_ESTATE)
        )
        ctx.check(lib.qg_add_pass(ctx.ctx, o))


def pass_(
    *, after: str | None = None, before: str | None = None, edits: bool = False,
    name: str | None = None,
) -> Callable[[Function], Pass]:
    """Make a pass of a function f(graph), for `quantize(extend=[f])`.

    graph: a PassGraph, the model between two passes: it has records, setters, `count`,
    `match` and `miss`.  after, before: the name of a pass (qg.list("passes")); edits:
    it adds or removes nodes.
    """
    return lambda run: Pass(name or run.__name__.replace("_", "-"), run, after, before, edits)


# --- observers ---


class Observer(Extension):
    """An observer: samples become a range."""

    kind = "observer"

    def __init__(self, name: str, body: Any, dtype: np.dtype[Any], passes: int,
                 per_channel: bool, ordered: bool) -> None:
        """Made by `observer`."""
        self.name, self._body, self._dtype = name, body, dtype
        self.passes, self.per_channel, self.ordered = passes, per_channel, ordered
        self.__doc__ = body.__doc__

    def _state(self, p: Any) -> Array:
        """The state as an array of one element, over its memory."""
        return np.frombuffer(ffi.buffer(p, self._dtype.itemsize), self._dtype)[0:1]

    def add(self, ctx: Context) -> None:
        """Add it to a context."""
        o = options("qg_host_observer")
        words = [encode(self.name), encode((self.__doc__ or self.name).split("\n")[0])]
        o.name, o.summary = words
        o.state, o.passes = self._dtype.itemsize, self.passes
        o.per_channel, o.ordered = self.per_channel, self.ordered
        for field, function in self._functions(ctx).items():
            setattr(o, field, ctx.keep(function))
        ctx.check(lib.qg_add_observer(ctx.ctx, o))

    def _functions(self, ctx: Context) -> dict[str, Any]:
        body, state, what = self._body, self._state, f"observer '{self.name}'"

        def begin(_ud: Any, s: Any) -> None:
            guarded(ctx, what, lambda: body.begin(state(s)))

        def see(_ud: Any, c: Any, s: Any, seen: Any) -> int:
            x = np.frombuffer(ffi.buffer(seen.x, seen.n * 4), np.float32)
            return guarded(ctx, what, lambda: body.see(state(s), x), c)

        def merge(_ud: Any, into: Any, other: Any) -> None:
            guarded(ctx, what, lambda: body.merge(state(into), state(other)))

        def following(_ud: Any, c: Any, s: Any, number: int) -> int:
            return guarded(ctx, what, lambda: body.next(state(s), number), c)

        def finish(_ud: Any, c: Any, s: Any, scheme: Any, low: Any, high: Any) -> int:
            def run() -> None:
                if ctx.raised:  # of begin or merge, which have no status
                    raise ctx.raised[0]
                low[0], high[0] = map(float, body.finish(state(s), Scheme.of(scheme[0])))

            return guarded(ctx, what, run, c)

        bad = lib.QG_EDATA
        ctx_state = "void *, qg_ctx *, void *"
        out = {
            "see": ffi.callback(f"qg_status({ctx_state}, qg_observed *)", see, bad),
            "finish": ffi.callback(
                f"qg_status({ctx_state}, qg_scheme *, double *, double *)", finish, bad
            ),
        }
        if hasattr(body, "begin"):
            out["begin"] = ffi.callback("void(void *, void *)", begin)
        if not self.ordered:
            out["merge"] = ffi.callback("void(void *, void *, void *)", merge)
        if hasattr(body, "next"):
            out["next"] = ffi.callback(f"qg_status({ctx_state}, unsigned)", following, bad)
        return out


def observer(
    name: str, *, state: Any, passes: int = 1, per_channel: bool = False,
    ordered: bool = False,
) -> Callable[[Any], Observer]:
    """Make an observer of a class, for `quantize(observer=...)` and backends.

    state: a dtype of numpy, the memory that is kept per endpoint (and channel), at first
    zeros; methods get it as an array of one element.  The class has see(state, x),
    merge(into, other) (associative and commutative) unless `ordered`, finish(state,
    scheme) -> (low, high), and may have begin(state) and next(state, pass).
    """

    def make(body: Any) -> Observer:
        instance = body() if isinstance(body, type) else body
        for needed in ("see", "finish", *(() if ordered else ("merge",))):
            if not callable(getattr(instance, needed, None)):
                raise ConfigError(f"observer '{name}': has no method {needed}")
        if np.dtype(state).hasobject:
            raise ConfigError(f"observer '{name}': state {state!r}, expected plain numbers")
        made = Observer(name, instance, np.dtype(state), passes, per_channel, ordered)
        made.register()
        return made

    return make


# --- quantization functions ---


class Quantizer(Extension):
    """A function that quantizes instead of the library."""

    kind = "quantizer"

    def __init__(self, name: str, run: Function) -> None:
        """Made by `quantizer`."""
        self.name, self._run = name, run
        self.__doc__ = run.__doc__

    def __call__(self, *args: Any) -> Any:
        """Call the function itself."""
        return self._run(*args)

    def add(self, ctx: Context) -> None:
        """Add it to a context."""

        def run(_ud: Any, c: Any, scheme: Any, p: Any, x: Any, y: Any) -> int:
            def body() -> None:
                n = int(p.n)
                scale = np.frombuffer(ffi.buffer(p.scale, n * 4), np.float32)
                offset = np.zeros(n, np.int32)
                if p.offset != ffi.NULL:
                    offset = np.frombuffer(ffi.buffer(p.offset, n * 4), np.int32)
                out = view(y, True)
                out[...] = self._run(view(x), scale, offset, Scheme.of(scheme[0]))

            return guarded(ctx, f"quantizer '{self.name}'", body, c)

        o = options("qg_host_quantizer")
        words = [encode(self.name), encode((self.__doc__ or self.name).split("\n")[0])]
        o.name, o.summary = words
        o.run = ctx.keep(ffi.callback(
            "qg_status(void *, qg_ctx *, qg_scheme *, qg_qparam *, qg_tensor *, qg_tensor *)",
            run, lib.QG_EDATA))
        ctx.check(lib.qg_add_quantizer(ctx.ctx, o))


def quantizer(name: str) -> Callable[[Function], Quantizer]:
    """Make a quantization function of f(x, scale, offset, scheme) -> y.

    It acts at endpoints that a rule (`quantizer: NAME`) or `set_quantizer` gives it to.
    """

    def make(run: Function) -> Quantizer:
        made = Quantizer(name, run)
        made.register()
        return made

    return make


# --- operators ---

ROWS: dict[type, tuple[str, str]] = {
    int: ("qg_call_int", "int64_t *"),
    float: ("qg_call_float", "float *"),
    str: ("qg_call_string", "char **"),
}


class Operator(Extension):
    """An operator of the host."""

    kind = "operator"

    def __init__(self, name: str, run: Function, infer: Function | None,
                 attributes: Mapping[str, Any], fields: Mapping[str, Any]) -> None:
        """Made by `operator`."""
        self.name, self._run, self._infer = name, run, infer
        self.attributes, self.fields = dict(attributes), dict(fields)
        self.__doc__ = run.__doc__

    def __call__(self, *args: Any, **more: Any) -> Any:
        """Call the function itself."""
        return self._run(*args, **more)

    def _values(self, ctx: Context, call: Any) -> dict[str, Any]:
        """The attributes of a node, with the defaults."""
        return {name: self._value(ctx, call, name, d) for name, d in self.attributes.items()}

    def _value(self, ctx: Context, call: Any, name: str, default: Any) -> Any:
        raw = name.encode()
        if isinstance(default, (list, tuple)):
            whole = all(isinstance(v, int) for v in default)
            out = ffi.new("int64_t **" if whole else "float **")
            count = ffi.new("size_t *")
            get = lib.qg_call_ints if whole else lib.qg_call_floats
            ctx.check(get(call, raw, out, count))
            return list(out[0][0 : count[0]]) if out[0] != ffi.NULL else list(default)
        get_name, kind = ROWS[type(default)]
        one = ffi.new(kind)
        preset = encode(default) if isinstance(default, str) else default
        ctx.check(getattr(lib, get_name)(call, raw, preset, one))
        return text(one[0]) if isinstance(default, str) else one[0]

    def _inputs(self, call: Any) -> list[Any]:
        ts = [lib.qg_call_input(call, k) for k in range(lib.qg_call_input_count(call))]
        return [None if t == ffi.NULL else t for t in ts]

    def _do_infer(self, ctx: Context, call: Any) -> None:
        inputs = self._inputs(call)
        first = inputs[0]
        for k in range(lib.qg_call_output_count(call)):
            shape = dims(first)
            if self._infer is not None:
                known = [None if t is None else dims(t) for t in inputs]
                answer = self._infer(*known, **self._values(ctx, call))
                shape = answer[k] if answer and isinstance(answer[0], tuple) else answer
            out = ffi.new("int64_t[8]", [*shape, *[0] * (8 - len(shape))])
            lib.qg_tensor_init(lib.qg_call_output(call, k), first.dtype, len(shape), out)

    def _do_run(self, ctx: Context, call: Any) -> None:
        arrays = [None if t is None else view(t) for t in self._inputs(call)]
        answer = self._run(*arrays, **self._values(ctx, call))
        results = answer if isinstance(answer, tuple) else (answer,)
        for k, result in enumerate(results):
            out = view(lib.qg_call_output(call, k), True)
            if np.shape(result) != out.shape:
                raise ConfigError(f"output {k} is {np.shape(result)}, expected {out.shape}")
            out[...] = result

    def add(self, ctx: Context) -> None:
        """Add it to a context."""
        what = f"operator '{self.name}'"

        def infer(_ud: Any, c: Any) -> int:
            return guarded(ctx, what, lambda: self._do_infer(ctx, c), lib.qg_call_ctx(c))

        def run(_ud: Any, c: Any) -> int:
            return guarded(ctx, what, lambda: self._do_run(ctx, c), lib.qg_call_ctx(c))

        o = options("qg_operator")
        held = [encode(self.name)]
        o.name = held[0]
        for field, value in self.fields.items():
            if isinstance(value, str):
                held.append(encode(value))
                value = held[-1]
            if value is not None:
                setattr(o, field, value)
        kind = "qg_status(void *, qg_call *)"
        o.infer = ctx.keep(ffi.callback(kind, infer, lib.QG_EMODEL))
        o.run = ctx.keep(ffi.callback(kind, run, lib.QG_EDATA))
        ctx.check(lib.qg_add_operator(ctx.ctx, o))


def operator(
    name: str,
    *,
    domain: str | None = None,
    since: int = 1,
    inputs: int | tuple[int, int] = 1,
    outputs: int | tuple[int, int] = 1,
    traits: str | None = None,
    roles: str | None = None,
    clamp: tuple[float, float] | None = None,
    infer: Function | None = None,
    attributes: Mapping[str, Any] | None = None,
) -> Callable[[Function], Operator]:
    """Make an operator of a function f(*inputs, **attributes) -> output or outputs.

    inputs, outputs: how many, or the least and the most.  traits: words of
    qg.list("traits"): what fuses with it and quantizes it.  roles: a letter per input.
    clamp: limits of an activation that clamps.  infer: f(*dims, **attributes) -> dims, a
    tuple per output; without it outputs are as the first input.  attributes: names with
    their defaults, which give the types.
    """
    least = [n if isinstance(n, int) else n[0] for n in (inputs, outputs)]
    most = [n if isinstance(n, int) else n[1] for n in (inputs, outputs)]
    fields: dict[str, Any] = {"domain": domain, "since": since, "in_roles": roles, "traits": traits,
              "min_in": least[0], "max_in": most[0], "min_out": least[1],
              "max_out": most[1]}
    if clamp:
        fields["clamp_low"], fields["clamp_high"] = clamp

    def make(run: Function) -> Operator:
        made = Operator(name, run, infer, attributes or {}, fields)
        made.register()
        return made

    return make


__all__ = ["At", "Extension", "Hook", "Observer", "Operator", "Pass", "PassGraph",
           "Quantizer", "forget", "hook", "observer", "operator", "pass_",
           "quantizer", "registered"]
