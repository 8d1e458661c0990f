#!/usr/bin/env python3
"""import(export(x)) is x up to the loss report: models x backends and schemes x formats.

Exact   where the report says that nothing computed is lost, the imported snapshot gives
        the same bits for 4 samples
Again   a second export in the same format loses no computed value, and imports to
        the same snapshot
Refused tflite has integer kernels only: other schemes are refused
Scales  every scale (and offset) of an endpoint that rounds is that of one which rounded
        before, but for last bits that the report tells

usage: test_round_trips.py [MODEL...]     digits; with QG_ALL=1 every model that is here
Skipped (77) without numpy and onnx."""
import json
import pathlib
import sys
import tempfile

try:
    import numpy as np
    import onnx
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import agreement
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "zoo"))
import graph
import sequence  # noqa: F401  it registers scan_rnn
from command import EVERYTHING

ACTIVATION = "op=* slot=[input,output] "
WEIGHT = "op=[Conv,Gemm,MatMul] slot=weight constant=yes "
FLOAT8 = "policy={},floating,symmetric,power-of-2 exponent-bits=4 range=-448,448"
CASES = {  # backend and options of qg quantize
    "trt-int8": (), "openvino-int8": (), "ncnn-int8": (), "ppl-dsp-int8": (),
    "openvino-mixed-int8": (), "openvino-avx2-int8": (),
    "ort-int8": (), "nxp-int8": (), "xnnpack-int8": (), "trt-fp8": (), "tflite-int8": (),
    "int4": ("trt-int8", WEIGHT + "bits=4 range=-8,7"),
    "int16": ("trt-int8", ACTIVATION + "bits=16 range=-32768,32767"),
    "float8": ("trt-int8", ACTIVATION + FLOAT8.format("per-tensor"),
               WEIGHT + FLOAT8.format("per-channel")),
    "per tensor": ("trt-int8", WEIGHT + "policy=per-tensor,linear,symmetric"),
    "unsigned": ("openvino-int8", "pass=unsigned-activations run=yes"),
    "directed": ("trt-int8", ACTIVATION + "rounding=up", WEIGHT + "rounding=down"),
    "levels": ("ppl-dsp-int8", ACTIVATION + "rounding=half-even-level"),
}
FORMATS = {"onnx-qdq": "onnx", "onnx-qoperator": "onnx", "openvino-fq": "onnx",
           "tflite": "tflite", "qonnx": "onnx", "ppq-json": "json"}
TIES = "add the zero point before they round"  # of qonnx: no record has that order
TABLES = {"aimet 0.4.0": "json", "aimet 0.6.1": "json", "aimet 1.0.0": "json",
          "aimet 2.0.0": "json", "tensorrt-json": "json", "tensorrt-cache": "cache",
          "csv": "csv", "ncnn-table": "table"}
LEAST_EXACT = 0.35  # of all round trips in FORMATS; a table lacks what its reader derives
LEAST_TABLES = 0.1
assert onnx


def roundings(folder):
    """{(scale, offset)} of what rounds."""
    quant = json.loads(pathlib.Path(folder, "quant.json").read_text())
    return {(tuple(np.float32(t["scale"]).tolist()), tuple(t["offset"] or [0]))
            for t in quant["tqcs"] if t["scale"] and t["state"] in (
                "ACTIVATED", "PASSIVE", "BAKED", "PASSIVE_BAKED")}


def there_and_back(snapshot, format_name, work):
    """The imported folder, the report, or None where the format refuses."""
    file = f"{work}.{(FORMATS | TABLES)[format_name]}"
    format_name, *version = format_name.split()
    version = ["--version", *version] if version else []
    model = [] if file.endswith(("onnx", "tflite")) else ["--model", f"{work}.onnx"]
    place = ["--placement", "ort"] if format_name == "onnx-qdq" else []  # has all types
    report = json.loads(agreement.qg("export", snapshot, "--format", format_name, "-o", file,
                                     *place, *version, "--json"))
    agreement.qg("import", file, "--format", format_name, *model, "-o", work)
    return report


def simulated(snapshot, data, folder):
    # reference kernels: an Add for the bias gives the sum of the convolution, on any CPU
    agreement.qg("run", snapshot, "-d", data, "--kernels", "reference", "-o", folder)
    return {f.name: f.read_bytes() for f in sorted(pathlib.Path(folder).glob("*.npy"))}


def check(s, want, format_name, folder):
    """('exact', 'told', or what is wrong)."""
    once, twice = f"{folder}/once", f"{folder}/twice"
    report = there_and_back(s.path, format_name, once)
    got = simulated(once, s.data, once + ".out")
    told = report["changed_results"] or \
        any("last bit" in row["meaning"] for row in report["losses"])
    if not told and got != want:
        return "other results without a word in the report"
    known = roundings(s.path)
    if any("128 higher" in row["meaning"] for row in report["losses"]):
        known |= {(scale, tuple(z + 128 for z in zero)) for scale, zero in known}
    strange = roundings(once) - known
    if strange and format_name == "onnx-qdq":
        return f"scales that nobody had: {list(strange)[:1]}"
    again = there_and_back(once, format_name, twice)
    lost = [r for r in again["losses"] if r["changes_results"] and TIES not in r["meaning"]]
    if lost:
        return f"loses again: {lost[:1]}"
    if simulated(twice, s.data, twice + ".out") != got:
        return "a second round trip gives other results"
    return "told" if told else "exact"


def models(folder):
    """Those of agreement, and a network whose body has the value that another node rounds."""
    yield from agreement.models()
    path = pathlib.Path(folder, "scan.onnx")
    x = next(iter(graph.build("scan_rnn").save(path, 4).values()))
    yield "scan", path, x


def main():
    with tempfile.TemporaryDirectory() as folder:
        return check_all(models(folder))


def check_all(subjects):
    wanted = sys.argv[1:] or (None if EVERYTHING else ["digits", "scan"])
    count, tables, bad = {"exact": 0, "told": 0}, {"exact": 0, "told": 0}, 0
    refused = 0
    for name, path, x in subjects:
        for case, (*options,) in CASES.items():
            if wanted is not None and name not in wanted or \
                    name == "scan" and case != "trt-int8":
                continue
            backend, *sets = options or [case]
            words = [w for text in sets for w in ("--set", text)]
            with tempfile.TemporaryDirectory() as folder:
                s = agreement.Snapshot(f"{folder}/s", path, backend, x[:4], *words)
                want = simulated(s.path, s.data, f"{folder}/want")
                for format_name in FORMATS | TABLES:
                    where = pathlib.Path(folder, format_name)
                    where.mkdir()
                    try:
                        verdict = check(s, want, format_name, where)
                    except RuntimeError as why:  # it has integer kernels only
                        verdict = str(why)
                        if format_name == "tflite" and (case != "tflite-int8" or name == "scan") and (
                                "integer kernel" in verdict or "codes of" in verdict or
                                "symmetric int8 weights" in verdict):
                            refused += 1
                            continue
                    if verdict in count:
                        (tables if format_name in TABLES else count)[verdict] += 1
                        continue
                    print(f"FAILED {name} {case} {format_name}: {verdict}")
                    bad += 1
    print(count, tables, f"{refused} refused")
    bad += count["exact"] < LEAST_EXACT * sum(count.values())
    bad += tables["exact"] < LEAST_TABLES * sum(tables.values())
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
