#!/usr/bin/env python3
"""mutate.py [--count N] [--seed N] [--only TEXT] [--tests TEXT] COVERAGE -- plants small
defects into engine and passes, one at a time, and counts those that a test notices.

COVERAGE is a build of tools/coverage.sh.  The sample is drawn with a fixed seed from all
places, before any test is chosen; the tests of a mutant are those that execute its line,
quickest first, each run alone in that build to see what it executes: first the suites in
C, then, for the mutants that they leave, the scripts.  Mutants are built from a copy of
the tree, so that the checkout stays as it is.

A mutant is killed when a test fails or runs too long; one that does not compile, or
compiles to the same code, is replaced by the next place.  Survivors are printed as a patch
of one line."""
import argparse
import hashlib
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

import check_source

ROOT = pathlib.Path(__file__).resolve().parents[1]
COUNT, SEED, SECONDS = 60, 20, 240  # mutants, and for the tests of one
BUILD = ["-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DQG_TESTS=ON"]
EDITS = [  # what, found in code, replacement
    ("boundary", r" < ", " <= "), ("boundary", r" <= ", " < "),
    ("boundary", r" > ", " >= "), ("boundary", r" >= ", " > "),
    ("negation", r" == ", " != "), ("negation", r" != ", " == "),
    ("logic", r" && ", " || "), ("logic", r" \|\| ", " && "),
    ("sign", r" \+ ", " - "), ("sign", r" - ", " + "),
    ("error ignored", r"^(\s+)QG_TRY\((.*)\);$",
     r"\1do { qg_status s_ = (\2); (void)s_; } while (0);"),
    ("statement lost", r"^(\s+)[\w>.\[\]*()-]+ = [^;]*;$", r"\1;"),
    ("condition", r"^(\s+(?:else )?)if \((.*)\)$", r"\1if (!(\2))"),
    ("value", r"return true;", "return false;"), ("value", r"return false;", "return true;"),
    ("value", r" = 0;", " = 1;"), ("value", r"return 0;", "return 1;"),
]


sound = set()  # tests that were seen to pass without a mutant


class Mutant:
    def __init__(self, path, line, what, old, new):
        self.path, self.line, self.what, self.old, self.new = path, line, what, old, new
        self.tests, self.tried, self.cut = [], 0, False

    def __str__(self):
        return f"{self.path}:{self.line}: {self.what}\n  -{self.old}\n  +{self.new}"


def places():
    """Every edit of every line of code."""
    made = []
    for path in check_source.files(".c"):
        if path.parts[0] not in ("engine", "passes"):
            continue
        text = (ROOT / path).read_text()
        code = check_source.only_code(text).splitlines()
        for number, (line, bare) in enumerate(zip(text.splitlines(), code), 1):
            if "assert" in bare or bare.startswith("#") or not bare.startswith(" "):
                continue
            for what, pattern, new in EDITS:
                for m in re.finditer(pattern, bare):
                    if line[m.start():m.end()] != bare[m.start():m.end()]:
                        continue  # a text or a comment lies in it
                    changed = line[:m.start()] + m.expand(new) + line[m.end():]
                    made.append(Mutant(str(path), number, what, line, changed))
    return made


def tests_of(build):
    """[(name, command, folder, environment)] of ctest."""
    out = subprocess.run(["ctest", "--test-dir", str(build), "--show-only=json-v1"],
                         capture_output=True, text=True, check=True).stdout
    for t in json.loads(out)["tests"]:
        p = {q["name"]: q["value"] for q in t["properties"]}
        env = dict(e.split("=", 1) for e in p.get("ENVIRONMENT", []))
        if "command" in t:
            yield t["name"], t["command"], p["WORKING_DIRECTORY"], env


def executed(gcda, build, kept):
    """(line, count) of the object whose counts were written below `kept`."""
    beside = kept / str(gcda.relative_to("/"))
    notes = gcda.with_suffix(".gcno")
    if not beside.exists() or not notes.exists():
        return
    if not beside.with_suffix(".gcno").exists():
        beside.with_suffix(".gcno").symlink_to(notes)
    out = subprocess.run(["gcov", "--json-format", "--stdout", str(beside)],
                         capture_output=True, cwd=build, check=False).stdout
    for text in out.splitlines():
        for f in json.loads(text)["files"]:
            if f["file"].endswith(gcda.name[:-5]):  # x.c.gcda of x.c
                for line in f["lines"]:
                    yield line["line_number"], line["count"]


def objects_of(build, path):
    """Counts of the copies of one file: plain, sanitized, of the arrays' library."""
    return [n.with_suffix(".gcda") for n in build.glob(f"CMakeFiles/*.dir/{path}.gcno")]


def coverage(build, tests, mutants, seconds):
    """Appends to mutant.tests: (seconds, name) of each test that executes its line."""
    objects = {m.path: objects_of(build, m.path) for m in mutants}
    for name, command, folder, env in tests:
        kept = pathlib.Path(tempfile.mkdtemp())
        start = time.monotonic()
        try:
            subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, check=False, timeout=seconds,
                           env={**os.environ, **env, "GCOV_PREFIX": str(kept)})
        except subprocess.TimeoutExpired:
            pass
        taken = time.monotonic() - start
        for path, gcdas in objects.items():
            lines = {n for g in gcdas for n, c in executed(g, build, kept) if c}
            for m in mutants:
                if m.path == path and m.line in lines:
                    m.tests.append((taken, name))
        shutil.rmtree(kept)


def copy_tree(to):
    for name in subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True,
                               check=True).stdout.split("\n"):
        if name and (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to / name, follow_symlinks=False)
    if (ROOT / ".venv").exists():
        (to / ".venv").symlink_to((ROOT / ".venv").resolve())
    subprocess.run(["cmake", "-S", str(to), "-B", str(to / "build"), *BUILD],
                   stdout=subprocess.DEVNULL, check=True)


def target_of(command):
    """The program to link for a test: its own, or qg for scripts."""
    name = pathlib.Path(command[0]).name
    return "qg" if name in ("python.sh", "bash") else f"tests/{name}"


def moved(test, build, tree):
    """A test of the coverage build as it is in the copy of the tree."""
    def move(text):
        return text.replace(str(build), str(tree / "build")).replace(str(ROOT), str(tree))

    name, command, folder, env = test
    return name, ([move(w) for w in command], move(folder),
                  {k: move(v) for k, v in env.items()})


def ninja(tree, *words):
    return subprocess.run(["ninja", "-C", str(tree / "build"), *words],
                          capture_output=True, text=True)


def code_of(tree, path):
    """A digest of the code of the plain copies of a file; None: it does not compile."""
    objects = re.findall(rf"^(\S+(?<!_san)\.dir/{re.escape(path)}\.o):",
                         ninja(tree, "-t", "targets", "all").stdout, re.M)
    if ninja(tree, *objects).returncode:
        return None
    return hashlib.sha256(b"".join((tree / "build" / o).read_bytes()
                                   for o in objects)).digest()


def write_line(tree, m, line):
    file = tree / m.path
    lines = file.read_text().splitlines(keepends=True)
    lines[m.line - 1] = line + "\n"
    file.write_text("".join(lines))


def is_real(tree, m):
    """Compiles, and to other code than the original."""
    before = code_of(tree, m.path)
    write_line(tree, m, m.new)
    after = code_of(tree, m.path)
    write_line(tree, m, m.old)
    return after is not None and after != before


def fails(tree, test, seconds):
    """Builds and runs a test in the copy: why it fails, or None."""
    command, folder, env = test
    if ninja(tree, target_of(command)).returncode:
        return "it does not compile"
    try:
        got = subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL, timeout=seconds,
                             env={**os.environ, **env})
    except subprocess.TimeoutExpired:
        return "time"
    return None if got.returncode in (0, 77) else f"status {got.returncode}"


def judge(tree, m, known, seconds):
    """The test that kills it, or None: all of its tests pass, or time is up.  A test that
    fails without the mutant, too, is no test: it is dropped from `known`."""
    end = time.monotonic() + seconds
    for taken, name in sorted(m.tests):
        if name not in known:
            continue
        write_line(tree, m, m.new)
        why = fails(tree, known[name], 10 * taken + 10)
        write_line(tree, m, m.old)
        if why and name not in sound:
            if fails(tree, known[name], 10 * taken + 10):
                print(f"{name} fails without a mutant, too: {why}", flush=True)
                del known[name]
                continue
            sound.add(name)
        if why:
            return f"{name} ({why})"
        if time.monotonic() > end:
            m.cut = True
            return None
    return None


def round_of(tree, left, tests, build, seconds):
    """The mutants that these tests leave alive."""
    for m in left:
        m.tests = []
    coverage(build, tests, left, seconds)
    known = dict(moved(t, build, tree) for t in tests)
    alive = []
    for m in left:
        killer = judge(tree, m, known, seconds)
        m.tried += len(m.tests)
        if killer:
            print(f"{m}\n  killed by {killer}", flush=True)
        else:
            alive.append(m)
    return alive


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--only", default="", help="paths with this text only")
    parser.add_argument("--tests", default="", help="regular expression of their names")
    parser.add_argument("--seconds", type=int, default=SECONDS)
    parser.add_argument("coverage", type=pathlib.Path)
    o = parser.parse_args()
    build = o.coverage.resolve()
    drawn = [m for m in places() if o.only in m.path]
    print(f"{len(drawn)} places, seed {o.seed}", flush=True)
    random.Random(o.seed).shuffle(drawn)
    tests = [t for t in tests_of(build) if re.search(o.tests, t[0])]
    scripts = [t for t in tests if t[0].startswith("scripts/")]
    suites = [t for t in tests if not t[0].startswith("scripts/")]
    with tempfile.TemporaryDirectory() as folder:
        tree = pathlib.Path(folder)
        copy_tree(tree)
        taken = []
        while len(taken) < o.count and drawn:
            m = drawn.pop(0)
            if is_real(tree, m):
                taken.append(m)
        alive = round_of(tree, taken, suites, build, o.seconds)
        alive = round_of(tree, alive, scripts, build, o.seconds) if alive else []
    killed = len(taken) - len(alive)
    print(f"\n{len(taken)} mutants, {killed} killed "
          f"({100 * killed / max(len(taken), 1):.0f} %), {len(alive)} survived")
    for m in alive:
        print(f"{m}\n  {m.tried} tests execute it"
              f"{', not all in time' if m.cut else ''}")
    return 1 if killed < 0.95 * len(taken) else 0


if __name__ == "__main__":
    sys.exit(main())
