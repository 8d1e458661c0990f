#!/usr/bin/env python3
"""check_calls.py -- fails where a layer calls what it must not.

The library never prints, exits, reads the environment or the locale; operators and
passes take memory from arenas; passes and the engine never ask an operator's name;
tests compare with assertions that print the values."""
import re
import sys

import check_source

ENGINE, LIBRARY, PLUGINS = "engine/", "engine/|ops/|passes/", "ops/|passes/"
RULES = [  # where, not there, what, why
    (LIBRARY, None,
     r"\b(printf|vprintf|puts|putchar|perror)\s*\(|\b(stdout|stderr)\b",
     "the library never prints: use qg_log_to or a status"),
    (LIBRARY, None, r"\b(exit|_exit|abort|quick_exit)\s*\(",
     "the library never exits: return a status"),
    (LIBRARY, None, r"\b(getenv|setenv|setlocale|localeconv)\s*\(",
     "the library reads neither environment nor locale"),
    (LIBRARY, None, r"\b(rand|srand|random|drand48|time|localtime|strtok)\s*\(",
     "not repeatable or not safe in threads"),
    (LIBRARY, r"engine/core/num\.c", r"\b(strtod|strtof|atof|sscanf)\s*\(",
     "depends on the locale: use engine/core/num.h"),
    (LIBRARY, None, r"\b(sprintf|vsprintf|gets|alloca)\s*\(",
     "unbounded: use snprintf or an arena"),
    (PLUGINS, None, r"\b(malloc|calloc|realloc|free)\s*\(",
     "operators and passes take memory from arenas"),
    ("engine/|passes/", r"engine/ir/op\.c",
     r"strn?cmp\s*\([^;]*\bop->name|\bop->name\s*[!=]=(?!\s*NULL)",
     "never compares an operator's name: ask for traits and roles"),
    ("passes/", None, r'strn?cmp\s*\([^;]*"[A-Z]\w+"',
     "a pass names no operator: ask for traits and roles"),
]

COMPARES = re.compile(r"==|!=|[<>]=|(?<!<)<(?!<)|(?<![->])>(?!>)")


def silent_comparisons(text):
    """Offsets of assert_true(x == y), which prints neither x nor y.  Alternatives
    (||, ?:) and what stands in inner brackets are left alone."""
    code = check_source.only_code(text)
    for m in re.finditer(r"\bassert_(?:true|false)\s*\(", code):
        outer = code[m.end():check_source.closing(code, m.end() - 1) - 1]
        while (bare := re.sub(r"\([^()]*\)|\[[^][]*\]", " ", outer)) != outer:
            outer = bare
        if COMPARES.search(outer) and not re.search(r"\|\||\?", outer):
            yield m.start()


def main():
    bad = 0
    for path in check_source.files(".c", ".h"):
        code = check_source.without_comments(path.read_text())
        for where, exempt, what, why in RULES:
            if not re.match(where, str(path)) or exempt and re.match(exempt, str(path)):
                continue
            for m in re.finditer(what, code):
                print(f"{path}:{code.count(chr(10), 0, m.start()) + 1}: {why}")
                bad += 1
        for at in silent_comparisons(code) if path.parts[0] == "tests" else ():
            print(f"{path}:{code.count(chr(10), 0, at) + 1}: prints no values: use "
                  "assert_int_equal, assert_cmp_f64 (tests/support/test.h) and the like")
            bad += 1
    return bad > 0


sys.exit(main())
