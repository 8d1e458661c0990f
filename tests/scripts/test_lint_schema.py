"""Every lint target is valid under configs/schema/lint.json; a wrong value in any key is
rejected by both the schema and the reader, whose message contains file, line, key and the
expected value; both have the same predicates; docs/lint matches the files."""
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
from command import EVERYTHING

try:
    import jsonschema
    import wrong_values
except ImportError as missing:
    print(f"skipped: {missing}", file=sys.stderr)
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2] / "configs"
# Of some thousand wrong values the suite tries every eighth; QG_ALL=1: all of them.
STEP = 1 if EVERYTHING else 8
FREE = {"id", "why", "source", "title", "name", "node", "value", "remedy", "slot", "attr",
        "observer", "extends", "-kernels", "-rules", "refused-by"}  # any text


def predicate_faults(schema):
    """Words that only the schema or only the reader has."""
    words = json.loads(subprocess.run([wrong_values.QG, "list", "predicates", "--json"],
                                      text=True, capture_output=True, check=True).stdout)
    alone, with_argument = schema["definitions"]["condition"]["oneOf"]
    known = {*alone["enum"], *with_argument["properties"]} - {"not"}
    for word in sorted(known ^ {row["predicate"] for row in words["predicates"]}):
        yield f"predicate {word}: in one of schema and reader, expected in both"


def main():
    schema = json.loads((ROOT / "schema" / "lint.json").read_text())
    jsonschema.Draft7Validator.check_schema(schema)
    validator = jsonschema.Draft7Validator(schema)
    files = sorted((ROOT / "lint").glob("*.yaml"))
    faults = list(predicate_faults(schema))
    for path in files:
        faults += wrong_values.schema_faults(path, validator)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        wrong = [(path, *m) for path in files
                 for m in wrong_values.mutations(path.read_text(), FREE)]
        jobs = [pool.submit(wrong_values.complaint, "targets", *w) for w in wrong[::STEP]]
        faults += [f for f in (j.result() for j in jobs) if f]
    pages = subprocess.run([sys.executable, "tools/dev/lint_pages.py", "--check"],
                           env={**os.environ, "QG": wrong_values.QG}).returncode
    print(*faults, sep="\n")
    print(f"{len(files)} files, {len(jobs)} wrong values tried, {len(faults)} failures")
    return pages or len(faults) > 0 or not files


sys.exit(main())
