"""Every profile file is valid under configs/schema/profile.json; a wrong value in any key is
rejected by both the schema and the reader, whose message contains file, line, key and the
expected value; and both have the same words."""
import concurrent.futures
import json
import pathlib
import re
import subprocess
import sys
import tempfile
from command import EVERYTHING

try:
    import jsonschema
    import yaml
    import wrong_values
except ImportError as missing:
    print(f"skipped: {missing}", file=sys.stderr)
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2] / "configs"
# Of some thousand wrong values the suite tries every third; QG_ALL=1: all of them.
STEP = 1 if EVERYTHING else 3
FREE = {"id", "why", "source", "title", "name"}  # these keys accept any text

# A row with a wrong word for each key of an enumeration.
ROW = """name: x
codes: {activation: int8, weight: int8, bias: int32}
kernels:
- {id: r, why: w, source: s, %s}
"""
WORDS = {
    "use": "use: no-such-thing", "form": "use: add, form: no-such-thing",
    "products": "use: conv, products: no-such-thing",
    "tail": "use: conv, tail: no-such-thing",
    "scheme": "use: conv, scheme: no-such-thing",
    "factor": "use: conv, scheme: float-rne, factor: no-such-thing",
    "zero": "use: conv, scheme: float-rne, factor: f32, zero: no-such-thing",
    "rounding": "use: quantize, form: divide, rounding: no-such-thing",
    "clamp": "use: add, form: fma, clamp: no-such-thing",
}


def load(text):
    """The tree with texts for keys, as the reader has them: 8 is "8"."""
    def texts(tree):
        if isinstance(tree, dict):
            return {str(key): texts(value) for key, value in tree.items()}
        return [texts(item) for item in tree] if isinstance(tree, list) else tree
    return texts(yaml.safe_load(text))


def enumeration(schema, key):
    node = schema["definitions"]["row"]["properties"][key]
    while "enum" not in node:
        node = node.get("oneOf", [node])[0]
        if "$ref" in node:
            node = schema["definitions"][node["$ref"].rpartition("/")[2]]
    return {"no" if word is False else word for word in node["enum"]}


def word_faults(schema):
    """Keys whose words differ between the schema and the reader's message."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "x.yaml"
        for key, row in WORDS.items():
            file.write_text(ROW % row)
            said = subprocess.run([wrong_values.QG, "list", "profiles", str(file)],
                                  text=True, capture_output=True).stderr.strip()
            words = set(re.split(r", | or ", said.partition("expected ")[2]))
            if words != enumeration(schema, key):
                yield f"{key}: {sorted(words ^ enumeration(schema, key))}: {said}"


def main():
    schema = json.loads((ROOT / "schema" / "profile.json").read_text())
    jsonschema.Draft7Validator.check_schema(schema)
    validator = jsonschema.Draft7Validator(schema)
    files = sorted((ROOT / "profiles").glob("*.yaml"))
    faults = list(word_faults(schema))
    for path in files:
        faults += wrong_values.schema_faults(path, validator, load)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        wrong = [(path, *m) for path in files
                 for m in wrong_values.mutations(path.read_text(), FREE)]
        jobs = [pool.submit(wrong_values.complaint, "profiles", *w) for w in wrong[::STEP]]
        faults += [f for f in (j.result() for j in jobs) if f]
    print(*faults, sep="\n")
    print(f"{len(files)} files, {len(jobs)} wrong values tried, {len(faults)} failures")
    return len(faults) > 0 or len(jobs) == 0


sys.exit(main())
