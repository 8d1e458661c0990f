"""Every backend file is valid under configs/schema/backend.json, and a wrong value in
any key is rejected by both the schema and the reader, whose message contains file,
line, key and the expected value.  The two must stay consistent."""
import concurrent.futures
import copy
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

try:
    import jsonschema
    import yaml
except ImportError as missing:
    print(f"skipped: {missing}", file=sys.stderr)
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2] / "configs"
QG = os.path.abspath(os.environ.get("QG", "build/qg"))
WRONG = [{"no such thing": 0}]  # valid for no key
# Of some thousand wrong values the suite tries every third; QG_ALL=1: all of them.
STEP = 1 if os.environ.get("QG_ALL") else 3

# These keys accept any text; the reader cannot reject one.
FREE = {"id", "why", "source", "title", "name", "node", "value", "from", "to",
        "pipeline", "attr"}


def places(tree, path=()):
    """The path of every value below the top."""
    items = tree.items() if isinstance(tree, dict) else \
        enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        yield (*path, key)
        yield from places(value, (*path, key))


def broken(tree, path):
    tree = copy.deepcopy(tree)
    at = tree
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = WRONG
    return tree


def schema_faults(path, validator):
    tree = yaml.safe_load(path.read_text())
    for error in validator.iter_errors(tree):
        yield f"{path.name}: {'/'.join(map(str, error.path))}: {error.message}"
    for place in places(tree):
        if validator.is_valid(broken(tree, place)):
            yield f"{path.name}: the schema takes a wrong value at {place}"


# Words of a rule's id, and the field that must have this value where the rule sets it.
CLAIMS = {"stays-float": ("state", "fp32"), "stay-float": ("state", "fp32"),
          "per-channel": ("policy", "per-channel"), "per-tensor": ("policy", "per-tensor")}
KEYS_OF_AIMET = "op-Gemm-per-channel", "op-MatMul-per-channel"  # per_channel_quantization


def id_faults(path):
    """Rules whose id contradicts their settings."""
    tree = yaml.safe_load(path.read_text())
    layers = [tree, *(tree.get("with-quirk") or {}).values()]
    for rule in (r for layer in layers for r in layer.get("rules", ())):
        for words, (field, value) in CLAIMS.items():
            said = rule["set"].get(field, "nothing" if field == "state" else value)
            if words in rule["id"] and value not in said and \
                    rule["id"] not in KEYS_OF_AIMET:
                yield f"{path.name}: rule {rule['id']} sets {field} {said}"


def nodes(node, path=()):
    """(path, node) of every value below the top, with its place in the text."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield (*path, key.value), value
            yield from nodes(value, (*path, key.value))
    elif isinstance(node, yaml.SequenceNode):
        for i, value in enumerate(node.value):
            yield (*path, i), value
            yield from nodes(value, (*path, i))


def mutations(text):
    """(line from 1, key, text with one wrong value) for every value of a file: of a
    wrong kind, and for enumerations also an unknown word."""
    for path, node in nodes(yaml.compose(text)):
        keys = [k for k in path if isinstance(k, str)]
        wrong = ["[{no-such-thing: 0}]"]
        # entries that a quirk removes may already be absent in some file
        taken = "with-quirk" in keys and re.match("-(rules|fusions|sharing)$", keys[-1])
        if isinstance(node, yaml.ScalarNode) and not FREE & set(keys) and not taken:
            wrong.append("no-such-thing")
        start, end = node.start_mark, node.end_mark
        # a block ends where the next thing begins
        tail = "\n" + " " * end.column if end.line > start.line and \
            not getattr(node, "flow_style", True) else ""
        for value in wrong:
            yield (start.line + 1, keys[-1],
                   text[:start.index] + value + tail + text[end.index:])


def complaint(path, line, key, text):
    """The error in the reader's handling of this file, or None."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / path.name
        file.write_text(text)
        done = subprocess.run([QG, "list", "backends", str(file)], text=True,
                              capture_output=True)
    said = done.stderr.strip()
    place = re.search(re.escape(str(file)) + r":(\d+): ", said)
    good = done.returncode == 1 and place and int(place[1]) == line and \
        "expected" in said and (key in said or key.removesuffix("s") in said)
    return None if good else f"{path.name}:{line}: {key}: {said or 'accepted'}"


def main():
    schema = json.loads((ROOT / "schema" / "backend.json").read_text())
    jsonschema.Draft7Validator.check_schema(schema)
    validator = jsonschema.Draft7Validator(schema)
    faults, tried = [], 0
    files = sorted((ROOT / "backends").glob("*.yaml"))
    for path in files:
        faults += schema_faults(path, validator)
        faults += id_faults(path)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        wrong = [(path, *m) for path in files for m in mutations(path.read_text())]
        jobs = [pool.submit(complaint, *w) for w in wrong[::STEP]]
        faults += [f for f in (j.result() for j in jobs) if f]
    print(*faults, sep="\n")
    print(f"{len(files)} files, {len(jobs)} wrong values tried, {len(faults)} failures")
    return len(faults) > 0 or len(jobs) == 0


sys.exit(main())
