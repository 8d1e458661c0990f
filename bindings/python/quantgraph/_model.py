"""Models and snapshots: opening, running, saving."""

from __future__ import annotations

import inspect
import os
import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Union

import numpy as np

from ._data import Input, inputs_of, split
from ._extend import Extension, Hook, registered
from ._native import (
    ConfigError,
    Context,
    StateError,
    encode,
    ffi,
    lib,
    options,
    raw,
    text,
    work,
)
from ._records import Endpoint, Graph
from ._report import Report, page
from ._tensor import TYPE_OF, Array, as_array, dims, dtype_of, fill, view

if TYPE_CHECKING:
    from ._verbs import Verbs
else:

    class Verbs:
        """The generated verbs, added when they are imported."""


MOST_BYTES = 2_000_000_000  # of one file: protobuf has 31 bits for its size
MOST_SESSIONS = 8  # of one model: modes, shapes and hooks that it runs with
Mode = Literal["float", "simulate", "integer"]


@dataclass(frozen=True)
class GraphText:
    """A model in the text form."""

    text: str


Origin = Union[str, bytes, GraphText]
#: {"input": (1, 3, 224, 224)}, "input=1x3x224x224", or a list of such words
Shape = Union[str, Sequence[str], Mapping[str, Sequence[int]]]


def open_model(ctx: Context, origin: Origin, shape: Sequence[str]) -> tuple[Any, int]:
    """A handle of a file or of bytes, owned by the context, and its key."""
    o = options("qg_model_options")
    words = [encode(s) for s in shape]
    list_ = ffi.new("char *[]", words)
    o.shape, o.n_shape = list_, len(words)
    out = ffi.new("qg_model **")
    if isinstance(origin, str):
        ctx.check(lib.qg_model_open(ctx.ctx, raw(origin), o, out))
    elif isinstance(origin, GraphText):
        written = origin.text.encode()
        ctx.check(lib.qg_model_open_text(ctx.ctx, written, len(written), out))
    else:
        held = ffi.from_buffer("char[]", origin)  # read in place while the model is open
        ctx.check(lib.qg_model_open_bytes(ctx.ctx, held, len(origin), o, out))
        return out[0], ctx.own(out[0], lambda m: (lib.qg_model_close(m), held)[0])
    return out[0], ctx.own(out[0], lib.qg_model_close)


def shape_words(shape: Shape | None) -> list[str]:
    """Shapes as the command line has them: "input=1x3x224x224"."""
    if isinstance(shape, str):
        return [shape]
    if isinstance(shape, Mapping):
        return [f"{name}={'x'.join(map(str, dims))}" for name, dims in shape.items()]
    given: Any = () if shape is None else shape
    if isinstance(given, Sequence) and all(isinstance(w, str) for w in given):
        return list(given)
    raise ConfigError(
        f"shape: {shape!r}, expected a dict {{'input': (1, 3, 224, 224)}} or "
        "'input=1x3x224x224'"
    )


def load(
    model: Any,
    example: Any = None,
    *,
    shape: Shape = (),
    extend: Sequence[Extension] = (),
) -> Model:
    """Open a model: a path, bytes, an open file, an onnx.ModelProto, or a torch module.

    A snapshot, or a quantized .tflite file, is a Snapshot.  example: the arguments of a
    torch module, for its ONNX export.  shape: {"input": (1, 3, 224, 224)} or
    "input=1x3x224x224", for open extents.  extend: operators of the model, besides those
    that were registered.
    """
    origin: Origin
    folder: str | None = None  # of an export with weights in files of their own
    content = model.read() if hasattr(model, "read") else model
    if isinstance(content, (bytes, bytearray, memoryview)):
        origin = bytes(content)
    elif isinstance(model, (str, os.PathLike)):
        origin = os.fsdecode(model)
    elif hasattr(model, "SerializeToString"):
        origin = _serialized(model)
    elif hasattr(model, "state_dict"):
        origin, folder = _exported(model, example)
    else:
        raise ConfigError(
            f"load: {type(model).__name__}, expected a path, bytes, a file opened with "
            "'rb', an onnx.ModelProto or a torch module"
        )
    opened = _opened(origin, shape_words(shape), extend)
    if folder:
        weakref.finalize(opened._ctx, shutil.rmtree, folder, True)
    return opened


def _serialized(proto: Any) -> bytes:
    try:
        return bytes(proto.SerializeToString())
    except Exception as e:  # ValueError or protobuf's EncodeError: more than 2 GB
        raise ConfigError(
            f"load: ModelProto: {e}, expected a path: "
            "onnx.save(model, path, save_as_external_data=True)"
        ) from e


def load_text(text: str, *, extend: Sequence[Extension] = ()) -> Model:
    """Open a model in the text form (docs/text-form.md): "graph { x = input f32[1,8] ... }"."""
    return _opened(GraphText(text), [], extend)


def _opened(
    origin: Origin,
    words: list[str],
    extend: Extension | Sequence[Extension],
    configs: Mapping[str, str] | None = None,
) -> Model:
    more = (extend,) if isinstance(extend, Extension) else extend
    ctx = Context((*registered(), *more))
    for path, text_ in (configs or {}).items():
        ctx.config(path, text_)
    with ctx.lock:
        handle, key = open_model(ctx, origin, words)
    if lib.qg_model_is_quantized(handle):
        return Snapshot(ctx, handle, key, None)
    return Model(ctx, handle, key, origin, words)


def restored(
    origin: Origin, words: list[str], configs: Mapping[str, str], report: Report | None
) -> Model:
    """Open what was pickled."""
    opened = _opened(origin, words, (), configs)
    if isinstance(opened, Snapshot):
        opened.report = report
    return opened


def _exported(module: Any, example: Any) -> tuple[Origin, str | None]:
    """The file of an export; with its folder where newer exporters put weights beside."""
    import torch

    if example is None:
        raise ConfigError("load: a torch module needs `example`, its arguments")
    folder = tempfile.mkdtemp(prefix="quantgraph-")
    path = os.path.join(folder, "model.onnx")
    size = sum(p.numel() * p.element_size() for p in module.state_dict().values())
    takes = inspect.signature(torch.onnx.export).parameters
    one = {"external_data": False} if "external_data" in takes and size < MOST_BYTES else {}
    try:
        torch.onnx.export(module, example, path, **one)
        if os.listdir(folder) != ["model.onnx"]:
            return path, folder
        with open(path, "rb") as f:
            content = f.read()
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    shutil.rmtree(folder, ignore_errors=True)
    return content, None


@dataclass(frozen=True)
class _Key:
    """What a session is compiled for."""

    mode: str | None
    kernels: bool
    profile: str | None
    jobs: int
    keep: tuple[str, ...]
    hooks: tuple[int, ...]
    shapes: tuple[tuple[int, ...], ...]


class Session:
    """A compiled plan and the memory of one run."""

    def __init__(self, model: Model, key: _Key, hooks: Sequence[Hook]) -> None:
        """Compile for the shapes of a sample."""
        ctx, inputs = model._ctx, model._inputs
        self._ctx, self.inputs, self.keep, self.hooks = ctx, inputs, key.keep, hooks
        o = options("qg_session_options")
        held = [encode(key.mode), encode(key.profile), *map(encode, key.keep)]
        o.mode, o.profile, o.reference_kernels = held[0], held[1], key.kernels
        o.jobs = key.jobs
        words = ffi.new("char *[]", held[2:])
        o.keep, o.n_keep = words, len(key.keep)
        self._in = ffi.new("qg_tensor[]", len(inputs))
        for k, (i, shape) in enumerate(zip(inputs, key.shapes)):
            fill(self._in + k, np.empty(shape, i.dtype))
            self._in[k].data = ffi.NULL
        shapes = ffi.new("qg_tensor[]", len(inputs))
        ffi.memmove(shapes, self._in, ffi.sizeof(shapes))
        if any(-1 in i.dims for i in inputs):
            o.shape = shapes
        if hooks:
            self._rows = [h.row(model) for h in hooks]
            rows = ffi.new("qg_session_hook[]", [r[0][0] for r in self._rows])
            o.hook, o.n_hook = rows, len(hooks)
        out = ffi.new("qg_session **")
        ctx.check(lib.qg_session_new(model._handle, o, out))
        self.handle = out[0]
        self.key = ctx.own(self.handle, lib.qg_session_free)
        self.busy = False
        self._one = ffi.new("qg_tensor *")
        self.names = [v.name for v in model.outputs]
        self._out = ffi.new("qg_tensor[]", max(len(self.names), 1))
        self.types = [self._type(k) for k in range(len(self.names))]
        for k, known in enumerate(self.types):
            if known is not None:
                fill(self._out + k, np.empty(*known))

    def _type(self, k: int) -> tuple[tuple[int, ...], np.dtype[Any]] | None:
        """Dims and type of an output; None: the data decide them."""
        ctx = self._ctx
        ctx.check(lib.qg_session_output_type(self.handle, k, self._one))
        shape = dims(self._one)
        if self._one.rank < 0 or -1 in shape:
            return None
        return shape, dtype_of(self._one.dtype)

    def sample(self, arrays: Sequence[Array], into: Sequence[Array | None]) -> None:
        """One run on plain arrays; outputs go where `into` has an array."""
        for t, a in zip(self._in, arrays):
            t.data = ffi.from_buffer(a) if a.size else ffi.NULL
            t.dtype = TYPE_OF.get(a.dtype, 0)  # 0, no type, is refused with the input's name
        for t, o in zip(self._out, into):
            t.data = ffi.NULL if o is None or not o.size else ffi.from_buffer(o)
        n = len(self.names)
        self.busy = True
        try:
            status = lib.qg_session_run(self.handle, self._in, len(arrays), self._out, n)
        finally:
            self.busy = False
        if status:
            lib.qg_fail(self._ctx.ctx, status, b"%s", lib.qg_session_message(self.handle))
        self._ctx.check(status)

    def output(self, k: int) -> Array:
        """A copy of output k of the last run."""
        out: Array = view(self._out[k]).copy()
        return out

    def kept(self, k: int) -> Array:
        """A copy of a kept value of the last run."""
        self._one.data = ffi.NULL
        self._ctx.check(lib.qg_session_value(self.handle, k, self._one))
        out: Array = view(self._one).copy()
        return out


def _run_options(
    keep: Any, hooks: Any, kernels: str, jobs: Any
) -> tuple[tuple[str, ...], tuple[Hook, ...]]:
    """Names and hooks as tuples; ConfigError for what is neither."""
    names = (keep,) if isinstance(keep, str) else tuple(keep or ())
    given = (hooks,) if isinstance(hooks, Hook) else tuple(hooks or ())
    for h in given:
        if not isinstance(h, Hook):
            raise ConfigError(f"run: hooks: {h!r}, expected what @qg.hook('Conv_*.out0') makes")
    if kernels not in ("fast", "reference"):
        raise ConfigError(f"run: kernels '{kernels}', expected fast or reference")
    if not isinstance(jobs, (int, np.integer)) or jobs < 0:
        raise ConfigError(f"run: jobs {jobs!r}, expected 0 or a number of threads")
    return names, given


class Model(Verbs, Graph):
    """A float model.  Verbs leave it as it is; `quantize` makes a Snapshot of it."""

    def __init__(
        self, ctx: Context, handle: Any, key: int, origin: Origin, shape: Sequence[str]
    ) -> None:
        """Made by `load`."""
        super().__init__(ctx, handle)
        self._key, self._source, self._shape = key, origin, list(shape)
        self._inputs: list[Input] = inputs_of(handle)
        self._sessions: dict[_Key, Session] = {}
        self._usual: Any = None  # the last call with one array, which comes again
        self._last: Any = None

    def _origin(self) -> Origin:
        """The model for another context."""
        return self._source

    def __reduce__(self) -> Any:
        """Pickle what opens it again: of a file its absolute path; no extensions."""
        origin = self._origin()
        if isinstance(origin, str):
            origin = os.path.abspath(origin)
        report = getattr(self, "report", None)
        if not isinstance(report, Report):  # a model has a verb of that name
            report = None
        return restored, (origin, self._shape, self._ctx.configs, report)

    def quantize(  # type: ignore[override]
        self, backend: Any, data: Any = None, **more: Any
    ) -> Snapshot:
        """Quantize for a backend: a name, a YAML file, YAML text, or a dict.

        data: a list or an iterable of feeds (an array in the shape of the model's input,
        or a dict of arrays by name; larger batches are split), or a DATA string as on
        the command line.  more: the options of qg.quantize; extend: extensions, such as
        passes.  The report is `snapshot.report`.
        """
        from ._verbs import quantize

        made: Snapshot = quantize(self, backend=backend, data=data, **more)
        return made

    def run(  # type: ignore[override]
        self,
        x: Any,
        mode: Mode | None = None,
        *,
        keep: str | Sequence[str] | None = (),
        hooks: Hook | Sequence[Hook] = (),
        kernels: Literal["fast", "reference"] = "fast",
        profile: str | None = None,
        jobs: int = 0,
    ) -> dict[str, Array]:
        """Run on arrays: the outputs by name, then the inner values of `keep`.

        x: an array, or a dict of arrays by input name.  Of several samples the results
        are stacked as the samples are.  mode: "float", "simulate" (when quantized the
        default) or "integer", with the arithmetic of `profile`.  jobs: threads that compute
        a sample together, 0 one per core; results do not depend on it.
        """
        usual = (mode, kernels, profile, jobs,
                 getattr(x, "shape", None), getattr(x, "dtype", None))
        if usual == self._usual and not keep and not hooks and x.flags.c_contiguous:
            with self._ctx.lock:
                self._idle(self._last)
                return self._single(self._last, [x])
        keep, hooks = _run_options(keep, hooks, kernels, jobs)
        samples = list(split(self._inputs, x))
        arrays = [[i.plain(s[i.name]) for i in self._inputs] for s in samples]
        if not arrays:
            raise ConfigError("run: no samples, expected at least one")
        with self._ctx.lock:
            key = _Key(mode, kernels == "reference", profile, jobs, tuple(keep),
                       tuple(map(id, hooks)), tuple(a.shape for a in arrays[0]))
            session = self._session(key, hooks)
            stacked = self._counted(x)
            if len(arrays) == 1 and not stacked:
                if arrays[0][0] is x and not keep and not hooks:
                    self._usual, self._last = usual, session
                return self._single(session, arrays[0])
            return self._several(session, arrays, stacked)

    def _session(self, key: _Key, hooks: Sequence[Hook]) -> Session:
        found = self._sessions.get(key)
        if found is None:
            idle = [k for k, s in self._sessions.items() if not s.busy]
            if len(self._sessions) >= MOST_SESSIONS and idle:
                oldest = self._sessions.pop(idle[0])
                self._ctx.drop(oldest.key)
                self._usual = self._last = None
            found = self._sessions[key] = Session(self, key, hooks)
        self._idle(found)
        return found

    def _idle(self, session: Session) -> None:
        """Refuse a run within a run of the same session, whose arrays it would change."""
        if session.busy:
            raise StateError("run: a hook calls the run that it is in, expected another one")

    def explain(self, name: str) -> Report:  # type: ignore[override]
        """The origin of every setting of a node, endpoint, value or "group:..."."""
        from ._verbs import explain

        answer: Report = explain(self, name)
        return answer

    def _counted(self, x: Any) -> bool:
        """Whether x has an axis that counts samples."""
        first, name = x, self._inputs[0].name
        if isinstance(x, Mapping):
            name, first = next(iter(x.items()))
        elif isinstance(x, (list, tuple)) and any(hasattr(a, "shape") for a in x):
            first = x[0]
        by_name = {i.name: i for i in self._inputs}
        return by_name[name].split(as_array(first))[1] if name in by_name else False

    def _single(self, s: Session, arrays: Sequence[Array]) -> dict[str, Array]:
        into = [None if t is None else np.empty(*t) for t in s.types]
        s.sample(arrays, into)
        out = {
            name: s.output(k) if o is None else o
            for k, (name, o) in enumerate(zip(s.names, into))
        }
        out.update({name: s.kept(k) for k, name in enumerate(s.keep)})
        return out

    def _several(
        self, s: Session, samples: Sequence[Sequence[Array]], stacked: bool
    ) -> dict[str, Array]:
        runs = [self._single(s, arrays) for arrays in samples]
        batch = not stacked and all(r.ndim for r in runs[0].values())
        join = np.concatenate if batch else np.stack
        return {name: join([r[name] for r in runs]) for name in runs[0]}

    def _changed(self) -> None:
        """Drop sessions: the records have changed."""
        for s in self._sessions.values():
            self._ctx.drop(s.key)
        self._sessions.clear()
        self._usual = self._last = None

    def to_onnx(self) -> bytes:
        """The float graph as an ONNX file; of a snapshot with its baked constants."""
        return self._bytes(lib.qg_model_export_onnx_bytes)

    def _bytes(self, make: Any) -> bytes:
        out = ffi.new("qg_bytes *")
        with self._ctx.lock:
            self._ctx.check(make(self._handle, out))
        try:
            return bytes(ffi.buffer(out.data, out.size))
        finally:
            lib.qg_bytes_free(self._ctx.ctx, out)

    def __repr__(self) -> str:
        """Return a line of counts."""
        ins = ", ".join(f"{i.name} {i.dtype}{list(i.dims)}" for i in self._inputs)
        return f"<{type(self).__name__}: {len(self.nodes)} nodes, inputs {ins}>"

    def _repr_html_(self) -> str:
        ops: dict[str, int] = {}
        for n in self.nodes:
            ops[n.op] = ops.get(n.op, 0) + 1
        rows = [[v.name, v.dtype, v.dims, kind]
                for kind, vs in (("input", self.inputs), ("output", self.outputs))
                for v in vs]
        return page(["name", "type", "dims", ""], rows) + page(
            ["operator", "nodes"], sorted(ops.items(), key=lambda i: -i[1])
        )


class Snapshot(Model):
    """A quantized model."""

    def __init__(self, ctx: Context, handle: Any, key: int, report: Report | None) -> None:
        """Made by `load` and by verbs."""
        super().__init__(ctx, handle, key, "", [])
        #: what the verb that made it reported
        self.report = report

    def _origin(self) -> Origin:
        return self.to_bytes()

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the snapshot folder: model.onnx, quant.json."""
        with self._ctx.lock:
            path = raw(os.fsdecode(folder))
            work(lambda _: self._ctx.check(lib.qg_model_save(self._handle, path)))

    def to_bytes(self) -> bytes:
        """The snapshot as one block, which `load` opens."""
        return self._bytes(lib.qg_model_save_bytes)

    def _tqc(self, e: Endpoint | str) -> Any:
        self._ctx.lock.refuse_callbacks()  # it would change what is being run
        return super()._tqc(e)

    def _check(self, status: int) -> None:
        super()._check(status)
        self._changed()

    def __repr__(self) -> str:
        """Return a line of counts."""
        return f"{super().__repr__()[:-1]}, {len(self.endpoints)} endpoints>"

    def _repr_html_(self) -> str:
        states: dict[str, int] = {}
        for e in self.endpoints:
            states[e.state] = states.get(e.state, 0) + 1
        made = self.report._repr_html_() if self.report else ""
        return super()._repr_html_() + page(["state", "endpoints"], list(states.items())) + made


__all__ = ["Model", "Session", "Snapshot", "load", "text"]
