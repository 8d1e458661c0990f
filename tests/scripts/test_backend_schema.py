"""Every backend file is valid under configs/schema/backend.json, and a wrong value in
any key is rejected by both the schema and the reader, whose message contains file,
line, key and the expected value.  The two must stay consistent."""
import concurrent.futures
import json
import pathlib
import sys
from command import EVERYTHING

try:
    import jsonschema
    import yaml
    import wrong_values
except ImportError as missing:
    print(f"skipped: {missing}", file=sys.stderr)
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2] / "configs"
# Of some thousand wrong values the suite tries every eighth; QG_ALL=1: all of them.
STEP = 1 if EVERYTHING else 8

# These keys accept any text; the reader cannot reject one.
FREE = {"id", "why", "source", "title", "name", "node", "value", "from", "to",
        "pipeline", "attr"}


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


def main():
    schema = json.loads((ROOT / "schema" / "backend.json").read_text())
    jsonschema.Draft7Validator.check_schema(schema)
    validator = jsonschema.Draft7Validator(schema)
    faults, tried = [], 0
    files = sorted((ROOT / "backends").glob("*.yaml"))
    for path in files:
        faults += wrong_values.schema_faults(path, validator)
        faults += id_faults(path)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        wrong = [(path, *m) for path in files
                 for m in wrong_values.mutations(path.read_text(), FREE)]
        jobs = [pool.submit(wrong_values.complaint, "backends", *w) for w in wrong[::STEP]]
        faults += [f for f in (j.result() for j in jobs) if f]
    print(*faults, sep="\n")
    print(f"{len(files)} files, {len(jobs)} wrong values tried, {len(faults)} failures")
    return len(faults) > 0 or len(jobs) == 0


sys.exit(main())
