"""Wrong values in configuration files: each value of a file, made wrong in turn, must be
rejected by the schema and by the reader."""
import copy
import os
import pathlib
import re
import subprocess
import tempfile

import yaml

QG = os.path.abspath(os.environ.get("QG", "build/qg"))
WRONG = [{"no such thing": 0}]  # valid for no key


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


def narrowed(validator, tree, place):
    """The validator, the subtree and the rest of the place, as far as properties and items lead
    there: what is invalid below is invalid as a whole."""
    root = schema = validator.schema
    while True:
        if "$ref" in schema:
            schema = root["definitions"][schema["$ref"].rpartition("/")[2]]
            continue
        below = schema.get("items") if isinstance(place[0], int) else \
            schema.get("properties", {}).get(place[0])
        if len(place) == 1 or not isinstance(below, dict):
            return validator.evolve(schema=schema), tree, place
        schema, tree, place = below, tree[place[0]], place[1:]


def takes_wrong(validator, tree, place):
    part, subtree, rest = narrowed(validator, tree, place)
    return part.is_valid(broken(subtree, rest)) and validator.is_valid(broken(tree, place))


def schema_faults(path, validator, load=yaml.safe_load):
    tree = load(path.read_text())
    for error in validator.iter_errors(tree):
        yield f"{path.name}: {'/'.join(map(str, error.path))}: {error.message}"
    for place in places(tree):
        if takes_wrong(validator, tree, place):
            yield f"{path.name}: the schema takes a wrong value at {place}"


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


def mutations(text, free):
    """(line from 1, key, text with one wrong value) for every value of a file: of a
    wrong kind, and for enumerations also an unknown word.  free: keys of any text."""
    for path, node in nodes(yaml.compose(text)):
        keys = [k for k in path if isinstance(k, str)]
        wrong = ["[{no-such-thing: 0}]"]
        # entries that a quirk removes may already be absent in some file
        taken = "with-quirk" in keys and re.match("-(rules|fusions|sharing)$", keys[-1])
        if isinstance(node, yaml.ScalarNode) and not free & set(keys) and not taken:
            wrong.append("no-such-thing")
        start, end = node.start_mark, node.end_mark
        # a block ends where the next thing begins
        tail = "\n" + " " * end.column if end.line > start.line and \
            not getattr(node, "flow_style", True) else ""
        for value in wrong:
            yield (start.line + 1, keys[-1],
                   text[:start.index] + value + tail + text[end.index:])


def complaint(topic, path, line, key, text):
    """The error in the reader's handling of this file, or None."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / path.name
        file.write_text(text)
        done = subprocess.run([QG, "list", topic, str(file)], text=True,
                              capture_output=True)
    said = done.stderr.strip()
    place = re.search(re.escape(str(file)) + r":(\d+): ", said)
    good = done.returncode == 1 and place and int(place[1]) == line and \
        "expected" in said and (key in said or key.removesuffix("s") in said)
    return None if good else f"{path.name}:{line}: {key}: {said or 'accepted'}"
