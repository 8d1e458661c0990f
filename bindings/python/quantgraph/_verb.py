"""Runs verbs of the command in this process: what the functions of _verbs.py call."""

from __future__ import annotations

import contextlib
import json
import os
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Union

import numpy as np

from ._data import Source, inputs_of, named
from ._extend import Extension, registered
from ._model import Model, Snapshot, load, open_model, shape_words
from ._native import (
    ConfigError,
    Context,
    DataError,
    Progress,
    encode,
    ffi,
    lib,
    work,
)
from ._report import take

Text = Union[str, "os.PathLike[str]", int, float, "np.ndarray[Any, Any]", Extension, Model]
Texts = Union[str, Sequence[str]]
Config = Union[str, "os.PathLike[str]", Mapping[str, Any]]
Configs = Union[Config, Sequence[Config]]
Data = Any
File = Any
Extensions = Iterable[Extension]
#: options whose value may be the text of a configuration file, and their folders
FOLDERS = {"backend": "backends", "policy": "policies", "profile": "profiles"}
#: options that name a file of numbers: a list stands for one
ARRAYS = ("labels",)
#: options that name samples: a dict has an array for each input
SAMPLES = ("holdout",)
SUBVERBS = {"stats"}  # their first word is not a file
#: options of verbs that read the file of a model themselves
READ_AS_FILES = {("import", "model")}
UNNAMED = "python"  # a configuration without a name
ONE_LINE = re.compile(r"\s*(\{|[-+]?[a-z-]+: )")  # "rules: [...]", no path
NAME = re.compile(r"^name:\s*[\"']?([\w.-]+)", re.M)


def plain(value: Any) -> Any:
    """Numbers and arrays of numpy, and paths, in a dict of a configuration."""
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, (set, tuple)):
        return sorted(value)
    if isinstance(value, Extension):
        return value.name
    raise ConfigError(
        f"configuration: {value!r}, expected what YAML has: text, numbers, lists, dicts"
    )


def is_array(value: Any) -> bool:
    """Of numpy, or a tensor of torch."""
    return isinstance(value, np.ndarray) or hasattr(value, "detach")


def config_text(value: Any) -> tuple[str, str] | None:
    """Name and text of a configuration given as dict or YAML; None: a name or path."""
    if isinstance(value, Mapping):
        name = str(value.get("name", UNNAMED))
        return name, json.dumps(value, ensure_ascii=False, default=plain)
    if isinstance(value, str) and ("\n" in value or ONE_LINE.match(value)):
        found = NAME.search(value)
        return found[1] if found else UNNAMED, value
    return None


class _Call:
    """One run: the words of its command line, and what they stand for."""

    def __init__(self, stack: contextlib.ExitStack, models: list[Model]) -> None:
        held = [m for m in models if isinstance(m, Snapshot)]
        self.ctx = held[0]._ctx if held else Context()
        self.stack = stack
        self.words: list[Any] = []
        self.models: list[tuple[Any, Any, Model]] = []  # word, handle, object
        self.opened: list[int] = []
        self.data: Any = None
        self.source: Source | None = None

    def word(self, text: str) -> Any:
        self.words.append(encode(text))
        return self.words[-1]

    def model(self, m: Model, shape: Sequence[str]) -> None:
        """A snapshot of this context as it is, other models opened for the call.

        A verb that makes a snapshot gets a copy, and the caller's stays as it is.
        """
        if isinstance(m, Snapshot) and m._ctx is self.ctx and self.verb not in MAKERS:
            m._changed()  # sessions need a model that stays as it is
            handle = m._handle
        else:
            for path, content in m._ctx.configs.items():
                self.ctx.config(path, content)
            handle, key = open_model(self.ctx, m._origin(), shape or m._shape)
            self.opened.append(key)
        self.models.append((self.word(f"(model {len(self.models)})"), handle, m))

    def temporary(self, name: str, ending: str) -> str:
        """A file that stands for an argument for the time of the call."""
        folder = self.stack.enter_context(tempfile.TemporaryDirectory())
        path = os.path.join(folder, name + ending)
        self.ctx.messages.names[path] = name
        self.stack.callback(self.ctx.messages.names.pop, path)
        return path

    def file(self, m: Model) -> str:
        """A model as an ONNX file for the time of the call."""
        origin = m._origin()
        if isinstance(origin, str):
            return origin
        path = self.temporary("model", ".onnx")
        with open(path, "wb") as f:
            f.write(m.to_onnx())
        return path

    def value(self, name: str, value: Any, shape: Sequence[str]) -> None:
        """One word: a text, a model, a configuration, or an array as a file."""
        if isinstance(value, Model):
            if (self.verb, name) not in READ_AS_FILES:
                self.model(value, shape)
                return
            value = self.file(value)
        if isinstance(value, Extension):
            self.ctx.extend(value)
            value = value.name
        written = config_text(value) if name in FOLDERS else None
        if written:
            path = f"{FOLDERS[name]}/{written[0]}.yaml"
            self.ctx.config(path, written[1])
            line = ":1:" if isinstance(value, Mapping) else ":"  # a dict has one
            self.ctx.messages.names[path + line] = (
                f"{name}:" if written[0] == UNNAMED else f"{name} '{written[0]}':")
            value = written[0]
        if name in ARRAYS and isinstance(value, (list, tuple)):
            value = np.asarray(value)
        file = isinstance(value, (str, os.PathLike))
        if name in SAMPLES and not (file or is_array(value)):
            path = self.temporary(name, ".npz")
            np.savez(path, **self.samples(name, value))
            value = path
        if is_array(value):
            path = self.temporary(name or "array", ".npy")
            np.save(path, np.asarray(value))
            value = path
        if isinstance(value, (list, tuple)):
            value = ",".join(map(str, value))
        self.word(os.fspath(value) if isinstance(value, os.PathLike) else str(value))

    def samples(self, name: str, value: Any) -> dict[str, Any]:
        """An array for each input: of a dict, or of an iterable of samples."""
        if isinstance(value, Mapping):
            return {str(k): np.asarray(v) for k, v in value.items()}
        feeds = [named(inputs_of(self.models[0][1]), feed) for feed in value]
        if not feeds:
            raise DataError(f"data: {name}: no sample, expected at least one")
        try:
            return {k: np.concatenate([f[k] for f in feeds]) for k in feeds[0]}
        except ValueError as e:
            raise DataError(f"data: {name}: {e}, expected samples of one size") from e

    def option(self, name: str, value: Any, shape: Sequence[str]) -> None:
        """--name and its value, once for each of a repeated one."""
        if value is None or value is False:
            return
        repeated = name in REPEATED.get(self.verb, ())
        single = isinstance(value, (str, Mapping, os.PathLike, Extension))
        for v in value if repeated and not single else [value]:
            self.word(f"--{name}")
            if value is not True:
                self.value(name, v, shape)

    verb = ""

    def feeds(self, data: Any) -> None:
        """--data: a string as on the command line, else samples in memory."""
        if data is None:
            return
        self.word("--data")
        if isinstance(data, (str, os.PathLike)):
            self.word(os.fspath(data))
            return
        if not self.models:
            raise ConfigError("data: arrays need a model, expected one as first file")
        inputs = inputs_of(self.models[0][1])
        self.source = Source(self.ctx, inputs, data)
        self.data = self.word("(arrays)")

    def run(self, progress: Progress) -> Any:
        argv = ffi.new("char *[]", self.words)
        lent = ffi.new("qg_verb_model[]", [(w, h) for w, h, _ in self.models])
        call = ffi.new("qg_verb_call *")
        call.argv, call.argc = argv, len(self.words)
        call.lent, call.n_lent = lent, len(self.models)
        call.progress = progress.c[0]
        if self.source is not None:
            call.source, call.data = self.source.c, self.data
        self.ctx.check(lib.qg_verb_run(self.ctx.ctx, call))
        return call

    def answer(self, call: Any) -> Any:
        """The report, or the snapshot that was made, with its report."""
        report = take(call.report)
        made = call.made
        if made == ffi.NULL and self.verb in MAKERS and self.opened:
            made = self.models[0][1]  # nothing was better: as it was
        if made == ffi.NULL:
            return report
        lent = [k for k in self.opened if self.ctx._owner.handles[k][0] == made]
        key = lent[0] if lent else self.ctx.own(made, lib.qg_model_close)
        self.opened = [k for k in self.opened if k != key]
        return Snapshot(self.ctx, made, key, report)


def _tables() -> tuple[dict[str, set[str]], set[str]]:
    """The options of each verb that may be given several times; the verbs that make
    a snapshot of their first file.
    """
    out: dict[str, set[str]] = {}
    makers = set()
    verb, option = ffi.new("qg_verb_record *"), ffi.new("qg_verb_option *")
    i = 0
    while lib.qg_verb_get(i, verb):
        names = out.setdefault(ffi.string(verb.name).decode(), set())
        k = 0
        while lib.qg_verb_option_get(i, k, option):
            if option.kind == lib.QG_VERB_TEXTS:
                names.add(ffi.string(option.name).decode())
            if option.argument and ffi.string(option.argument) == b"SNAPSHOT":
                makers.add(ffi.string(verb.name).decode())
            k += 1
        i += 1
    return out, makers


REPEATED, MAKERS = _tables()


def run_verb(
    verb: str, files: Sequence[Any], options: Mapping[str, Any], extend: Extensions
) -> Any:
    """Run a verb: its Report, or the Snapshot that it makes.

    Models among the files and options are lent to the library, arrays in place of DATA
    are read where they are, and other arrays become files for the time of the call.
    """
    extend = (extend,) if isinstance(extend, Extension) else extend
    data = options.get("data")
    path = verb not in SUBVERBS and files and isinstance(files[0], (str, os.PathLike))
    if path and not (data is None or isinstance(data, (str, os.PathLike))):
        files = (load(files[0], shape=shape_words(options.get("shape")),
                      extend=tuple(extend)), *files[1:])  # whose inputs arrays are for
    given = [v for v in files if isinstance(v, Model)]
    given += [v for name, v in options.items()
              if isinstance(v, Model) and (verb, name) not in READ_AS_FILES]
    shape = shape_words(options.get("shape"))
    if shape:
        options = {**options, "shape": shape}
    with contextlib.ExitStack() as stack:
        call = _Call(stack, given)
        call.verb = verb
        with call.ctx.lock.verb():
            try:
                for e in (*registered(), *extend):
                    call.ctx.extend(e)
                call.word(verb)
                for f in files:
                    call.value("", f, shape)
                call.feeds(options.get("data"))
                for name, value in options.items():
                    if name != "data":
                        call.option(name, value, shape)
                return call.answer(work(call.run))
            finally:
                for key in call.opened:
                    call.ctx.drop(key)
