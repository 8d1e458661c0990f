#!/usr/bin/env python3
"""The library inside other programs: QG_BUILD is installed into a folder that is then
moved, and used as by other projects: C, C++, static links, CMake projects, the
component `arrays` alone, our own command line, and clients that were compiled
against options with fewer or with more members."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from command import EVERYTHING

BUILD = pathlib.Path(os.environ.get("QG_BUILD", "build")).absolute()
SANITIZED = pathlib.Path("build-sanitized/libqg.a").absolute()
SOURCE = pathlib.Path("tests/support/installed").absolute()
PAGE = pathlib.Path("docs/embedding.md")
CONSOLE = re.compile(r"^```console\n\$ (\w+)([^\n]*)\n(.*?)^```", re.M | re.S)
TOOLS = sorted(map(str, pathlib.Path("tools").absolute().glob("*.c")))
STRICT = ["-Wall", "-Wextra", "-Werror"]
C, CPP = ["cc", "-std=c11", *STRICT], ["c++", "-std=c++17", *STRICT]
ADDRESS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g"]
OPTIONS = re.compile(r"struct (\w+_options) \{(\s*size_t size;.*?\n)\}", re.S)


def run(*command, **more):
    """The output of a command; a failure ends the test."""
    got = subprocess.run([str(c) for c in command], text=True, capture_output=True, **more)
    if got.returncode:
        sys.exit(f"{' '.join(map(str, command))}: exit {got.returncode}\n"
                 f"{got.stdout}{got.stderr}")
    return got.stdout


def install(folder, *more):
    """Installs below folder, moves it, and returns where it is then."""
    first, second = folder / "first", folder / "moved" / "there"
    run("cmake", "--install", BUILD, "--prefix", first, *more)
    second.parent.mkdir(parents=True)
    first.rename(second)
    return second


class Copy:
    """An installed copy, and how to build and run programs with it."""

    def __init__(self, prefix, package):
        self.prefix, self.package = prefix, package
        self.libraries = next(prefix.rglob("lib*.so")).parent
        self.include = prefix / "include" / "quantgraph"
        self.config = prefix / "share" / "quantgraph"
        self.env = {**os.environ, "LD_LIBRARY_PATH": str(self.libraries),
                    "PKG_CONFIG_PATH": str(self.libraries / "pkgconfig")}
        self.work = prefix.parent / "work"
        self.work.mkdir()
        (self.work / "configs").symlink_to(self.config)

    def flags(self, *what):
        return run("pkg-config", *what, self.package, env=self.env).split()

    def build(self, compiler, name, *sources):
        """Compiles in the working folder, outside the source tree."""
        run(*compiler, "-o", name, *sources, cwd=self.work)
        return self.work / name

    def run(self, *command):
        return run(*command, env=self.env, cwd=self.work)


def headers_stand_alone(copy):
    for header in sorted(copy.include.glob("*.h")):
        for compiler, language in ((C, "c"), (CPP, "c++")):
            run(*compiler, "-pedantic", "-fsyntax-only", "-x", language, header,
                cwd=copy.work)
    for style in ("<quantgraph/qg.h>", "<qg.h>"):
        run(*C, "-fsyntax-only", *copy.flags("--cflags"), "-x", "c", "-",
            input=f"#include {style}\n")
    paths = [str(p) for p in copy.include.rglob("*") if p.is_dir()]
    nested = [str(p) for p in copy.include.glob("*.h") if '#include "engine/' in p.read_text()]
    assert not paths and not nested, f"headers are not flat: {paths} {nested}"
    return f"{len(list(copy.include.glob('*.h')))} headers as C11 and C++17"


def nothing_names_the_first_prefix(copy):
    for file in [*copy.prefix.rglob("*.pc"), *copy.prefix.rglob("*.cmake")]:
        text = file.read_text()
        for place in (str(BUILD), os.getcwd(), str(copy.prefix.parent.parent / "first")):
            assert place not in text, f"{file}: names {place}"


def snapshot(copy, program, name):
    copy.run(program, copy.config, name)
    for file in ("model.onnx", "quant.json"):
        assert (copy.work / name / file).stat().st_size, f"{program} wrote no {file}"


def c_programs(copy):
    flags = copy.flags("--cflags", "--libs")
    snapshot(copy, copy.build(C, "user", SOURCE / "main.c", *flags), "shared")
    # libqg.a, with the libraries that it needs; the compiler prefers a .so of its name.
    static = [f if f != "-lqg" else "-l:libqg.a"
              for f in copy.flags("--cflags", "--libs", "--static")]
    program = copy.build(C, "user-static", SOURCE / "main.c", *static)
    assert "libqg" not in run("ldd", program), "linked to libqg.so"
    snapshot(copy, program, "static")
    plus = copy.build(CPP, "plus", SOURCE / "main.cc", *flags)
    assert "trt-int8" in copy.run(plus, copy.config)
    return "C, static C, C++"


def same(got, expected, limit):
    """Equal words, and numbers within the limit: kernels differ from machine to machine."""
    got, expected = got.split(), expected.split()
    if len(got) != len(expected):
        return False
    for a, b in zip(got, expected):
        try:
            if abs(float(a) - float(b)) > limit * abs(float(b)):
                return False
        except ValueError:
            if a != b:
                return False
    return True


def examples(copy, compiler=C, libraries=None):
    """The programs of docs/embedding.md, built from the installed sources, run as the page
    shows, and printing what it shows."""
    sources = next(copy.prefix.rglob("examples"))
    told = {m[1]: (m[2].split(), m[3]) for m in CONSOLE.finditer(PAGE.read_text())}
    there = {p.stem for p in sources.glob("*.c")}
    assert told.keys() == there, f"{PAGE} runs {sorted(told)}, installed are {sorted(there)}"
    flags = copy.flags("--cflags", "--libs") if libraries is None else libraries
    for name, (arguments, expected) in told.items():
        program = copy.build(compiler, name, sources / f"{name}.c", *flags, "-lm")
        got = copy.run(program, *arguments)
        limit = 0.2 if name == "tune" else 0.01  # steps that learn enlarge last bits
        assert same(got, expected, limit), f"{name} {arguments} printed\n{got}not\n{expected}"
    return f"{len(told)} programs of {PAGE} by {compiler[0]}"


def sanitized_examples(copy):
    """The same, program and library with AddressSanitizer and UBSan; with QG_ALL=1."""
    if not SANITIZED.exists():
        return "no sanitized library: tools/check.sh makes it"
    flags = [f for f in copy.flags("--cflags", "--libs", "--static") if f != "-lqg"]
    return examples(copy, ["clang", *C[1:], *ADDRESS], [SANITIZED, *flags])


def cmake_project(copy):
    copy.run("cmake", "-S", SOURCE, "-B", "project", "-DCMAKE_BUILD_TYPE=Release",
             f"-DCMAKE_PREFIX_PATH={copy.prefix}")
    copy.run("cmake", "--build", "project")
    project = copy.work / "project"
    snapshot(copy, project / "shared", "cmake-shared")
    snapshot(copy, project / "static", "cmake-static")
    copy.run(project / "plus", copy.config)
    copy.run(project / "arrays")
    copy.run(project / "arrays_static")
    return "a CMake project"


def command_line(copy):
    """Our own tools, with the installed headers and libqg.so."""
    program = copy.build([*C, "-D_DEFAULT_SOURCE", "-D_POSIX_C_SOURCE=200809L"], "tool",
                         *TOOLS, *copy.flags("--cflags", "--libs"))
    assert "libqg.so" in run("ldd", program, env=copy.env)
    for tool in (program, copy.prefix / "bin" / "qg"):
        listed = copy.run(tool, "list", "backends", "--config-dir", copy.config)
        assert "trt-int8" in listed, f"{tool} list backends lacks trt-int8"
    beside = copy.config / "backends" / "beside.yaml"  # in the moved folder alone
    beside.write_text("name: beside\ntitle: beside the library\nextends: trt-int8\n")
    by_name = {**copy.env, "PATH": f"{copy.prefix / 'bin'}:{os.environ['PATH']}"}
    for tool in (program, copy.prefix / "bin" / "qg", "qg"):
        listed = run(tool, "list", "backends", env=by_name, cwd=copy.work)
        assert "beside" in listed, f"{tool} does not find {copy.config} beside the library"
    beside.unlink()
    model, data = copy.config / "models/digits.onnx", copy.config / "data/digits_calib.npy"
    copy.run(program, "quantize", model, "-b", "trt-int8", "-d", data, "-o", "snap",
             "--config-dir", copy.config)
    assert "Conv" in copy.run(program, "dump", "snap", "--config-dir", copy.config)
    return "the command line on libqg.so"


def members(body):
    """The members of a struct, without comments."""
    plain = re.sub(r"/\*.*?\*/", "", body, flags=re.S)
    return [m.strip() for m in plain.split(";") if m.strip()]


def other_headers(copy, name, change):
    """A copy of the headers with `change` applied to every struct of options."""
    folder, count = copy.work / name, 0
    shutil.copytree(copy.include, folder)
    for header in folder.glob("*.h"):
        text, n = OPTIONS.subn(lambda m: "struct " + m[1] + " {\n" + "".join(
            f"    {member};\n" for member in change(members(m[2]))) + "}", header.read_text())
        count += n
        header.write_text(text)
    assert count >= 10, f"{count} structs of options found, expected at least 10"
    return folder, count


def older(found):
    """Without the last two; size and one more must stay."""
    return found[:max(2, len(found) - 2)]


def newer(found):
    return [*found, "const void *extra[2]", "char future[8]"]


def other_clients(copy):
    libraries = copy.flags("--libs")
    old, count = other_headers(copy, "old", older)
    program = copy.build([*C, *ADDRESS], "old-client", f"-I{old}", SOURCE / "options.c",
                         *libraries)
    assert copy.run(program, copy.config, "old-snapshot") == "ok\n"
    new, _ = other_headers(copy, "new", newer)
    program = copy.build([*C, *ADDRESS], "new-client", "-DQG_FUTURE", f"-I{new}",
                         SOURCE / "options.c", *libraries)
    assert copy.run(program, copy.config, "new-snapshot") == "ok\n"
    assert copy.run(program, copy.config, "set-snapshot", "set") == "ok\n"
    return f"clients with older and newer versions of {count} structs"


def arrays_alone(copy):
    there = {p.name for p in copy.libraries.glob("lib*")}
    assert not {n for n in there if n.startswith("libqg.")}, f"more than arrays: {there}"
    assert not (copy.include / "qg.h").exists(), "qg.h is installed with arrays"
    flags = copy.flags("--cflags", "--libs")
    copy.run(copy.build(C, "arrays", SOURCE / "arrays.c", *flags))
    needed = run("readelf", "-d", copy.libraries / "libqg_arrays.so")
    foreign = set(re.findall(r"NEEDED.*\[(lib\w+)", needed)) - {"libm", "libc"}
    assert not foreign, f"libqg_arrays.so needs {foreign}"
    told = run(sys.executable, "tests/scripts/test_docs.py", "docs/arrays.md", *flags, "-lm",
               env=copy.env)
    return f"arrays alone: {told.strip()}"


def main():
    if not all(map(shutil.which, ("cc", "c++", "cmake", "pkg-config"))):
        print("no compiler, cmake or pkg-config")
        return 77
    if re.search(r"QG_(ASAN|TSAN|COVERAGE):BOOL=ON", (BUILD / "CMakeCache.txt").read_text()):
        print("instrumented: programs of others need the same flags")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder).resolve()
        copy = Copy(install(folder / "all"), "quantgraph")
        nothing_names_the_first_prefix(copy)
        for step in (headers_stand_alone, c_programs, examples, cmake_project, command_line,
                     other_clients, *([sanitized_examples] if EVERYTHING else [])):
            print(step(copy))
        alone = Copy(install(folder / "arrays", "--component", "arrays"),
                     "quantgraph-arrays")
        print(arrays_alone(alone))
    return 0


sys.exit(main())
