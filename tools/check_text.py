#!/usr/bin/env python3
"""check_text.py -- checks every text file, and links in the documentation.

No path of one machine, no address of a registry, no conflict marker, no white space at
line ends, no open task without a name and an issue.  In *.md every relative link and
every path in back quotes that begins with a folder of the project leads somewhere.
Outside of tests, files and values contain, specify or require; they do not speak."""
import pathlib
import re
import sys

import check_source

BINARY = {".onnx", ".npy", ".npz", ".pb", ".qgs", ".png", ".ppm", ".jpg", ".bin", ".gz",
          ".tflite"}
REFERENCES = ("tests/data/ppq_exports/",)  # as other tools wrote them
TASK = "TO" + "DO"  # in two pieces, so that this file passes its own check
RULES = [
    (r"(?<![\w.~*})-])/(home|root|work|opt|Users|mnt|srv)/", "path of one machine"),
    (r"pypi\.|pythonhosted|deb\.debian|index-url|trusted-" + "host|extra-index",
     "address of a registry: leave it to the environment"),
    (r"^(<{7} |>{7} |={7}$)", "conflict marker"),
    (r"[ \t]+$", "white space at the end of the line"),
    (rf"\b{TASK}\b(?!\([a-z][\w-]*, *#?\d+\))", f"write {TASK}(name, issue)"),
    (r"\bFIX" + r"ME\b|\bX" + r"XX\b", f"write {TASK}(name, issue)"),
]
THINGS = "files?|formats?|headers?|models?|passes|records?|reports?|rules?|snapshots?|values?"
SPEECH = [
    (rf"\b(?:{THINGS}) (?:says?|speaks?|thinks?|wants?|knows?|looks?)\b(?!-?up)",
     "write contains, specifies, requires"),
    (r"\bwho rounds|\bsays so\b|\bcannot say\b|\bkeeps? silent|\bas one likes|"
     r"\bit is no matter|\bcomputes no\b|\bof one's own\b|\bstands twice\b",
     "write plain technical English"),
]
FOLDERS = r"engine|ops|passes|configs|tests|tools"
EXEMPT = {"tools/check_text.py"}  # contains its own search patterns


def link_complaint(path, target):
    name, _, anchor = target.partition("#")
    if re.match(r"[a-z]+:", target):
        return None
    there = path.parent / name if name else path
    if not there.exists():
        return f"link to {target}: no such file"
    if anchor and there.suffix == ".md" and anchor not in check_source.anchors(there):
        return f"link to {target}: no such heading"
    return None


def doc_complaints(path, line):
    for target in re.findall(r"\]\(([^)\s]+)\)", line):
        if (why := link_complaint(path, target)):
            yield why
    for name in re.findall(rf"`((?:{FOLDERS})/[\w./-]+)`", line):
        if not pathlib.Path(name).exists():
            yield f"`{name}`: no such file"


def complaints(path, text):
    rules = RULES if path.parts[0] in ("tests", "CHANGELOG.md") else RULES + SPEECH
    for number, line in enumerate(text.splitlines(), 1):
        if str(path) not in EXEMPT:
            for pattern, why in rules:
                if re.search(pattern, line):
                    yield f"{path}:{number}: {why}"
        if path.suffix == ".md":
            for why in doc_complaints(path, line):
                yield f"{path}:{number}: {why}"


def main():
    bad = 0
    for path in check_source.files():
        if path.suffix in BINARY or str(path).startswith(REFERENCES):
            continue
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            print(f"{path}: not UTF-8; if it is binary, give it a suffix of check_text.py")
            bad += 1
            continue
        for line in complaints(path, text):
            print(line)
            bad += 1
    return bad > 0


sys.exit(main())
