#!/usr/bin/env python3
"""wrap_comments.py FILE... -- wraps comment lines wider than 88 columns, prose only.

clang-format is told not to reflow comments, because it would ruin the tables in them.
This moves the last words of a wide line to the next line of the same paragraph.
Lines that resemble a row of a table (gaps, formulas in columns) are left unchanged."""
import re
import sys

WIDTH = 88
COMMENT = re.compile(r"(\s*)(/\*|\*)( +)(?=\S)")
GAP = re.compile(r"[^.:;,!?\s]\s{2,}\S|-{4,}|={4,}")  # two spaces after a sentence are fine


def prose(line, indent=None):
    m = COMMENT.match(line)
    return bool(m) and (indent is None or len(m[0]) == indent) \
        and not GAP.search(line[m.end():])


def wrap(lines):
    i = 0
    while i < len(lines):
        line = lines[i]
        if len(line) > WIDTH and prose(line):
            m = COMMENT.match(line)
            cut = line.rfind(" ", 0, WIDTH + 1)
            if line[cut + 1:] == "*/":  # never alone on a line
                cut = line.rfind(" ", 0, cut)
            rest, lines[i] = line[cut + 1:], line[:cut].rstrip()
            star = m[1] + (" *" if m[2] == "/*" else "*")
            into = i + 1 < len(lines) and "*/" not in line \
                and prose(lines[i + 1], len(star + m[3])) \
                and not re.match(r"\s*\* *[A-Z]\w*:? *$", lines[i + 1])
            if into:
                begin = COMMENT.match(lines[i + 1]).end()
                gap = "  " if re.search(r"[.!?]$", rest) else " "
                lines[i + 1] = lines[i + 1][:begin] + rest + gap + lines[i + 1][begin:]
            else:
                lines.insert(i + 1, star + m[3] + rest)
        i += 1
    return lines


for name in sys.argv[1:]:
    with open(name, encoding="utf-8") as file:
        text = file.read()
    wrapped = "\n".join(wrap(text.split("\n")))
    if wrapped != text:
        with open(name, "w", encoding="utf-8") as file:
            file.write(wrapped)
