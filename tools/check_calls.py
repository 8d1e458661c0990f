#!/usr/bin/env python3
"""check_calls.py -- fails where a layer calls a forbidden function.

The library never prints, exits, reads the environment or the locale; operators and
passes take memory from arenas; tests compare with assertions that print values."""
import re
import sys

import check_source

LIBRARY, PLUGINS = "engine/|ops/|passes/", "ops/|passes/"
RULES = [  # where, not there, what, why
    (LIBRARY, None,
     r"\b(v?printf|v?dprintf|puts|putchar|perror|psignal)\s*\(|\bwrite\s*\(\s*[12]\b"
     r"|\b(stdout|stderr|STDOUT_FILENO|STDERR_FILENO)\b",
     "the library never prints: use qg_log_to or a status"),
    (LIBRARY, None, r"\b(exit|_exit|_Exit|abort|quick_exit|raise|kill)\s*\(",
     "the library never exits: return a status"),
    (LIBRARY, None, r"\b(system|popen|v?fork|exec[lv]p?e?|posix_spawnp?)\s*\(",
     "the library starts no programs"),
    (LIBRARY, None,
     r"\b((secure_)?getenv|(un)?setenv|putenv|clearenv|(set|new|use|dup)locale|localeconv)"
     r"\s*\(|\benviron\b",
     "the library reads neither environment nor locale"),
    (LIBRARY, None,
     r"\b(s?rand|rand_r|s?random|random_r|[a-z]+48|getrandom|getentropy|time|gettimeofday"
     r"|timespec_get|(local|gm)time(_r)?|asctime|ctime|strtok)\s*\(",
     "not repeatable or not safe in threads"),
    (LIBRARY, r"engine/core/clock\.c", r"\bclock(_gettime)?\s*\(",
     "the time is of engine/core/clock.h"),
    (LIBRARY, r"engine/core/num\.c", r"\b(strtod|strtof|strtold|atof|v?[fs]?scanf)\s*\(",
     "depends on the locale: use engine/core/num.h"),
    (LIBRARY, None, r"\b(v?sprintf|gets|alloca|strcpy|stpcpy|strcat)\s*\(",
     "unbounded: use snprintf or an arena"),
    (PLUGINS, None,
     r"\b([mc]alloc|realloc(array)?|free|strn?dup|(aligned_|v)alloc|(posix_)?memalign"
     r"|v?asprintf)\s*\(", "operators and passes take memory from arenas"),
]

COMPARES = re.compile(r"==|!=|[<>]=|(?<!<)<(?!<)|(?<![->])>(?!>)")


def silent_comparisons(text):
    """Offsets of assert_true(x == y), which prints neither x nor y.  Alternatives (||,
    ?:) and expressions in inner brackets are ignored."""
    code = check_source.only_code(text)
    for m in re.finditer(r"\bassert_(?:true|false)\s*\(", code):
        outer = code[m.end():check_source.closing(code, m.end() - 1) - 1]
        while (bare := re.sub(r"\([^()]*\)|\[[^][]*\]", " ", outer)) != outer:
            outer = bare
        if COMPARES.search(outer) and not re.search(r"\|\||\?", outer):
            yield m.start()


def main():
    bad = 0
    for path in check_source.files(*check_source.C):
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
