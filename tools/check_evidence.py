#!/usr/bin/env python3
"""check_evidence.py -- every claim names its evidence.

  backend files   every rule, fusion and sharing has id, why and source; ids are unique
  verifier rules  each id is named by a test, the one that breaks it
  passes          each has before/after cases, tests/passes/<name>*.qgt
  operators, backends   each is named by a test"""
import pathlib
import re
import sys

import check_source

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


def complaints():
    backends = [p for p in check_source.files(".yaml")
                if p.parts[:2] == ("configs", "backends")]
    for path in backends:
        yield from backend_complaints(path)
    tests = test_texts()
    everything = "\n".join(tests.values())
    for path, name in verifier_rules():
        if not re.search(rf'"{name}"|rule {name}(?![\w-])', everything):
            yield f"{path}: verifier rule {name}: no test names it"
    for name in registered("passes/passes.def", "PASS"):
        dashed = name.replace("_", "-")
        if not any(p.suffix == ".qgt" and p.name.replace("_", "-").startswith(dashed)
                   for p in tests):
            yield f"passes/{name}.c: no tests/passes/{dashed}*.qgt"
    for path, name in check_source.operators():
        if not re.search(rf"(?<!\w){name}(?!\w)", everything):
            yield f"{path}: operator {name}: no test names it"
    for path in backends:
        if not re.search(rf"(?<![\w-]){path.stem}(?![\w-])", everything):
            yield f"{path}: no test names this backend"


def main():
    found = list(complaints())
    for line in found:
        print(line)
    return bool(found)


sys.exit(main())
