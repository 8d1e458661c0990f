"""Every backend file fits configs/schema/backend.json, and a wrong value in any key of it
does not: the schema and the reader must not drift apart."""
import copy
import json
import pathlib
import sys

try:
    import jsonschema
    import yaml
except ImportError as missing:
    print(f"skipped: {missing}", file=sys.stderr)
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2] / "configs"
WRONG = [{"no such thing": 0}]  # fits no key


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


def main():
    schema = json.loads((ROOT / "schema" / "backend.json").read_text())
    jsonschema.Draft7Validator.check_schema(schema)
    validator = jsonschema.Draft7Validator(schema)
    failed = tried = 0
    for path in sorted((ROOT / "backends").glob("*.yaml")):
        tree = yaml.safe_load(path.read_text())
        for error in validator.iter_errors(tree):
            print(f"{path.name}: {'/'.join(map(str, error.path))}: {error.message}")
            failed += 1
        for place in places(tree):
            tried += 1
            if validator.is_valid(broken(tree, place)):
                print(f"{path.name}: a wrong value at {place} passes")
                failed += 1
    print(f"{tried} wrong values tried, {failed} failures")
    return failed > 0 or tried == 0


sys.exit(main())
