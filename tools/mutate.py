#!/usr/bin/env python3
"""mutate.py [--count N] [--seed N] [--only TEXT] [--tests TEXT] COVERAGE -- plants small
defects into engine and passes, one at a time, and counts those that a test notices.

COVERAGE is a build of tools/coverage.sh, which keeps what each test has executed and how
long it took.  The sample is drawn before any test is chosen: places are ordered by a
digest of the seed and of their text, so that edits elsewhere leave the sample as it is.
The tests of a mutant are those that execute its line, first the suites in C, then, for the
mutants that these leave, the scripts; suites named as the file come first, then the
quickest.  Mutants are built in COVERAGE/mutants, a copy of the tree that is kept: a
mutant costs one object, the programs of the tests that it is tried on and their runs.

A mutant is killed when a test fails or runs too long; one that does not compile, or
compiles to the same code, is replaced by the next place.  tests/survivors.json lists the
mutants that no test can notice, each with the reason; they are drawn and counted, but not
tried.  Other survivors are printed as a patch of one line.

--only judges the mutants of the sample whose path:line or text contains TEXT."""
import argparse
import collections
import filecmp
import functools
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import check_source

ROOT = pathlib.Path(__file__).resolve().parents[1]
LISTED = ROOT / "tests/survivors.json"
COUNT, SEED, SECONDS = 60, 20, 100  # mutants, and for the suites or scripts of one
MEMORY = ":hard_rss_limit_mb=6000"  # a mutant may allocate without end
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
        self.tests, self.tried, self.cut, self.number = [], 0, False, 0

    def __str__(self):
        return (f"{self.number}. {self.path}:{self.line}: {self.what}\n"
                f"  -{self.old}\n  +{self.new}")

    def key(self):
        return self.path, self.old.strip(), self.new.strip()


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


def drawn(seed):
    """All places in the order in which this seed draws them."""
    met = collections.Counter()  # the same line may occur more than once in a file

    def rank(m):
        met[m.key()] += 1
        text = f"{seed} {m.key()} {met[m.key()]}"
        return hashlib.sha256(text.encode()).digest()

    return sorted(places(), key=rank)


def tests_of(build):
    """name -> (seconds, command, folder, environment) of the tests of ctest that ran."""
    out = subprocess.run(["ctest", "--test-dir", str(build), "--show-only=json-v1"],
                         capture_output=True, text=True, check=True).stdout
    costs = (build / "Testing/Temporary/CTestCostData.txt").read_text()
    seconds = {w[0]: float(w[2]) for w in map(str.split, costs.splitlines()) if len(w) == 3}
    made = {}
    for t in json.loads(out)["tests"]:
        p = {q["name"]: q["value"] for q in t["properties"]}
        env = dict(e.split("=", 1) for e in p.get("ENVIRONMENT", []))
        env.pop("GCOV_PREFIX", None)
        if "command" in t and t["name"] in seconds:
            made[t["name"]] = (seconds[t["name"]], t["command"], p["WORKING_DIRECTORY"], env)
    return made


def executed(build, name, paths):
    """path -> lines that a test has executed, of these files, in any of their copies:
    plain, sanitized, of the library of arrays."""
    kept = build / "counts" / name
    counted = [g for p in paths for g in kept.rglob(f"{p}.gcda")]
    for gcda in counted:
        notes = gcda.with_suffix(".gcno")
        if not notes.exists():
            notes.symlink_to(pathlib.Path("/") / notes.relative_to(kept))
    if not counted:
        return {}
    out = subprocess.run(["gcov", "--json-format", "--stdout", *map(str, counted)],
                         capture_output=True, cwd=build, check=False).stdout
    lines = collections.defaultdict(set)
    for text in out.splitlines():
        for f in json.loads(text)["files"]:
            path = os.path.relpath(os.path.join(build, f["file"]), ROOT)
            lines[path].update(n["line_number"] for n in f["lines"] if n["count"])
    return lines


def choose(build, tests, mutants):
    """mutant.tests: the names of the tests that execute its line, in order."""
    paths = sorted({m.path for m in mutants})
    for m in mutants:
        m.tests = []
    for name in tests:
        lines = executed(build, name, paths)
        for m in mutants:
            if m.line in lines.get(m.path, ()):
                m.tests.append(name)
    for m in mutants:
        stem = pathlib.Path(m.path).stem
        m.tests.sort(key=lambda n, stem=stem: (stem not in n, tests[n][0]))


def copy_tree(to):
    """Makes `to` a copy of the checkout; files that are alike stay untouched."""
    names = subprocess.run(["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=ROOT,
                           capture_output=True, text=True, check=True).stdout.split("\0")
    names = {n for n in names if n and (ROOT / n).is_file()}
    to.mkdir(exist_ok=True)
    for file in [f for f in to.rglob("*") if f.is_file() and not f.is_symlink()]:
        name = file.relative_to(to)
        if name.parts[0] != "build" and str(name) not in names:
            file.unlink()
    for name in names:
        if not (to / name).exists() or not filecmp.cmp(ROOT / name, to / name, False):
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, to / name, follow_symlinks=False)
    if (ROOT / ".venv").exists() and not (to / ".venv").exists():
        (to / ".venv").symlink_to((ROOT / ".venv").resolve())
    quick = ["-DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=lld",
             "-DCMAKE_SHARED_LINKER_FLAGS=-fuse-ld=lld"] if shutil.which("ld.lld") else []
    subprocess.run(["cmake", "-S", str(to), "-B", str(to / "build"), *BUILD, *quick],
                   stdout=subprocess.DEVNULL, check=True)


def target_of(command):
    """The program to link for a test: its own, or qg for scripts."""
    name = pathlib.Path(command[0]).name
    return "qg" if name in ("python.sh", "bash") else f"tests/{name}"


def moved(test, build, tree):
    """A test of the coverage build as it is in the copy of the tree."""
    def move(text):
        return text.replace(str(build), str(tree / "build")).replace(str(ROOT), str(tree))

    seconds, command, folder, env = test
    env = {k: move(v) for k, v in env.items()}
    env["ASAN_OPTIONS"] = env.get("ASAN_OPTIONS", "") + MEMORY
    return seconds, [move(w) for w in command], move(folder), env


def ninja(tree, *words):
    return subprocess.run(["ninja", "-C", str(tree / "build"), *words],
                          capture_output=True, text=True)


def code_of(tree, path):
    """A digest of the code of the plain copies of a file; None: it does not compile."""
    suffix = f"/{path}.o"
    objects = [o for o in plain_objects(tree) if o.endswith(suffix)]
    if ninja(tree, *objects).returncode:
        return None
    return hashlib.sha256(b"".join((tree / "build" / o).read_bytes()
                                   for o in objects)).digest()


@functools.cache
def plain_objects(tree):
    return re.findall(r"^(\S+(?<!_san)\.dir/\S+\.o):",
                      ninja(tree, "-t", "targets", "all").stdout, re.M)


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


def fails(tree, test):
    """Builds and runs a test in the copy: why it fails, or None."""
    seconds, command, folder, env = test
    if ninja(tree, target_of(command)).returncode:
        return "it does not compile"
    run = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL, start_new_session=True,
                           env={**os.environ, **env})
    try:
        status = run.wait(10 * seconds + 10)
    except subprocess.TimeoutExpired:
        os.killpg(run.pid, signal.SIGKILL)
        run.wait()
        return "time"
    return None if status in (0, 77) else f"status {status}"


def judge(tree, m, known, seconds):
    """The test that kills it, or None: all of its tests pass, or time is up.  A test that
    fails without the mutant, too, is no test: it is dropped from `known`."""
    end = time.monotonic() + seconds
    for name in m.tests:
        if name not in known:
            continue
        if time.monotonic() > end:
            m.cut = True
            return None
        m.tried += 1
        write_line(tree, m, m.new)
        why = fails(tree, known[name])
        write_line(tree, m, m.old)
        if why and name not in sound:
            if fails(tree, known[name]):
                print(f"{name} fails without a mutant, too: {why}", flush=True)
                del known[name]
                continue
            sound.add(name)
        if why:
            return f"{name} ({why})"
    return None


def round_of(tree, left, tests, build, seconds):
    """The mutants that these tests leave alive."""
    choose(build, tests, left)
    known = {name: moved(t, build, tree) for name, t in tests.items()}
    alive = []
    for m in left:
        start = time.monotonic()
        killer = judge(tree, m, known, seconds)
        ending = (f"killed by {killer}" if killer else
                  f"left by {m.tried} tests" + (", time is up" if m.cut else ""))
        print(f"{m}\n  {ending}, {time.monotonic() - start:.0f} s", flush=True)
        if not killer:
            alive.append(m)
    return alive


def sample(tree, seed, count):
    """The first mutants of the seed that compile to other code."""
    taken = []
    for m in drawn(seed):
        if len(taken) == count:
            break
        if is_real(tree, m):
            m.number = len(taken) + 1
            taken.append(m)
    return taken


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--only", default="", help="mutants with this text only")
    parser.add_argument("--tests", default="", help="regular expression of their names")
    parser.add_argument("--seconds", type=int, default=SECONDS)
    parser.add_argument("coverage", type=pathlib.Path)
    o = parser.parse_args()
    build = o.coverage.resolve()
    tests = {n: t for n, t in tests_of(build).items() if re.search(o.tests, n)}
    scripts = {n: t for n, t in tests.items() if n.startswith("scripts/")}
    suites = {n: t for n, t in tests.items() if n not in scripts}
    tree = build / "mutants"
    copy_tree(tree)
    listed = {(r["path"], r["old"], r["new"]): r["reason"]
              for r in json.loads(LISTED.read_text())}
    taken = [m for m in sample(tree, o.seed, o.count) if o.only in str(m)]
    alive = [m for m in taken if m.key() not in listed]
    alive = round_of(tree, alive, suites, build, o.seconds)
    alive = round_of(tree, alive, scripts, build, o.seconds)
    reasons = [m for m in taken if m.key() in listed]
    killed, able = len(taken) - len(alive) - len(reasons), len(taken) - len(reasons)
    print(f"\nseed {o.seed}: {len(taken)} mutants, {killed} killed; {len(reasons)} survive "
          f"with a reason, {len(alive)} without: {100 * killed / max(able, 1):.1f} % killed "
          "of those that a test can notice")
    for m in reasons:
        print(f"{m}\n  {listed[m.key()]}")
    for m in alive:
        print(f"{m}\n  {m.tried} tests pass{', not all were tried' if m.cut else ''}")
    return 1 if killed < 0.95 * able else 0


if __name__ == "__main__":
    sys.exit(main())
