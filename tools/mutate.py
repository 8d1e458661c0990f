#!/usr/bin/env python3
"""mutate.py [--count N] [--seed N] [--only TEXT] [--tests TEXT] [--jobs N] COVERAGE --
plants small defects into engine and passes, one at a time, and counts those that a test
notices.

COVERAGE is a build of tools/coverage.sh, in the root of a checkout of this commit, which
keeps what each test has executed and how long it took.  The sample is drawn before any test
is chosen: places are ordered by a digest of the seed and of their text, so that edits
elsewhere leave the sample as it is.
The tests of a mutant are those that execute its line, first the suites in C, then, for the
mutants that these leave, the scripts; suites named as the file come first, then
those that execute most of the file for the time they take, until they have taken
--seconds together, and test_recorded, which has the output of every verb.

A mutant costs one object and a library, or a program that is linked with it in front of the
library, of three builds of this checkout that are made and kept in build-mutants: plain, for
scripts and test_recorded_X, sanitized, for other suites, and counted, for test_places_X with
all places: with sanitizers they would take a part of them.  So mutants do not disturb each other, and --jobs of
them are tried at once.

A mutant is killed when a test fails or runs too long; one that does not compile, or
compiles to the same code, is replaced by the next place.  tests/survivors.json lists the
mutants that no test can notice, each with the reason, and the next line where the same one
occurs again; they are drawn and counted, but not tried.  Other survivors are printed as a
patch of one line.

--only judges the mutants of the sample whose "number. path:line" or text has a match of TEXT,
a regular expression."""
import argparse
import collections
import concurrent.futures
import functools
import hashlib
import itertools
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading

import check_source

ROOT = pathlib.Path(__file__).resolve().parents[1]
LISTED = ROOT / "tests/survivors.json"
BUILD = ROOT / "build-mutants"
COUNT, SEED, SECONDS = 60, 20, 300  # mutants, and for the suites or scripts of one
BROADEST = "scripts/test_recorded"
PLACES = "prop/test_places_"  # suites that come first for errors that are ignored
RECORDED = {p.stem for p in (ROOT / "tests/prop").glob("test_recorded_*.c")}
MEMORY = ":hard_rss_limit_mb=6000"  # a mutant may allocate without end
COMMON = ["-S", str(ROOT), "-G", "Ninja"]
BUILDS = {  # folder of BUILD -> options, target; sanitized: as in tools/check.sh
    "plain": (["-DCMAKE_BUILD_TYPE=Release", "-DQG_TESTS=ON"], "all"),
    "sanitized": (["-DCMAKE_C_COMPILER=clang", "-DCMAKE_BUILD_TYPE=None",
                   "-DQG_ASAN=ON", "-DQG_TESTS=ON"], "qg_shared"),
    # as in tools/coverage.sh: test_places_X needs little optimization
    "counted": (["-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_C_FLAGS_RELEASE=-O1 -DNDEBUG",
                 "-DQG_COVERAGE=ON", "-DQG_TESTS=ON"], "qg_static"),
}
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


building = threading.Lock()  # one ninja at a time
sound = {}  # test -> it was seen to pass without a mutant


class Mutant:
    def __init__(self, path, line, what, old, new, behind):
        self.path, self.line, self.what, self.old, self.new = path, line, what, old, new
        self.behind = behind.strip()  # the next line
        self.tests, self.tried, self.cut, self.number, self.folder = [], 0, False, 0, None

    def __str__(self):
        return (f"{self.number}. {self.path}:{self.line}: {self.what}\n"
                f"  -{self.old}\n  +{self.new}")

    def key(self):
        return self.path, self.old.strip(), self.new.strip()

    def is_listed_as(self, row):
        return self.key() == (row["path"], row["old"], row["new"]) and \
            row.get("next", self.behind) == self.behind


def places():
    """Every edit of every line of code."""
    made = []
    for path in check_source.files(".c"):
        if path.parts[0] not in ("engine", "passes"):
            continue
        text = (ROOT / path).read_text()
        lines, code = text.splitlines(), check_source.only_code(text).splitlines()
        for number, (line, bare, behind) in enumerate(zip(lines, code, lines[1:]), 1):
            if "assert" in bare or bare.startswith("#") or not bare.startswith(" "):
                continue
            for what, pattern, new in EDITS:
                for m in re.finditer(pattern, bare):
                    if line[m.start():m.end()] != bare[m.start():m.end()]:
                        continue  # a text or a comment lies in it
                    changed = line[:m.start()] + m.expand(new) + line[m.end():]
                    made.append(Mutant(str(path), number, what, line, changed, behind))
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
    endings = tuple(f"/{p}.gcda" for p in paths)
    counted = [g for g in kept.rglob("*.gcda") if str(g).endswith(endings)]
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
            path = os.path.relpath(os.path.join(build, f["file"]), build.parent)
            lines[path].update(n["line_number"] for n in f["lines"] if n["count"])
    return lines


def choose(build, tests, mutants, most):
    """mutant.tests: the names of the tests that execute its line, in order."""
    paths = sorted({m.path for m in mutants})
    lines = {name: executed(build, name, paths) for name in tests}
    for m in mutants:
        for line in range(m.line, m.line - 4, -1):  # the compiler may join equal returns
            m.tests = [n for n in tests if line in lines[n].get(m.path, ())]
            if m.tests:
                break
        stem = pathlib.Path(m.path).stem

        def order(name, stem=stem, m=m):
            share = len(lines[name][m.path]) / (1 + tests[name][0])
            ignored = name.startswith(PLACES) and m.what == "error ignored"
            return not ignored, stem not in name, -share, name

        m.tests.sort(key=order)
        sums = itertools.accumulate(tests[n][0] for n in m.tests)
        able = [n for n, s in zip(m.tests, sums) if s <= most] or m.tests[:1]
        able += [n for n in m.tests if n == BROADEST and n not in able]
        m.cut = m.cut or len(able) < len(m.tests)
        m.tests = able


# --- building ---

def make_builds():
    for folder, (options, target) in BUILDS.items():
        subprocess.run(["cmake", "-B", str(BUILD / folder), *COMMON, *options],
                       stdout=subprocess.DEVNULL, check=True)
        ninja(folder, target, check=True)


def ninja(folder, *words, check=False):
    with building:
        return subprocess.run(["ninja", "-C", str(BUILD / folder), *words],
                              capture_output=True, text=True, check=check)


@functools.cache
def command_of(folder, target):
    """The last command that makes a target, for a shell in its build."""
    return ninja(folder, "-t", "commands", target).stdout.strip().splitlines()[-1]


@functools.cache
def objects(folder):
    """path -> the object of it in a build."""
    found = re.findall(r"^(CMakeFiles/qg_\w+\.dir/(\S+)\.o):",
                       ninja(folder, "-t", "targets", "all").stdout, re.M)
    return {path: target for target, path in found}


def shell(folder, command):
    return subprocess.run(command, shell=True, cwd=BUILD / folder, capture_output=True,
                          check=False).returncode == 0


def object_of(m, folder):
    """The object of a mutant, in its folder; None: it does not compile."""
    source = m.folder / pathlib.Path(m.path).name
    made = m.folder / f"{folder}.o"
    target = objects(folder)[m.path]
    command = command_of(folder, target).replace(f" -c {ROOT / m.path}", f" -c {source}")
    command = command.replace(f" -o {target} ", f" -o {made} ")
    command = command.replace(f" -MF {target}.d", f" -MF {made}.d").replace(" -Werror ", " ")
    return made if made.exists() or shell(folder, command) else None


def is_real(m):
    """Writes a mutant to a folder of its own, below BUILD/mutants.  False: it does not
    compile, or to the code of the original."""
    text = (ROOT / m.path).read_text()
    lines = text.splitlines(keepends=True)
    lines[m.line - 1] = m.new + "\n"
    digest = hashlib.sha256(f"{m.line} {m.new}\n{text}".encode()).hexdigest()[:16]
    m.folder = BUILD / "mutants" / digest
    verdict = m.folder / "verdict"
    if not verdict.exists():
        m.folder.mkdir(parents=True, exist_ok=True)
        (m.folder / pathlib.Path(m.path).name).write_text("".join(lines))
        made = object_of(m, "plain")
        original = BUILD / "plain" / objects("plain")[m.path]
        able = made and made.read_bytes() != original.read_bytes()
        verdict.write_text("real" if able else "none")
    return verdict.read_text() == "real"


def target_of(command):
    """The build and program of a test: its own, or qg for scripts."""
    name = pathlib.Path(command[0]).name
    if name in ("python.sh", "bash"):
        return "plain", "qg"
    kind = ("counted" if f"prop/{name}".startswith(PLACES) else
            "plain" if name in RECORDED else "sanitized")
    return kind, f"tests/{name}"


def library_of(m):
    """Whether the library of the suites was linked, in the mutant's folder, with its object."""
    made, library = object_of(m, "sanitized"), m.folder / "libqg.so.0"
    if not made or library.exists():
        return bool(made)
    command = command_of("sanitized", "libqg.so.0.1.0")
    for old, new in ((f" {objects('sanitized')[m.path]} ", f" {made} "),
                     (" -o libqg.so.0.1.0 ", f" -o {library} ")):
        assert old in command, f"libqg.so is not linked with{old}: {command}"
        command = command.replace(old, new)
    return shell("sanitized", command)


def linked(folder, target, m):
    """The program of a target and the environment in which it has the mutant."""
    if not (BUILD / folder / target).exists():
        ninja(folder, target)
    command = command_of(folder, target)
    if "libqg.so" in command:
        path = {"LD_LIBRARY_PATH": str(m.folder)}
        return (BUILD / folder / target, path) if library_of(m) else None
    made, program = object_of(m, folder), m.folder / pathlib.Path(target).name
    if not made:
        return None
    command = command.replace(f" -o {target} ", f" -o {program} ")
    command, count = re.subn(r" (\S*libqg\.a)", rf" {made} \1", command, count=1)
    assert count, f"{target} is not linked with libqg: {command}"
    return (program, {}) if program.exists() or shell(folder, command) else None


# --- judging ---

def fails(test, build, program, more):
    """Runs a test with another program and more in its environment: why it fails, or None."""
    seconds, command, folder, env = test
    kind, target = target_of(command)
    own = str(build / target)
    env = {k: v.replace(own, str(program)).replace(str(build), str(BUILD / kind))
           for k, v in env.items()}
    if kind == "sanitized":
        env.pop("QG_ALL", None)  # with sanitizers all takes too long
    env["ASAN_OPTIONS"] = env.get("ASAN_OPTIONS", "") + MEMORY
    run = subprocess.Popen([str(program) if w == own else w for w in command], cwd=folder,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                           start_new_session=True, env={**os.environ, **env, **more})
    try:
        status = run.wait(10 * seconds + 60)
    except subprocess.TimeoutExpired:
        os.killpg(run.pid, signal.SIGKILL)
        run.wait()
        return "time"
    return None if status in (0, 77) else f"status {status}"


def judge(m, tests, build):
    """The test that kills it, or None.  A test that fails without a mutant, too, is none."""
    for name in m.tests:
        if sound.get(name) is False:
            continue
        kind, target = target_of(tests[name][1])
        made = linked(kind, target, m)
        why = fails(tests[name], build, *made) if made else "it does not link"
        if target != "qg" and made and made[0].parent == m.folder:
            made[0].unlink()
        if why and name not in sound:
            ninja(kind, target)
            sound[name] = not fails(tests[name], build, BUILD / kind / target, {})
        if why and sound[name]:
            return f"{name} ({why})"
        m.tried += 1
    return None


def round_of(left, tests, build, seconds, jobs):
    """The mutants that these tests leave alive."""
    choose(build, tests, left, seconds)
    for kind in BUILDS:
        chosen = {target_of(tests[n][1]) for m in left for n in m.tests}
        targets = sorted(target for folder, target in chosen if folder == kind)
        if targets:
            ninja(kind, "-j", str(jobs), *targets, check=True)
    alive = []

    def one(m):
        killer = judge(m, tests, build)
        if not killer:
            alive.append(m)
        print(f"{m}\n  {f'killed by {killer}' if killer else f'left by {m.tried} tests'}",
              flush=True)

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        list(pool.map(one, left))
    return sorted(alive, key=lambda m: m.number)


def sample(seed, count, jobs):
    """The first mutants of the seed that compile to other code."""
    places_left, taken = iter(drawn(seed)), []
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        while len(taken) < count:
            more = list(itertools.islice(places_left, count - len(taken)))
            for m, real in zip(more, pool.map(is_real, more)):
                if real:
                    m.number = len(taken) + 1
                    taken.append(m)
            if not more:
                break
    return taken


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=COUNT, help="mutants (%(default)s)")
    parser.add_argument("--seed", type=int, default=SEED, help="of the sample (%(default)s)")
    parser.add_argument("--only", default="", help="mutants with a match of this only")
    parser.add_argument("--tests", default="", help="regular expression of their names")
    parser.add_argument("--seconds", type=int, default=SECONDS,
                        help="for the suites, and the scripts, of a mutant (%(default)s)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(),
                        help="mutants at once (%(default)s)")
    parser.add_argument("coverage", type=pathlib.Path, help="a build of tools/coverage.sh")
    o = parser.parse_args()
    build = o.coverage.resolve()
    if not (build / "counts").is_dir():
        parser.error(f"{o.coverage}: no such folder, or without counts, expected a build "
                     "of tools/coverage.sh")
    tests = {n: t for n, t in tests_of(build).items() if re.search(o.tests, n)}
    scripts = {n: t for n, t in tests.items() if n.startswith("scripts/")}
    suites = {n: t for n, t in tests.items() if n not in scripts}
    make_builds()
    listed = json.loads(LISTED.read_text())
    taken = [m for m in sample(o.seed, o.count, o.jobs) if re.search(o.only, str(m))]
    reason = {m: r["reason"] for m in taken for r in listed if m.is_listed_as(r)}
    alive = [m for m in taken if m not in reason]
    alive = round_of(alive, suites, build, o.seconds, o.jobs)
    alive = round_of(alive, scripts, build, o.seconds, o.jobs)
    killed, able = len(taken) - len(alive) - len(reason), len(taken) - len(reason)
    print(f"\nseed {o.seed}: {len(taken)} mutants, {killed} killed; {len(reason)} survive "
          f"with a reason, {len(alive)} without: {100 * killed / max(able, 1):.1f} % killed "
          "of those that a test can notice")
    for m, why in reason.items():
        print(f"{m}\n  {why}")
    for m in alive:
        print(f"{m}\n  {m.tried} tests pass{', not all were tried' if m.cut else ''}")
    return 1 if killed < 0.95 * able else 0


if __name__ == "__main__":
    sys.exit(main())
