#!/usr/bin/env python3
"""mutate.py [--count N] [--seed N] [--only TEXT] [--tests TEXT] COVERAGE -- plants small
defects into engine and passes, one at a time, and counts those that a test notices.

COVERAGE is a build of tools/coverage.sh.  The sample is drawn with a fixed seed from all
places, before any test is chosen; the tests of a mutant are those that execute its line,
quickest first, each run alone in that build to see what it executes.  Mutants are built
from a copy of the tree, so that the checkout stays as it is.

A mutant is killed when a test fails or runs too long; one that does not compile is
replaced by the next place.  Survivors are printed as a patch of one line."""
import argparse
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


class Mutant:
    def __init__(self, path, line, what, old, new):
        self.path, self.line, self.what, self.old, self.new = path, line, what, old, new

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


def coverage(build, mutants, seconds, wanted):
    """Appends to mutant.tests: (seconds, name) of each test that executes its line."""
    objects = {}
    for m in mutants:
        m.tests = []
        for gcno in build.glob(f"CMakeFiles/*.dir/{m.path}.gcno"):
            objects.setdefault(m.path, set()).add(gcno.with_suffix(".gcda"))
    for name, command, folder, env in tests_of(build):
        if not re.search(wanted, name):
            continue
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


def judge(tree, m, known, seconds):
    """"killed by X", "survived", or "invalid"."""
    file = tree / m.path
    text = file.read_text()
    lines = text.splitlines(keepends=True)
    lines[m.line - 1] = m.new + "\n"
    file.write_text("".join(lines))
    end = time.monotonic() + seconds
    try:
        for taken, name in sorted(m.tests):
            command, folder, env = known[name]
            built = subprocess.run(["ninja", "-C", str(tree / "build"), target_of(command)],
                                   capture_output=True, text=True)
            if built.returncode:
                return "invalid"
            try:
                got = subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL,
                                     stderr=subprocess.DEVNULL, timeout=10 * taken + 10,
                                     env={**os.environ, **env})
            except subprocess.TimeoutExpired:
                return f"killed by {name} (time)"
            if got.returncode not in (0, 77):
                return f"killed by {name}"
            if time.monotonic() > end:
                return f"survived ({seconds} s of its {len(m.tests)} tests)"
        return f"survived ({len(m.tests)} tests)"
    finally:
        file.write_text(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--only", default="", help="paths with this text only")
    parser.add_argument("--tests", default="", help="regular expression of their names")
    parser.add_argument("--seconds", type=int, default=SECONDS)
    parser.add_argument("coverage", type=pathlib.Path)
    o = parser.parse_args()
    drawn = [m for m in places() if o.only in m.path]
    print(f"{len(drawn)} places, seed {o.seed}", flush=True)
    random.Random(o.seed).shuffle(drawn)
    drawn = drawn[:o.count + o.count // 4]
    coverage(o.coverage.resolve(), drawn, o.seconds, o.tests)
    killed, survived = 0, []
    with tempfile.TemporaryDirectory() as folder:
        tree = pathlib.Path(folder)
        copy_tree(tree)
        build = o.coverage.resolve()
        known = dict(moved(t, build, tree) for t in tests_of(build))
        for m in drawn:
            if killed + len(survived) == o.count:
                break
            verdict = judge(tree, m, known, o.seconds)
            print(f"{m}\n  {verdict}", flush=True)
            killed += verdict.startswith("killed")
            if verdict.startswith("survived"):
                survived.append(m)
    tried = killed + len(survived)
    print(f"\n{tried} mutants, {killed} killed ({100 * killed / max(tried, 1):.0f} %), "
          f"{len(survived)} survived", *survived, sep="\n")
    return 1 if tried and killed < 0.95 * tried else 0


if __name__ == "__main__":
    sys.exit(main())
