#!/usr/bin/env python3
"""check_evidence.py -- checks that every claim names its evidence.

  backend files   every rule, fusion and sharing has id, why and source; ids are unique
  verifier rules  each id is named by a test, the one that breaks it
  passes          each has before/after cases, tests/passes/<name>*.qgt
  operators, backends   each is named by a test
  references      pages and their headings, numbers of PPQ defects and sections of
                  DESIGN.md exist"""
import pathlib
import re
import sys

import check_source

TEXTS = (".c", ".h", ".def", ".inc", ".in", ".py", ".sh", ".cmake", ".yaml", ".qgt",
         ".case", ".md", ".txt")
EXEMPT = {"tools/check_evidence.py", "tests/scripts/test_check.sh"}  # contain wrong references
REGISTER, DESIGN = pathlib.Path("docs/evidence/ppq-defects.md"), pathlib.Path("DESIGN.md")
UPSTREAM = r"ONNX [\w/]+\.md|[\w/]+\.md of ONNX|tensorflow/[\w/]+\.md|\bNAME\.md"
PAGE = r'(?<![\w.:/-])((?:[\w.-]+/)*[\w.-]+\.md)\b(?:#([\w-]+)|,? "([^"]+)")?'
NOWHERE = r"\b(?:spec \d|[Dd]esign \d|(?<!/)(?:spec|vectors|goldens)/\w+\b(?!\.md))"
HINT = re.compile(r"\.md|\bD\d|DESIGN|[Ss]ection|spec|[Dd]esign|vectors/|goldens/")
LISTS, NEEDS = ("rules", "fusions", "sharing"), ("id", "why", "source")


def rules_of(path, text):
    """(line, {key: scalar text or None}) for every entry of LISTS."""
    import yaml  # only here: a tree without backend files needs no .venv
    top = yaml.compose(text)
    for key, value in top.value if isinstance(top, yaml.MappingNode) else []:
        if key.value in LISTS and isinstance(value, yaml.SequenceNode):
            for entry in value.value:
                pairs = entry.value if isinstance(entry, yaml.MappingNode) else []
                yield entry.start_mark.line + 1, {
                    k.value: v.value if isinstance(v, yaml.ScalarNode) else None
                    for k, v in pairs}


def backend_complaints(path):
    seen = {}
    for line, entry in rules_of(path, path.read_text()):
        for key in NEEDS:
            if not (entry.get(key) or "").strip(" .?-"):
                yield f"{path}:{line}: rule {entry.get('id') or '(no id)'} has no {key}"
        name = entry.get("id")
        if name in seen:
            yield f"{path}:{line}: rule id {name} is taken by line {seen[name]}"
        seen.setdefault(name, line)


def registered(def_file, macro):
    path = pathlib.Path(def_file)
    return re.findall(rf"^{macro}\((\w+)\)", path.read_text(), re.M) \
        if path.exists() else []


def verifier_rules():
    """(file, id): rows {"id", "what holds", function} of tables of qg_check_rule."""
    for path in check_source.files(".c"):
        if path.parts[0] in ("engine", "passes"):
            code = check_source.without_comments(path.read_text())
            if "qg_check_rule" in code:
                for name in re.findall(r'\{\s*"([a-z][a-z0-9-]*)",\s*"', code):
                    yield path, name


def test_texts():
    return {p: p.read_text() for p in check_source.files(
        ".c", ".h", ".qgt", ".case", ".sh", ".py", ".json", ".txt")
        if p.parts[0] == "tests"}


def section_of_design(number, item):
    """Whether DESIGN.md has a section, and in it a numbered item ("" for none)."""
    text = DESIGN.read_text() if DESIGN.exists() else ""
    body = re.search(rf"^## {number}\. .*?(?=^## |\Z)", text, re.M | re.S)
    return body and (not item or re.search(rf"^{item}\. ", body[0], re.M))


def page_complaint(path, name, anchor):
    places = path.parent / name, pathlib.Path(name), pathlib.Path("docs", name)
    there = next((p for p in places if p.exists()), None)
    if not there:
        return f"{name}: no such page"
    if anchor and anchor not in check_source.anchors(there):
        return f"{name}: no heading {anchor}"
    return None


def reference_complaints(path, line):
    line = re.sub(UPSTREAM, "", line)
    register = check_source.anchors(REGISTER) if REGISTER.exists() else ()
    for name in re.findall(r"\bD\d{2,3}\b", line):
        if name.lower() not in register:
            yield f"{name}: not in {REGISTER}"
    for name, anchor, title in re.findall(PAGE, line):
        if (why := page_complaint(path, name, anchor or check_source.slug(title))):
            yield why
    here = r"\b[Ss]ection " if path == DESIGN else r"\bDESIGN(?:\.md)?,? (?:section )?"
    for number, item in re.findall(here + r"(\d+)(?:\.(\d+))?", line):
        if not section_of_design(number, item):
            yield f"{DESIGN}: no section {number}{item and '.' + item}"
    for name in re.findall(NOWHERE, line):
        yield f"{name}: leads nowhere, cite a page of docs/evidence or a public source"


def references():
    for path in check_source.files():
        if path.suffix in TEXTS and str(path) not in EXEMPT:
            for number, line in enumerate(
                    path.read_text(errors="replace").splitlines(), 1):
                for why in reference_complaints(path, line) if HINT.search(line) else ():
                    yield f"{path}:{number}: {why}"


def complaints():
    backends = [p for p in check_source.files(".yaml")
                if p.parts[:2] == ("configs", "backends")]
    for path in backends:
        yield from backend_complaints(path)
    tests = test_texts()
    everything = "\n".join(tests.values())
    words = set(re.findall(r"\w+", everything))
    dashed_words = set(re.findall(r"[\w-]+", everything))
    for path, name in verifier_rules():
        if not re.search(rf'"{name}"|rule {name}(?![\w-])', everything):
            yield f"{path}: verifier rule {name}: no test names it"
    for name in registered("passes/passes.def", "PASS"):
        dashed = name.replace("_", "-")
        if not any(p.suffix == ".qgt" and p.name.replace("_", "-").startswith(dashed)
                   for p in tests):
            yield f"passes/{name}.c: no tests/passes/{dashed}*.qgt"
    for path, name in check_source.operators():
        if name not in words:
            yield f"{path}: operator {name}: no test names it"
    for path in backends:
        if path.stem not in dashed_words:
            yield f"{path}: no test names this backend"
    yield from references()


def main():
    found = list(complaints())
    for line in found:
        print(line)
    return bool(found)


sys.exit(main())
