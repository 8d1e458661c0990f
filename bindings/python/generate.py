#!/usr/bin/env python3
"""generate.py -- writes the two modules of the Python package that repeat the C library.

generate.py cdef --cc CC -I DIR... -o _cdef.py
    the declarations of the installed headers, for cffi in ABI mode
generate.py verbs --library LIBRARY -o _verbs.py
    one function for each verb of the command `qg`, from its table of options; _cdef.py
    is in the folder of the output"""
import argparse
import importlib.util
import keyword
import pathlib
import re
import subprocess
import tempfile
import textwrap

import cffi

HEADERS = ("qg.h", "qg_arrays.h", "verbs.h")
INLINE = re.compile(r"^static inline[^;{]*\{", re.M)


def without_bodies(text):
    """Without functions that headers define, which no library exports."""
    while (found := INLINE.search(text)):
        depth, end = 1, found.end()
        while depth:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        text = text[:found.start()] + text[end:]
    return text


def declarations(compiler, folders):
    """The headers after the preprocessor, without those of the system."""
    with tempfile.TemporaryDirectory() as empty:
        for folder in folders:
            for header in pathlib.Path(folder).glob("*.h"):
                for name in re.findall(r"#include <(.*)>", header.read_text()):
                    pathlib.Path(empty, name).touch()
        text = "".join(f'#include "{name}"\n' for name in HEADERS)
        run = subprocess.run(
            [compiler, "-E", "-P", "-nostdinc", "-D__attribute__(x)=", f"-I{empty}",
             *(f"-I{folder}" for folder in folders), "-x", "c", "-"],
            input=text, text=True, check=True, stdout=subprocess.PIPE)
    return without_bodies(run.stdout)


def write_cdef(args):
    """A module that cffi emits: no parser is needed at run time."""
    ffi = cffi.FFI()
    ffi.cdef(declarations(args.cc, args.include))
    ffi.set_source("quantgraph._cdef", None)
    ffi.emit_python_code(str(args.output))


def identifier(name):
    """A name of the command as one of Python: import-backend, import."""
    name = name.replace("-", "_")
    return name + "_" if keyword.iskeyword(name) else name


KINDS = {"QG_VERB_TEXT": "Text", "QG_VERB_TEXTS": "Texts", "QG_VERB_NUMBER": "int",
         "QG_VERB_FLAG": "bool"}


class Library:
    """The tables of verbs and options of a built library."""

    def __init__(self, cdef, library):
        spec = importlib.util.spec_from_file_location("_cdef", cdef)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        self.ffi, self.lib = module.ffi, module.ffi.dlopen(str(library))

    def text(self, p):
        return self.ffi.string(p).decode() if p else ""

    def rows(self, kind, get, *at):
        out = self.ffi.new(f"{kind} *")
        i = 0
        while get(*at, i, out):
            yield i, out
            i += 1

    def verbs(self):
        return self.rows("qg_verb_record", self.lib.qg_verb_get)

    def options(self, verb):
        for _, o in self.rows("qg_verb_option", self.lib.qg_verb_option_get, verb):
            kind = self.ffi.typeof("qg_verb_kind").elements[int(o.kind)]
            choice = [self.text(o.choice[k]) for k in range(o.n_choice)]
            yield dict(name=self.text(o.name), kind=kind, help=self.text(o.help),
                       argument=self.text(o.argument), required=bool(o.required),
                       choice=choice)


def annotation(option):
    """The type of an option's value."""
    if option["name"] == "data":
        return "Data"
    if option["name"] in ("backend", "policy", "profile"):
        return "Configs" if option["kind"] == "QG_VERB_TEXTS" else "Config"
    if option["choice"]:
        return "Literal[" + ", ".join(f'"{c}"' for c in option["choice"]) + "]"
    return KINDS[option["kind"]]


def parameter(option):
    if option["kind"] == "QG_VERB_FLAG":
        return f"{identifier(option['name'])}: bool = False"
    if option["required"]:
        return f"{identifier(option['name'])}: {annotation(option)}"
    return f"{identifier(option['name'])}: {annotation(option)} | None = None"


def function(library, index, verb):
    """The source text of one verb."""
    name, files = library.text(verb.name), library.text(verb.files)
    options = sorted(library.options(index), key=lambda o: not o["required"])
    parameters = ["*files: File", *map(parameter, options), "extend: Extensions = ()"]
    doc = [library.text(verb.summary).capitalize() + ".", "",
           f"files: {files or 'none'}"]
    doc += [f"{identifier(o['name'])}: {o['help']}" for o in options]
    if verb.about:
        doc += ["", *library.text(verb.about).splitlines()]
    doc += ["", "On the command line: " + library.text(verb.example)]
    body = textwrap.indent("\n".join(doc).replace("\\", "\\\\"), "    ")
    values = ", ".join(f'"{o["name"]}": {identifier(o["name"])}' for o in options)
    return (f"def {identifier(name)}(\n    " + ",\n    ".join(parameters)
            + ",\n) -> Any:\n" + f'    """{body.strip()}"""\n'
            + textwrap.fill(f'return run_verb("{name}", files, {{{values}}}, extend)',
                            100, initial_indent="    ", subsequent_indent="        ",
                            break_long_words=False, break_on_hyphens=False) + "\n")


HEAD = '''"""The verbs of the command `qg` (made by generate.py from its tables)."""
# ruff: noqa
from __future__ import annotations

from typing import Any, Literal

from ._verb import Config, Configs, Data, Extensions, File, Text, Texts, run_verb

'''
HIDDEN = {"completion", "help", "version"}  # Python has its own
# A Model has the report of the verb that made it: the verb stays a function.
TAKEN = {"report"}
SUBJECT = re.compile(r"(MODEL|SNAPSHOT|FIRST)")


def write_verbs(args):
    library = Library(args.output.parent / "_cdef.py", args.library)
    texts, names, methods = [HEAD], [], []
    for i, verb in library.verbs():
        name = library.text(verb.name)
        if name in HIDDEN:
            continue
        texts.append(function(library, i, verb))
        names.append(identifier(name))
        if SUBJECT.match(library.text(verb.files)) and name not in TAKEN:
            methods.append(identifier(name))
    texts.append("class Verbs:\n"
                 '    """The verbs whose first file is a model, as its methods."""\n\n'
                 + "".join(f"    {name} = {name}\n" for name in methods))
    texts.append("__all__ = [\n" + "".join(f'    "{n}",\n' for n in sorted(names))
                 + "]\n")
    args.output.write_text("\n\n".join(texts))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["cdef", "verbs"])
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True)
    parser.add_argument("-I", "--include", action="append", default=[])
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--library", type=pathlib.Path)
    args = parser.parse_args()
    args.output.parent.mkdir(parents=True, exist_ok=True)
    write_cdef(args) if args.what == "cdef" else write_verbs(args)


main()
