#!/usr/bin/env python3
"""quant.json of every backend on the demo model against configs/schema/quant.json."""
import json
import os
import subprocess
import sys
import tempfile

try:
    import jsonschema
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

QG = os.environ.get("QG", "build/qg")


def main():
    with open("configs/schema/quant.json", encoding="utf-8") as f:
        validator = jsonschema.Draft202012Validator(json.load(f))
    backends = sorted(n[:-5] for n in os.listdir("configs/backends") if n.endswith(".yaml"))
    bad = 0
    for backend in backends:
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([QG, "quantize", "configs/models/digits.onnx", "-b", backend, "-d",
                            "configs/data/digits_calib.npy", "-n", "8", "-o", folder],
                           check=True, stdout=subprocess.DEVNULL)
            with open(f"{folder}/quant.json", encoding="utf-8") as f:
                document = json.load(f)
        errors = list(validator.iter_errors(document))
        for error in errors[:5]:
            print(f"{backend}: {error.json_path}: {error.message}")
        bad += bool(errors)
        document["tqcs"][0]["state"] = "nonsense"  # the schema must be able to refuse
        if not list(validator.iter_errors(document)):
            print(f"{backend}: the schema accepts a state that does not exist")
            bad += 1
    print(f"{len(backends)} backends, {bad} failed")
    return bad > 0 or not backends


if __name__ == "__main__":
    sys.exit(main())
