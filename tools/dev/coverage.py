#!/usr/bin/env python3
"""coverage.py BUILD [--lines FILE] -- sums what gcov has counted in a build of
tools/coverage.sh, BUILD/counts/TEST: a table by folder, files below the goals, and the
verdict.  Functions for AVX-512 are left out on a CPU without it, and counted as such.
--lines: the lines of a file that no test executes, and "line:branches" of those
whose branches no test takes all."""
import collections
import json
import multiprocessing.pool
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PRODUCT = re.compile(r"(engine|ops|passes|tools)/.*\.(c|cpp|h)$")
ALL, FOLDER = (0.95, 0.85), (0.90, 0.75)  # lines, branches
VECTORS = re.compile("_mm512|__m512")
WIDE = re.compile(f"avx512|{VECTORS.pattern}", re.I)


def lines_for_avx512(path):
    """The numbers of the lines of functions that only a CPU with AVX-512 executes: their
    signature names it, or they use its vectors; and of macros that make such functions."""
    found, begin, block = set(), 1, []
    for n, line in enumerate((ROOT / path).read_text().splitlines(), 1):
        block.append(line)
        if line.startswith("}") or not line.strip():
            signature, _, body = "\n".join(block).partition("\n{")
            if WIDE.search(signature) or VECTORS.search(body):
                found.update(range(begin, n + 1))
            begin, block = n + 1, []
    return found


def counts(gcda):
    """file -> (line -> executed, (line, branch) -> taken) of one object."""
    out = subprocess.run(["gcov", "--json-format", "--branch-probabilities", "--stdout",
                          str(gcda)], capture_output=True, cwd=ROOT, check=False).stdout
    made = {}
    for text in out.splitlines():
        said = json.loads(text)
        for f in said["files"]:
            path = os.path.relpath(os.path.join(said["current_working_directory"],
                                                f["file"]), ROOT)
            if not PRODUCT.match(path):
                continue
            lines, branches = made.setdefault(path, ({}, {}))
            for line in f["lines"]:
                n = line["line_number"]
                lines[n] = lines.get(n, 0) + line["count"]
                for k, b in enumerate(line["branches"]):
                    branches[n, k] = branches.get((n, k), 0) + b["count"]
    return made


def add(pair):
    """Sums two folders of counts into a third; those that are sums themselves go."""
    first, second, into = pair
    subprocess.run(["gcov-tool", "merge", "-o", str(into), str(first), str(second)],
                   check=True, capture_output=True)
    for folder in first, second:
        if folder.parent == into.parent:
            shutil.rmtree(folder)
    return into


def is_readable(test, scratch):
    """Not so where a program was killed, or the disk was full, as it wrote its counts, as some
    tests want it: gcov-tool warns, or fails."""
    done = subprocess.run(["gcov-tool", "rewrite", "-s", "1", "-o", str(scratch), str(test)],
                          capture_output=True, check=False)
    fine = done.returncode == 0 and not done.stderr
    shutil.rmtree(scratch, ignore_errors=True)
    if not fine:
        print(f"left out, cannot be read: {test}")
    return fine


def merge(build):
    """Puts the sum over the tests beside the notes of the compiler.  Counts of an object
    that was compiled again since then are dropped."""
    inner = build.relative_to("/")
    shutil.rmtree(build / "counts.sum", ignore_errors=True)
    (build / "counts.sum").mkdir()
    tests = [d / inner for d in sorted((build / "counts").glob("*/*")) if
             (d / inner).is_dir()]
    for test in tests:
        for gcda in test.rglob("*.gcda"):
            notes = build / gcda.relative_to(test).with_suffix(".gcno")
            if not notes.exists() or notes.stat().st_mtime > gcda.stat().st_mtime:
                gcda.unlink()

    sums = [t for t in tests if is_readable(t, build / "counts.sum/scratch")]
    number = 0
    with multiprocessing.pool.ThreadPool() as pool:  # pairs, pairs of pairs, ...
        while len(sums) > 1:
            pairs = [(a, b, build / f"counts.sum/{number + i}") for i, (a, b) in
                     enumerate(zip(sums[::2], sums[1::2]))]
            number += len(pairs)
            sums = pool.map(add, pairs) + sums[len(pairs) * 2:]
    for last in counted(build):
        last.unlink()
    shutil.copytree(sums[0], build, dirs_exist_ok=True)
    shutil.rmtree(build / "counts.sum", ignore_errors=True)


def counted(build):
    return sorted(g for part in ("CMakeFiles", "tests") for g in (build / part).rglob("*.gcda"))


def gather(build):
    """path -> counts by line, and by line and branch."""
    sums, left_out = {}, [0, 0]
    wide = "avx512f" in pathlib.Path("/proc/cpuinfo").read_text()
    with multiprocessing.Pool() as pool:
        for made in pool.imap_unordered(counts, counted(build)):
            for path, (lines, branches) in made.items():
                a, b = sums.setdefault(path, (collections.Counter(), collections.Counter()))
                for n, c in lines.items():
                    a[n] += c
                for n, c in branches.items():
                    b[n] += c
    for path, counted_of in sums.items() if not wide else ():
        lost = lines_for_avx512(path)
        for k, line_of in enumerate((lambda n: n, lambda n: n[0])):
            gone = [n for n in counted_of[k] if line_of(n) in lost]
            left_out[k] += len(gone)
            for n in gone:
                del counted_of[k][n]
    if any(left_out):
        print(f"for AVX-512, which this CPU lacks: {left_out[0]} lines and {left_out[1]} "
              "branches are left out")
    return sums


def share(counter):
    return sum(1 for c in counter.values() if c) / len(counter) if counter else 1.0


def folder_of(path):
    parts = path.split("/")
    return "/".join(parts[:2]) if parts[0] == "engine" else parts[0]


def report(sums):
    folders = collections.defaultdict(lambda: ({}, {}))
    for path, measured in sums.items():
        for into in folders[folder_of(path)], folders["all"]:
            for k in 0, 1:
                into[k].update({(path, n): c for n, c in measured[k].items()})
    bad = []
    print(f"{'folder':20} {'lines':>8} {'%':>7} {'branches':>9} {'%':>7}")
    for name in sorted(folders, key=lambda f: (f == "all", f)):
        lines, branches = folders[name]
        have, goal = (share(lines), share(branches)), ALL if name == "all" else FOLDER
        low = any(h < g for h, g in zip(have, goal))
        print(f"{name:20} {len(lines):8} {100 * have[0]:6.2f}% {len(branches):9} "
              f"{100 * have[1]:6.2f}%{'  below the goal' if low else ''}")
        bad += [name] * low
    worst = sorted(sums, key=lambda p: share(sums[p][0]))[:15]
    print("\nleast lines:", *(f"  {100 * share(sums[p][0]):6.2f}% {p}" for p in worst),
          sep="\n")
    empty = [p for p in sums if sums[p][0] and not any(sums[p][0].values())]
    print(f"\n{len(sums)} files, {len(empty)} never executed", *empty, sep="\n  ")
    return 1 if bad or empty else 0


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    if "--lines" not in sys.argv:
        merge(build)
        return report(gather(build))
    lines, branches = gather(build)[sys.argv[sys.argv.index("--lines") + 1]]
    left = collections.Counter(n for (n, _), c in branches.items() if not c and lines[n])
    print(*(f"{n}:{left[n]}" if c else n for n, c in sorted(lines.items())
            if not c or left[n]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
