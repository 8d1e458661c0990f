"""Nodes, values, endpoints and groups of a model: reading and changing them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

import numpy as np

from ._native import ConfigError, Context, encode, ffi, lib, maybe, record, text
from ._report import frame, page
from ._tensor import Array, as_array, dims, view

if TYPE_CHECKING:
    from ._report import Report

R = TypeVar("R", bound="Named")


class Named:
    """A record with a name, which indexes the graph that it belongs to."""

    name: str
    FIELDS: tuple[str, ...] = ()
    _graph: Graph

    def row(self) -> list[Any]:
        """The fields of a table of such records."""
        return [getattr(self, f) for f in self.FIELDS]

    def __repr__(self) -> str:
        """Return the fields of a table."""
        shown = ", ".join(f"{f}={v}" for f, v in zip(self.FIELDS[1:], self.row()[1:]))
        return f"<{type(self).__name__} {self.name}: {shown}>"

    def _repr_html_(self) -> str:
        return page(["field", "value"], list(zip(self.FIELDS, self.row())))

    def _key(self) -> tuple[Any, ...]:
        """What it is a record of, not what its fields were."""
        return type(self), self._graph._handle, self.name

    def __eq__(self, other: object) -> bool:
        """Whether both are records of one thing of one model."""
        return isinstance(other, Named) and self._key() == other._key()

    def __hash__(self) -> int:
        """Return a hash of kind and name."""
        return hash((type(self), self.name))


class Records(Sequence[R], Generic[R]):
    """A sequence of records; `[name]` finds one, `to_pandas()` makes a table."""

    def __init__(
        self, kind: type[R], count: Callable[[], int], get: Callable[[int], R]
    ) -> None:
        """Records are read when they are asked for."""
        self._kind, self._count, self._get = kind, count, get

    @overload
    def __getitem__(self, at: int | str) -> R: ...

    @overload
    def __getitem__(self, at: slice) -> list[R]: ...

    def __getitem__(self, at: int | str | slice) -> R | list[R]:
        """Return the record at an index or of a name, or a list of a slice."""
        if isinstance(at, slice):
            return [self._get(i) for i in range(*at.indices(len(self)))]
        if isinstance(at, str):
            for r in self:
                if r.name == at:
                    return r
            raise KeyError(at)
        index = at + len(self) if at < 0 else at
        if not 0 <= index < len(self):
            raise IndexError(at)
        return self._get(index)

    def __len__(self) -> int:
        """Return the number of records."""
        return self._count()

    def __iter__(self) -> Iterator[R]:
        """Iterate in order of their ids."""
        return (self._get(i) for i in range(len(self)))

    def _ipython_key_completions_(self) -> list[str]:
        return [r.name for r in self]

    def to_pandas(self) -> Any:
        """Return a pandas.DataFrame with a row per record."""
        return frame(self._kind.FIELDS, [r.row() for r in self])

    def __repr__(self) -> str:
        """Return the number of records and the first names."""
        names = [r.name for r in self[:5]] + (["..."] if len(self) > 5 else [])
        return f"<{len(self)} {self._kind.__name__} records: {', '.join(names)}>"

    def _repr_html_(self) -> str:
        return page(self._kind.FIELDS, [r.row() for r in self])


class Graph:
    """The graph of an open model and its records; also the model in a pass.

    `graph[name]` is an endpoint ("Conv_0.out0"), a node, a group ("group:Conv_0.out0")
    or a value.
    """

    def __init__(self, ctx: Context, handle: Any) -> None:
        """A borrowed handle."""
        self._ctx, self._handle = ctx, handle

    @property
    def nodes(self) -> Records[Node]:
        """The nodes in order of execution."""
        return Records(
            Node,
            lambda: int(lib.qg_model_node_count(self._handle)),
            lambda i: Node(self, lib.qg_model_node(self._handle, i)),
        )

    @property
    def values(self) -> Records[Value]:
        """The tensors on the edges."""
        return Records(
            Value,
            lambda: int(lib.qg_model_value_count(self._handle)),
            lambda i: Value(self, lib.qg_model_value(self._handle, i)),
        )

    @property
    def inputs(self) -> Records[Value]:
        """The inputs of the graph."""
        return Records(
            Value,
            lambda: int(lib.qg_model_input_count(self._handle)),
            lambda i: Value(self, lib.qg_model_input(self._handle, i)),
        )

    @property
    def outputs(self) -> Records[Value]:
        """The outputs of the graph."""
        return Records(
            Value,
            lambda: int(lib.qg_model_output_count(self._handle)),
            lambda i: Value(self, lib.qg_model_output(self._handle, i)),
        )

    @property
    def endpoints(self) -> Records[Endpoint]:
        """The TensorQuantizationConfigs; none of a model that is not quantized."""
        return Records(
            Endpoint,
            lambda: int(lib.qg_model_tqc_count(self._handle)),
            lambda i: Endpoint(self, lib.qg_model_tqc(self._handle, i)),
        )

    @property
    def groups(self) -> Records[Group]:
        """The groups of at least two endpoints that share a scale."""
        return Records(
            Group,
            lambda: int(lib.qg_model_group_count(self._handle)),
            lambda i: Group(self, lib.qg_model_group(self._handle, i)),
        )

    def __getitem__(self, name: str) -> Any:
        """Return an endpoint, a node, a group or a value."""
        if not isinstance(name, str):
            raise TypeError(
                f"{type(name).__name__} {name!r}, expected the name of an endpoint, node, "
                "group or value; .nodes[0] is the first node"
            )
        raw = name.encode()
        if name.startswith("group:"):
            return self.groups[name]
        for find, kind in (
            (lib.qg_model_find_tqc, Endpoint),
            (lib.qg_model_find_node, Node),
            (lib.qg_model_find_value, Value),
        ):
            handle = find(self._handle, raw)
            if handle != ffi.NULL:
                return kind(self, handle)
        known = [n.name for n in self.nodes] + [e.name for e in self.endpoints]
        words = [ffi.new("char[]", w.encode()) for w in known]
        near = lib.qg_nearest(raw, ffi.new("char *[]", words), len(words))
        hint = f", did you mean '{text(near)}'" if near != ffi.NULL else ""
        raise KeyError(f"no node, endpoint or value '{name}'{hint}")

    def __contains__(self, name: object) -> bool:
        """Whether `self[name]` exists."""
        try:
            self[name]  # type: ignore[index]
        except (KeyError, TypeError):
            return False
        return True

    __iter__ = None  # .nodes, .endpoints, .values and .groups are sequences

    def _ipython_key_completions_(self) -> list[str]:
        """Complete s[" in notebooks: endpoints, nodes, groups and values."""
        names = [r.name for r in self.endpoints] + [r.name for r in self.nodes]
        return names + [r.name for r in self.groups] + [r.name for r in self.values]

    def _tqc(self, e: Endpoint | str) -> Any:
        found = self[e] if isinstance(e, str) else e
        if not isinstance(found, Endpoint):
            raise ConfigError(f"'{e}' is no endpoint")
        return found._handle

    # --- changes ---

    def set_state(self, endpoint: Endpoint | str, state: str) -> None:
        """Change the state of an endpoint: "FP32", "ACTIVATED", ..."""
        word = str(state).upper().replace("-", "_")
        code = getattr(lib, f"QG_TQC_{word}", None)
        if code is None:
            raise ConfigError(f"no state '{state}' (qg.list('states') has them)")
        self._check(lib.qg_model_set_state(self._handle, self._tqc(endpoint), code))

    def set_param(self, endpoint: Endpoint | str, scale: Any, offset: Any = None) -> None:
        """Set scale and offset of a dominator."""
        s = _parameter("scale", scale, np.float32)
        o = None if offset is None else _parameter("offset", offset, np.int32)
        if o is not None and o.size != s.size:
            raise ConfigError(f"{o.size} offsets for {s.size} scales")
        self._check(
            lib.qg_model_set_param(
                self._handle,
                self._tqc(endpoint),
                s.size,
                ffi.cast("float *", s.ctypes.data),
                ffi.NULL if o is None else ffi.cast("int32_t *", o.ctypes.data),
            )
        )

    def set_observer(self, endpoint: Endpoint | str, observer: str) -> None:
        """Set the observer of the next calibration."""
        tqc = self._tqc(endpoint)
        self._check(lib.qg_model_set_observer(self._handle, tqc, observer.encode()))

    def set_quantizer(self, endpoint: Endpoint | str, quantizer: str | None) -> None:
        """Set the quantization function; None is the library's own."""
        tqc = self._tqc(endpoint)
        self._check(lib.qg_model_set_quantizer(self._handle, tqc, encode(quantizer)))

    def set_bits(self, endpoint: Endpoint | str, bits: int) -> None:
        """Change the width of a scheme, with all codes of it as its range.

        In a pass before calibration.  Of a snapshot the scale stays as it is, so that the
        limits of the grid move: `quantize(..., set="node=NAME bits=4")` calibrates.
        """
        if not isinstance(bits, (int, np.integer)) or not 2 <= bits <= 32:
            raise ConfigError(f"set bits: {bits!r}, expected an integer from 2 to 32")
        scheme = Endpoint(self, self._tqc(endpoint)).scheme.c()
        signed = scheme.qmin < 0
        scheme.bits = bits
        scheme.qmin = -(1 << (bits - 1)) if signed else 0
        scheme.qmax = (1 << (bits - 1 if signed else bits)) - 1
        tqc = self._tqc(endpoint)
        self._check(lib.qg_model_set_scheme(self._handle, tqc, scheme))

    def join(self, endpoint: Endpoint | str, dominator: Endpoint | str) -> None:
        """Make an endpoint and its group OVERLAPPED: the dominator quantizes instead."""
        a, b = self._tqc(endpoint), self._tqc(dominator)
        self._check(lib.qg_model_join(self._handle, a, b))

    def lend(self, endpoint: Endpoint | str, lender: Endpoint | str) -> None:
        """Make an endpoint and its group quantize with the scale of another."""
        a, b = self._tqc(endpoint), self._tqc(lender)
        self._check(lib.qg_model_lend(self._handle, a, b))

    def detach(self, endpoint: Endpoint | str) -> None:
        """Remove an endpoint from its group."""
        self._check(lib.qg_model_detach(self._handle, self._tqc(endpoint)))

    def _check(self, status: int) -> None:
        self._ctx.check(status)

    def explain(self, name: str) -> Report:
        """The origin of every setting of a node, endpoint, value or group."""
        raise ConfigError("explain: the model is in a pass")


@dataclass(frozen=True)
class Scheme:
    """The grid of an endpoint, apart from scale and offset."""

    policy: str  #: "per-channel linear symmetric"
    rounding: str
    bits: int
    qmin: int
    qmax: int
    axis: int  #: -1: per-tensor
    block: int
    exponent_bits: int
    _c: bytes

    @classmethod
    def of(cls, s: Any) -> Scheme:
        """Copy a scheme of the library."""
        room = ffi.new("char[96]")
        return cls(
            text(lib.qg_policy_text(s.policy, room)),
            text(lib.qg_rounding_name(s.rounding)),
            int(s.bits),
            int(s.qmin),
            int(s.qmax),
            int(s.axis),
            int(s.block),
            int(s.exponent_bits),
            bytes(ffi.buffer(ffi.addressof(s))),
        )

    def c(self) -> Any:
        """A struct of the library."""
        out = ffi.new("qg_scheme *")
        ffi.buffer(out)[:] = self._c
        return out


class Node(Named):
    """An operator call."""

    FIELDS = ("name", "op", "platform", "reason", "inputs", "outputs")

    def __init__(self, graph: Graph, handle: Any) -> None:
        """Read the record."""
        r = record("qg_node_record")
        lib.qg_node_get(handle, r)
        self._graph, self._handle = graph, handle
        self.id = int(r.id)
        self.name, self.op, self.domain = text(r.name), text(r.op), text(r.domain)
        self.opset = int(r.opset)
        self.platform, self.reason = text(r.platform), maybe(r.reason)
        self._n = int(r.n_in), int(r.n_out)

    def _value(self, get: Any, slot: int) -> Value | None:
        v = get(self._handle, slot)
        return None if v == ffi.NULL else Value(self._graph, v)

    def _tqc(self, get: Any, slot: int) -> Endpoint | None:
        t = get(self._handle, slot)
        return None if t == ffi.NULL else Endpoint(self._graph, t)

    @property
    def inputs(self) -> list[Value | None]:
        """The values that it reads; None is an absent operand."""
        return [self._value(lib.qg_node_input, k) for k in range(self._n[0])]

    @property
    def outputs(self) -> list[Value | None]:
        """The values that it makes."""
        return [self._value(lib.qg_node_output, k) for k in range(self._n[1])]

    @property
    def input_endpoints(self) -> list[Endpoint | None]:
        """The endpoints of its inputs; None is not quantized."""
        return [self._tqc(lib.qg_node_input_tqc, k) for k in range(self._n[0])]

    @property
    def output_endpoints(self) -> list[Endpoint | None]:
        """The endpoints of its outputs."""
        return [self._tqc(lib.qg_node_output_tqc, k) for k in range(self._n[1])]

    def has_trait(self, trait: str) -> bool:
        """Whether its operator has a trait ("compute", "activation")."""
        return bool(lib.qg_node_has_trait(self._handle, trait.encode()))

    def why(self) -> Report:
        """The origin of the settings of all of its endpoints."""
        return self._graph.explain(self.name)

    def row(self) -> list[Any]:
        """Return names instead of values."""
        names = [[v.name if v else None for v in vs] for vs in (self.inputs, self.outputs)]
        return [self.name, self.op, self.platform, self.reason, *names]


class Value(Named):
    """The tensor on an edge."""

    FIELDS = ("name", "dtype", "dims", "is_input", "is_output", "is_constant")

    def __init__(self, graph: Graph, handle: Any) -> None:
        """Read the record."""
        r = record("qg_value_record")
        lib.qg_value_get(handle, r)
        self._graph, self._handle, self._record = graph, handle, r
        self.id = int(r.id)
        self.name = text(r.name)
        self.dtype = text(lib.qg_dtype_name(r.type))
        self.dims = dims(r) if r.rank >= 0 else None
        self.is_input, self.is_output = bool(r.is_input), bool(r.is_output)
        self.is_constant = r.constant != ffi.NULL

    @property
    def constant(self) -> Array | None:
        """The data of a constant, a view of the model's memory, read-only."""
        return _Held.of(self._record.constant, self._graph) if self.is_constant else None

    @property
    def producer(self) -> Node | None:
        """The node that makes it; None for inputs and constants."""
        n = lib.qg_value_producer(self._handle)
        return None if n == ffi.NULL else Node(self._graph, n)

    @property
    def consumers(self) -> list[tuple[Node, int]]:
        """The nodes that read it, and their slots."""
        slot = ffi.new("uint32_t *")
        out = []
        for k in range(int(self._record.n_consumer)):
            n = lib.qg_value_consumer(self._handle, k, slot)
            out.append((Node(self._graph, n), int(slot[0])))
        return out


class _Held(np.ndarray[Any, Any]):
    """A view that keeps the model of its memory open."""

    graph: Any = None

    @classmethod
    def of(cls, t: Any, graph: Graph) -> Array:
        """A view of a tensor of the graph."""
        out: _Held = view(t).view(cls)
        out.graph = graph
        return out

    def __array_finalize__(self, of: Any) -> None:
        self.graph = getattr(of, "graph", None)


@dataclass(frozen=True)
class Change:
    """An entry of a record's journal."""

    field: str
    old: str
    new: str
    by: str  #: id of a rule, a pass, or "pass/pattern"


class Endpoint(Named):
    """The TensorQuantizationConfig of one slot of a node, as it was when read."""

    FIELDS = ("name", "state", "bits", "policy", "scale", "offset", "dominator",
              "observer", "rule", "reason")

    def __init__(self, graph: Graph, handle: Any) -> None:
        """Read the record; scale and offset are copied."""
        r = record("qg_tqc_record")
        lib.qg_tqc_get(handle, r)
        self._graph, self._handle, self._record = graph, handle, r
        n = int(r.n_param)
        self.id, self.name = int(r.id), text(r.name)
        self.slot, self.is_output = int(r.slot), bool(r.is_output)
        self.state = text(lib.qg_tqc_state_name(r.state))
        self.saved_state = text(lib.qg_tqc_state_name(r.saved))
        self.scheme = Scheme.of(r.scheme)
        self.scale = _numbers(r.scale, n, np.float32)
        self.offset = _numbers(r.offset, n, np.int32)
        self.rounds = bool(r.rounds)
        self.observer, self.quantizer = maybe(r.observer), maybe(r.quantizer)
        self.rule, self.reason = maybe(r.rule), maybe(r.why)

    @property
    def bits(self) -> int:
        """The width of its scheme."""
        return self.scheme.bits

    @property
    def policy(self) -> str:
        """The words of its scheme."""
        return self.scheme.policy

    @property
    def node(self) -> Node:
        """The node that it belongs to."""
        return Node(self._graph, ffi.cast("qg_node *", self._record.node))

    @property
    def value(self) -> Value:
        """The value that is quantized."""
        return Value(self._graph, ffi.cast("qg_value *", self._record.value))

    @property
    def dominator(self) -> Endpoint:
        """The endpoint whose scale it shares; itself when it is alone."""
        return Endpoint(self._graph, ffi.cast("qg_tqc *", self._record.dominator))

    @property
    def group(self) -> list[Endpoint]:
        """All endpoints with its dominator."""
        return _members(self._graph, self._handle)

    @property
    def history(self) -> list[Change]:
        """The journal: every change of a field, in order, and what made it."""
        out: list[Change] = []
        r = record("qg_change_record")
        while lib.qg_model_change(self._graph._handle, self._handle, len(out), r):
            out.append(Change(text(r.field), text(r.old_value), text(r.new_value), text(r.by)))
        return out

    def why(self) -> Report:
        """The rule and backend file that set each field, with reasons."""
        return self._graph.explain(self.name)

    def row(self) -> list[Any]:
        """Return the name of the dominator, and a number for one scale."""
        lead = text(_tqc_name(self._record.dominator))
        one = self.scale.size == 1
        scale = float(str(self.scale[0])) if one else self.scale  # its shortest text
        offset = int(self.offset[0]) if one else self.offset
        return [self.name, self.state, self.bits, self.policy, scale, offset, lead,
                self.observer, self.rule, self.reason]


def _parameter(what: str, given: Any, dtype: Any) -> Array:
    """Numbers of a host for scales or offsets, in one row; offsets are whole."""
    try:
        plain = np.atleast_1d(np.asarray(as_array(given), np.float64)).ravel()
    except (TypeError, ValueError) as e:
        raise ConfigError(f"set param: {what} {given!r}: {e}") from e
    out: Array = np.ascontiguousarray(plain, dtype)
    if dtype is np.int32 and not np.array_equal(out, plain):
        raise ConfigError(f"set param: {what} {given!r}, expected integers of 32 bits")
    return out


def _numbers(p: Any, n: int, dtype: Any) -> Array:
    if p == ffi.NULL or n == 0:
        return np.zeros(n if p == ffi.NULL else 0, dtype)
    out: Array = np.frombuffer(ffi.buffer(p, n * 4), dtype).copy()
    return out


def _tqc_name(handle: Any) -> Any:
    r = record("qg_tqc_record")
    lib.qg_tqc_get(handle, r)
    return r.name


def _members(graph: Graph, handle: Any) -> list[Endpoint]:
    out: list[Endpoint] = []
    while (m := lib.qg_tqc_member(handle, len(out))) != ffi.NULL:
        out.append(Endpoint(graph, ffi.cast("qg_tqc *", m)))
    return out


class Group(Named):
    """Endpoints that share one scale."""

    FIELDS = ("name", "dominator", "members", "scale")

    def __init__(self, graph: Graph, handle: Any) -> None:
        """Read the dominator."""
        self._graph, self._handle = graph, ffi.cast("qg_tqc *", handle)
        self.dominator = Endpoint(graph, self._handle)
        self.name = "group:" + self.dominator.name

    @property
    def members(self) -> list[Endpoint]:
        """All endpoints, by id; the dominator is one of them."""
        return _members(self._graph, self._handle)

    @property
    def scale(self) -> Array:
        """The scale that they share."""
        return self.dominator.scale

    def why(self) -> Report:
        """The origin of the sharing."""
        return self._graph.explain(self.name)

    def row(self) -> list[Any]:
        """Return names instead of endpoints."""
        members = [e.name for e in self.members]
        return [self.name, self.dominator.name, members, self.scale]
