#!/usr/bin/env python3
"""check_budget.py -- limits the length of functions and files, and measures the share
of comments.

The budgets follow Lua, Wren and libuv.  Exceptions are listed in LONG below with
their reason; an exception that is no longer needed fails too, so that the list stays
current."""
import re
import statistics
import sys

import check_source

MEDIAN, P90, LONGEST, LONGEST_LISTED = 14, 40, 80, 120  # lines of a function
PARAMETERS, FILE, WIDTH = 6, 800, 88
COMMENTS = (0.15, 0.30)    # commented lines / (commented + code lines)
IN_HEADERS = 0.5           # share of the comments that is in headers
TESTS = 1.0                # lines of tests per line of code: reported, not enforced yet

LONG = {  # files whose functions may have up to LONGEST_LISTED lines: reason
}
PRODUCT = re.compile(r"(engine|ops|passes|tools)/")


class Lines:
    """The number of lines with code, and of lines with comments."""

    def __init__(self, text):
        code = check_source.without_comments(text).splitlines()
        self.code = sum(1 for line in code if line.strip())
        self.comment = sum(1 for a, b in zip(text.splitlines(), code) if a != b)


def file_complaints(path, text, functions):
    lines = text.splitlines()
    if len(lines) > FILE:
        yield f"{path}: {len(lines)} lines, at most {FILE}"
    for number, line in enumerate(lines, 1):
        if len(line) > WIDTH:
            yield f"{path}:{number}: {len(line)} columns, at most {WIDTH}"
    limit = LONGEST_LISTED if str(path) in LONG else LONGEST
    for f in functions:
        if f.length > limit:
            yield f"{path}:{f.line}: {f.name} has {f.length} lines, at most {limit}"
        if f.parameters > PARAMETERS:
            yield (f"{path}:{f.line}: {f.name} has {f.parameters} parameters, "
                   f"at most {PARAMETERS}: use a struct")
    if str(path) in LONG and all(f.length <= LONGEST for f in functions):
        yield f"{path}: listed in tools/check_budget.py without need"


def test_lines():
    """Code lines of tests: C, scripts, and the text cases that they run."""
    total = 0
    for path in check_source.files(".c", ".h", ".py", ".sh", ".case", ".qgt"):
        if path.parts[0] == "tests":
            text = path.read_text()
            total += Lines(text).code if path.suffix in (".c", ".h") else \
                sum(1 for line in text.splitlines() if line.strip())
    return total


def measure():
    """(complaints, all product functions, sums) over the C files."""
    bad, functions = [], []
    sums = {"code": 0, "comment": 0, "header": 0}
    for path in check_source.files(".c", ".h"):
        text = path.read_text()
        try:
            here = check_source.functions(text)
        except ValueError as e:
            bad.append(f"{path}: {e}")
            continue
        bad += file_complaints(path, text, here)
        if not PRODUCT.match(str(path)):
            continue
        functions += here
        lines = Lines(text)
        sums["code"] += lines.code
        sums["comment"] += lines.comment
        sums["header"] += lines.comment if path.suffix == ".h" else 0
    return bad, functions, sums


def overall(functions, sums):
    """(name, figure, whether it is within the budget, text of the budget)."""
    lengths = sorted(f.length for f in functions) or [0]
    median, p90 = statistics.median_low(lengths), lengths[len(lengths) * 9 // 10]
    share = sums["comment"] / max(1, sums["comment"] + sums["code"])
    header = sums["header"] / max(1, sums["comment"])
    return [
        ("functions, median lines", median, median <= MEDIAN, f"<= {MEDIAN}"),
        ("functions, p90 lines", p90, p90 <= P90, f"<= {P90}"),
        ("comment share", f"{share:.0%}", COMMENTS[0] <= share <= COMMENTS[1],
         "15-30%"),
        ("of it in headers", f"{header:.0%}", header >= IN_HEADERS, ">= 50%"),
    ]


def main():
    bad, functions, sums = measure()
    for line in bad:
        print(line)
    rows = overall(functions, sums)
    for name, figure, fine, budget in rows:
        if not fine:
            print(f"{name}: {figure}, budget {budget}")
    print("; ".join(f"{name} {figure}" for name, figure, _, _ in rows))
    ratio = test_lines() / max(1, sums["code"])
    print(f"{sums['code']} lines of code in {len(functions)} functions; "
          f"tests per line of code {ratio:.2f}"
          + ("" if ratio >= TESTS else f" (warning: below {TESTS})"))
    return bool(bad) or not all(fine for _, _, fine, _ in rows)


sys.exit(main())
