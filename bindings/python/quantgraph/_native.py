"""The C library: its status as exceptions, its warnings, contexts, and work that Ctrl-C can end."""

from __future__ import annotations

import contextlib
import itertools
import os
import pathlib
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from . import _cdef

ffi: Any = _cdef.ffi
HERE = pathlib.Path(__file__).parent
lib: Any = ffi.dlopen(str(HERE / "libquantgraph.so"))
#: the folder with backends, profiles, and a small model with data
CONFIGS = HERE / "configs"
T = TypeVar("T")

# --- errors ---


class Error(Exception):
    """A failure of the library; `status` is its name in C."""

    status = ""


class NoMemoryError(Error, MemoryError):
    """Out of memory."""

    status = "QG_ENOMEM"


class FileError(Error, OSError):
    """A file cannot be read or written."""

    status = "QG_EIO"


class ParseError(Error, ValueError):
    """A file is malformed."""

    status = "QG_EPARSE"


class ModelError(Error, ValueError):
    """A well-formed file contains an invalid model."""

    status = "QG_EMODEL"


class UnsupportedError(Error, NotImplementedError):
    """A valid model requires what is not implemented."""

    status = "QG_EUNSUPPORTED"


class ConfigError(Error, ValueError):
    """A backend, a pipeline or an option is wrong."""

    status = "QG_ECONFIG"


class DataError(Error, ValueError):
    """Input data do not fit the model."""

    status = "QG_EDATA"


class StateError(Error, RuntimeError):
    """The quantization state does not allow this."""

    status = "QG_ESTATE"


class NumericError(Error, ArithmeticError):
    """A number that must be finite is not."""

    status = "QG_ENUMERIC"


class CanceledError(Error):
    """The work was cancelled."""

    status = "QG_ECANCELED"


class MemoryLimitError(Error, MemoryError):
    """The work needs more memory than the limit allows."""

    status = "QG_EMEMORY"


class Warning(UserWarning):
    """What the command prints as a warning."""


ERRORS: dict[str, type[Error]] = {c.status: c for c in Error.__subclasses__()}


def text(p: Any) -> str:
    """A C string, "" for NULL."""
    return ffi.string(p).decode("utf-8", "replace") if p else ""


def maybe(p: Any) -> str | None:
    """A C string, None for NULL."""
    return text(p) if p else None


def encode(value: str | None) -> Any:
    """A C string to keep alive, NULL for None."""
    return ffi.NULL if value is None else ffi.new("char[]", raw(value))


def raw(value: str) -> bytes:
    """The bytes of a text for C: of paths those that the file system has."""
    if not isinstance(value, str):
        raise ConfigError(f"{value!r}: expected a text")
    if "\0" in value:
        raise ConfigError(f"{value!r}: has a NUL character, expected a text without")
    return value.encode("utf-8", "surrogateescape")


def failure(status: int, message: str) -> Error:
    """The exception of a status."""
    kind = ERRORS.get(text(lib.qg_status_name(status)), Error)
    return kind(message or text(lib.qg_status_text(status)))


def record(kind: str) -> Any:
    """A zeroed struct of the caller, tagged with its size."""
    out = ffi.new(f"{kind} *")
    out.size = ffi.sizeof(kind)
    return out


def options(kind: str) -> Any:
    """A struct of options with the library's defaults."""
    out = ffi.new(f"{kind} *")
    getattr(lib, f"{kind}_init")(out, ffi.sizeof(kind))
    return out


# --- warnings ---

#: files whose functions stand between a call of the package and the library
INSIDE = (str(HERE) + os.sep, contextlib.__file__)


def outside() -> int:
    """The `stacklevel`, for the caller of this function, of who called the package."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back and frame.f_code.co_filename.startswith(INSIDE):
        level, frame = level + 1, frame.f_back
    return level


class _Messages:
    """Warnings of a context until its work is done, and names of what it was given."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}  # the files that stand for arguments
        warned = self._warned = list[str]()

        @ffi.callback("void(void *, int, char *)")  # type: ignore[untyped-decorator]
        def log(_ud: Any, _level: int, message: Any) -> None:
            warned.append(text(message))

        self.log = log

    def named(self, message: str) -> str:
        """A message that names arguments, not the files that stand for them."""
        for file, name in self.names.items():
            message = message.replace(f"{name}: {file}: is ", f"{name}: the array: is ")
            message = message.replace(f"{name}: {file}", name).replace(file, name)
        return message

    def warn(self, failed: bool) -> None:
        """Give the warnings to Python; a failure is not replaced by one of them."""
        while self._warned:
            try:
                warnings.warn(self.named(self._warned.pop(0)), Warning, outside())
            except Warning:
                if not failed:
                    self._warned.clear()
                    raise


# --- contexts ---


class _Owner:
    """The handles of a context, closed in reverse order and the context last."""

    def __init__(self, ctx: Any) -> None:
        self.ctx = ctx
        self.handles: dict[int, tuple[Any, Callable[[Any], None]]] = {}
        self.keep: list[Any] = []

    def close(self) -> None:
        for handle, free in reversed(list(self.handles.values())):
            free(handle)
        self.handles.clear()
        if self.ctx is not None:
            lib.qg_close(self.ctx)
        self.ctx = None


class _Lock:
    """One thread at a time works in a context; others wait.

    A callback runs while its context is at work, of a verb in a thread of the library: a
    call from there would wait for ever, or change what is being read, and is refused.
    Behind a run in its own thread (a hook) it may run other models.
    """

    def __init__(self, messages: _Messages) -> None:
        self._messages = messages
        self._lock = threading.RLock()
        self._owners: list[int] = []  # the thread inside, as often as it entered
        self._callbacks: dict[int, list[str]] = {}  # by thread
        self.verbs = 0

    def __enter__(self) -> None:
        thread = threading.get_ident()
        if self.verbs or thread not in self._owners:
            self.refuse_callbacks()
        self._lock.acquire()
        self._owners.append(thread)

    def __exit__(self, kind: object, *_: object) -> None:
        self._owners.pop()
        last = not self._owners
        self._lock.release()
        if last:
            self._messages.warn(kind is not None)

    def refuse_callbacks(self) -> None:
        """Raise StateError in a callback."""
        running = self._callbacks.get(threading.get_ident())
        if running:
            raise StateError(
                f"python: {running[-1]}: it calls a model that is at work, expected "
                "another one: `load` its file again"
            )

    @contextlib.contextmanager
    def callback(self, what: str) -> Iterator[None]:
        """The body is this callback."""
        running = self._callbacks.setdefault(threading.get_ident(), [])
        running.append(what)
        try:
            yield
        finally:
            running.pop()

    @contextlib.contextmanager
    def verb(self) -> Iterator[None]:
        """The body runs a verb."""
        self.refuse_callbacks()
        with self:
            self.verbs += 1
            try:
                yield
            finally:
                self.verbs -= 1


class Context:
    """A context of the library: what was added to it, and its open models."""

    def __init__(self, extensions: Iterable[Any] = ()) -> None:
        """Open a context with these extensions."""
        o = options("qg_open_options")
        folder = encode(str(CONFIGS))
        o.config_dir = folder
        self.messages = _Messages()
        o.log = self.messages.log
        out = ffi.new("qg_ctx **")
        status = lib.qg_open(o, out)
        if status:
            raise failure(status, "")
        self.ctx = out[0]
        self.lock = _Lock(self.messages)
        self.raised: list[BaseException] = []
        self.added: list[Any] = []
        self.configs: dict[str, str] = {}
        self._keys = itertools.count()
        self._owner = _Owner(self.ctx)
        self._owner.keep.append(self.messages.log)
        weakref.finalize(self, self._owner.close)
        for extension in extensions:
            self.extend(extension)

    def check(self, status: int) -> None:
        """Raise the exception of a failed call, or that of a callback in it."""
        if not status:
            self.raised.clear()
            return
        message = self.messages.named(text(lib.qg_ctx_message(self.ctx)))
        cause = self.raised[0] if self.raised else None
        self.raised.clear()
        if isinstance(cause, Exception):
            raise failure(status, message) from cause
        if cause is not None:
            raise cause
        raise failure(status, message)

    def fail(self, error: BaseException, what: str, on: Any = None) -> int:
        """Record an exception of a callback; the status that ends the work.

        on: the context in C whose message the library reads.
        """
        self.raised.append(error)
        return fail(self.ctx if on is None else on, what, error)

    def own(self, handle: Any, free: Callable[[Any], None]) -> int:
        """Close a handle with the context, or earlier by `drop`."""
        key = next(self._keys)
        self._owner.handles[key] = (handle, free)
        return key

    def drop(self, key: int) -> None:
        """Close a handle now; nothing happens the second time."""
        handle, free = self._owner.handles.pop(key, (None, None))
        if free is not None:
            free(handle)

    def keep(self, thing: Any) -> Any:
        """Keep a Python object as long as the context."""
        self._owner.keep.append(thing)
        return thing

    def extend(self, extension: Any) -> None:
        """Add an extension unless it is there."""
        if not hasattr(extension, "add"):
            raise ConfigError(
                f"extend: {extension!r}, expected what qg.pass_, qg.operator, qg.observer "
                "or qg.quantizer make"
            )
        if not any(e is extension for e in self.added):
            extension.add(self)
            self.added.append(extension)

    def config(self, path: str, content: str) -> None:
        """Add a file of the configuration folder unless the same one is there."""
        if self.configs.get(path) == content:
            return
        raw = content.encode()
        self.check(lib.qg_add_config(self.ctx, path.encode(), raw, len(raw)))
        self.configs[path] = content


def fail(ctx: Any, what: str, error: BaseException) -> int:
    """Put the message of a Python exception on a C context."""
    ours = isinstance(error, Error)
    told = str(error)
    for said in (f"python: {what}: ", "data: " if what.startswith("data: ") else ""):
        if ours and said and told.startswith(said):
            told = told[len(said):]
    message = f"{what}: {told}" if ours else f"{what}: {type(error).__name__}: {told}"
    kind = error.status if isinstance(error, Error) else "QG_EDATA"
    return int(lib.qg_fail(ctx, getattr(lib, kind), b"%s", encode(message)))


# --- work ---


class Progress:
    """Shows progress by tqdm where it is installed, and ends cancelled work."""

    def __init__(self) -> None:
        """Nothing is shown before half a second of work."""
        self.canceled = False
        self._bar: Any = None
        self._stage = ""
        self._tqdm: Any = None
        try:
            from tqdm.auto import tqdm

            self._tqdm = tqdm
        except ImportError:
            pass
        self._step = ffi.callback("int(void *, char *, size_t, size_t)", self._see, 1)
        self.c = ffi.new("qg_progress *", {"step": self._step})

    def _see(self, _ud: Any, stage: Any, done: int, total: int) -> int:
        if self._tqdm is not None and done:
            self._show(text(stage), done, total)
        return int(self.canceled)

    def _show(self, stage: str, done: int, total: int) -> None:
        if self._bar is None or stage != self._stage or total != (self._bar.total or 0):
            self.close()
            self._stage = stage
            self._bar = self._tqdm(
                total=total or None, desc=stage, delay=0.5, disable=None, leave=False
            )
        self._bar.update(done - self._bar.n)

    def close(self) -> None:
        """Remove what is shown."""
        if self._bar is not None:
            self._bar.close()
        self._bar = None


def work(run: Callable[[Progress], T]) -> T:
    """Call `run`, so that Ctrl-C ends it when the samples at work are done.

    Python handles signals in the main thread only, between its own instructions: there
    the work runs in a thread of its own.
    """
    progress = Progress()
    try:
        if threading.current_thread() is not threading.main_thread():
            return run(progress)
        return _beside(run, progress)
    finally:
        progress.close()


def _beside(run: Callable[[Progress], T], progress: Progress) -> T:
    result: list[T] = []
    raised: list[BaseException] = []

    done, begun = threading.Event(), threading.Lock()

    def body() -> None:
        if not begun.acquire(blocking=False):
            return  # started again, after an interrupt within start()
        try:
            result.append(run(progress))
        except BaseException as e:
            raised.append(e)
        finally:
            done.set()

    interrupted = started = False
    while not done.is_set():
        try:
            if not started:
                threading.Thread(target=body, name="quantgraph", daemon=True).start()
                started = True
            done.wait()
        except KeyboardInterrupt:
            interrupted = progress.canceled = True
    if interrupted:
        raise KeyboardInterrupt
    if raised:
        raise raised[0]
    return result[0]
