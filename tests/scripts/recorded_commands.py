"""The commands that test_recorded.py runs: each network meets some of the backends,
observers, formats, targets and methods, and all networks together meet all of them.  The
forms of small_networks.py are for operators: what files, kernels and lint make of each."""
import numpy as np

NETWORKS = [k for k in range(100, 131) if k not in (110, 119, 127)]  # those that hold
PLANTS = (*range(300, 349), 20410, 22119, 62145)
BACKENDS = ["trt-int8", "tflite-int8", "ort-int8", "openvino-int8", "xnnpack-int8",
            "qnn-dsp-int8", "ncnn-int8", "ppl-cuda-int8", "nxp-int8", "cmsis-nn-int8",
            "aimet-default", "snpe-int8", "rknn-int8", "tengine-int8", "trt-fp8",
            "openvino-avx2-int8", "metax-int8-t", "mnn-int8", "asc-int8", "fpga-int8",
            "ppl-dsp-int8", "metax-int8-c", "trt-qdq-int8", "aimet-htp", "graphcore-fp8"]
OBSERVERS = ["percentile", "moving-average", "kl", "kl-published", "mse", "aciq-laplace",
             "aciq-gauss", "ppq-minmax", "ppq-percentile", "ppq-kl", "ppq-mse",
             "ppq-isotone", "ort-average", "ort-moving-average", "ort-percentile",
             "ort-percentile-stream", "ort-entropy", "ort-entropy-stream",
             "ort-distribution", "nvidia-max", "nvidia-percentile",
             "nvidia-percentile-numpy", "nvidia-entropy", "nvidia-entropy-numpy",
             "nvidia-mse", "nvidia-mse-numpy", "ncnn-kl", "ncnn-aciq"]
FORMATS = {"onnx-qdq": ".onnx", "json": ".json", "csv": ".csv", "openvino-ir": ".xml",
           "openvino-fq": ".onnx", "ppq-json": ".json", "tflite": ".tflite",
           "qnn-encodings": ".json", "onnx-qoperator": ".onnx", "aimet": ".encodings",
           "qonnx": ".onnx", "ncnn-table": ".table", "tensorrt-cache": ".cache",
           "tensorrt-json": ".json", "snpe-json": ".json", "ppl-json": ".json",
           "mnn-json": ".json", "ascend-record": ".txt", "rknn-cfg": ".quantization.cfg",
           "tengine-scale": ".scale", "nxp-onnx": ".onnx", "model-explorer": ".json"}
WITH_GRAPH = {"onnx-qdq", "openvino-fq", "onnx-qoperator", "qonnx", "tflite"}
WITHOUT = {"csv", "ppq-json", "aimet", "tensorrt-cache", "tensorrt-json"}
TARGETS = ["ort", "trt", "tflite", "xnnpack", "openvino", "qnn", "ncnn", "cmsis-nn"]
PROFILES = ["tflite-reference", "onnxruntime-x86-vnni", "tflite-xnnpack", "openvino-vnni",
            "tensorrt", "power-of-two", "ncnn-x86", "cmsis-nn", "tflite-builtin-arm",
            "onnxruntime-x86-avx2", "tflite-micro-single", "onnx-reference"]
METHODS = [["lsq"], ["adaround"], ["adaquant"], ["brecq"], ["bias"], ["lsq", "--qdrop"],
           ["lsq", "--optimizer", "sgd"], ["lsq", "--gradient", "tqt"], ["lsq", "--loss", "mse"]]
SETS = ["op=Conv state=fp32", "op=Conv slot=weight bits=4", "op=Add slot=in0 bits=16",
        "pass=equalize run=yes", "pass=bias-correct run=yes", "pass=weight-split run=yes",
        "pass=channel-split run=yes", "pass=gptq run=yes", "pass=smooth-quant run=yes",
        "op=Relu slot=out0 state=dequantized", "op=Conv slot=out0 observer=mse",
        "op=Conv slot=in0 range=[-100,100]", "op=Concat slot=in1 range=[-90,90]",
        "op=MaxPool slot=in0 range=[-80,80]"]


def turn(table, seed, step=1):
    return list(table)[seed * step % len(table)]


def backend_for(observer, backend):
    """The backend, or one whose schemes the observer takes."""
    return ("trt-fp8" if observer == "ort-distribution" else
            "trt-int8" if observer.startswith(("nvidia", "ncnn", "kl")) else backend)


def exports(seed):
    able = {turn(FORMATS, seed), turn(FORMATS, seed + 7), turn(FORMATS, seed + 13)}
    if turn(BACKENDS, seed) in ("tflite-int8", "xnnpack-int8", "cmsis-nn-int8"):
        able.add("tflite")
    for form in sorted(able):
        file = f"{form}{FORMATS[form]}"
        yield ["export", "s", "--format", form, "-o", file, "--report", f"{form}.loss.json"]
        yield ["export", "s", "--format", form, "-o", f"ppq.{file}", "--quirks", "ppq"]
        yield ["export", "set", "--format", form, "-o", f"set.{file}", "--quirks", "ppq"]
        if form in WITH_GRAPH:
            yield ["import", file, "--format", form, "-o", f"{form}.back"]
        elif form in WITHOUT:
            yield ["import", file, "--format", form, "--model", f"{form}.onnx", "-o",
                   f"{form}.back"]


# --- what devices write: (description, arrays, generator) are changed in place ---

def as_it_is(_info, _arrays, _draw):
    pass


def as_floats(info, arrays, _draw):
    """Real values, without grids."""
    for a in info["arrays"]:
        if a["grid"]:
            scale, zero = np.float32(a["grid"]["scale"]), a["grid"]["zero"]
            arrays[a["value"]] = (arrays[a["value"]].astype("f") - zero) * scale
            a["grid"] = None


def renamed(info, arrays, draw):
    """Names of its own, channels last where the description does not say so."""
    for k, a in enumerate(info["arrays"]):
        x = arrays.pop(a["value"])
        if x.ndim == 5:
            x = x[:, 0].transpose(0, 2, 3, 1)
        a["value"], a["endpoint"] = f"tensor_{draw.randint(1000)}_{k}", None
        arrays[a["value"]] = np.ascontiguousarray(x)


def some(info, arrays, draw):
    """Half of the values, and one element that is wrong."""
    info["arrays"] = [a for a in info["arrays"] if draw.rand() < 0.6] or info["arrays"][-1:]
    x = arrays[info["arrays"][-1]["value"]]
    x.flat[draw.randint(x.size)] += 1


def unsigned(info, arrays, _draw):
    """Codes of uint8 where the program has int8."""
    for a in info["arrays"]:
        x = arrays[a["value"]]
        if x.dtype == np.int8 and a["grid"]:
            arrays[a["value"]] = (x.astype(int) + 128).astype(np.uint8)
            a["grid"]["zero"] += 128


def wrong_grid(info, arrays, draw):
    """One grid that is not that of the codes."""
    able = [a for a in info["arrays"] if a["grid"]]
    if able:
        grid = able[draw.randint(len(able))]["grid"]
        grid.update(scale=grid["scale"] * 1.37, zero=grid["zero"] + draw.randint(-1, 2))


FORMS_OF_DUMPS = [as_it_is, as_it_is, as_floats, renamed, some, unsigned, wrong_grid]


def of_network(seed):
    backend, other = turn(BACKENDS, seed), turn(BACKENDS, seed + 9)
    target, profile = turn(TARGETS, seed), turn(PROFILES, seed)
    observer = turn(OBSERVERS, seed)
    budget = turn(["bits=6", "nsr=1%", "size=1K"], seed // 2)
    form = ["--json"] if seed % 2 else ["--all"]
    made = [
        ["quantize", "m.onnx", "-b", backend, "-d", "x.npz", "-o", "s"],
        ["quantize", "m.onnx", "-b", backend_for(observer, backend), "-d", "x.npz", "--observer",
         observer, "-o", "observed"],
        ["quantize", "m.onnx", "-b", other, "-d", "x.npz", "--set", turn(SETS, seed), "-o",
         "set"],
        ["dump", "s"], ["diff", "s", "observed"], ["explain", "s", "Conv_0", *form],
        ["explain", "set", "t3", *form], ["lint", "s", "--target", target, "--fix", "-o",
                                          "lint.yaml", "--sarif", "lint.sarif", *form],
        ["lint", "set", "--target", turn(TARGETS, seed + 4), *form],
        ["analyse", "s", "-d", "y.npz", "--by", turn(["layer", "graph", "cause"], seed), *form],
        ["analyse", "s", "-d", "y.npz", "--by", "layer", "--mode", "integer", "--profile",
         profile, *form],
        ["sensitivity", "s", "-d", "y.npz", "--by", turn(["node", "endpoint", "group"], seed),
         "--direction", turn(["only", "all-but"], seed), *form],
        ["sensitivity", "s", "-d", "x.npz", "--propose", "0.5%", "-o", "propose.yaml", *form],
        ["price", "s", "-d", "y.npz", *form],
        ["compare", "m.onnx", "-d", "x.npz", "-b", backend, "-b", other, "--json"],
        ["stats", "collect", "m.onnx", "-d", "x.npz", "--channels", "t1*", "-o", "c.qgs",
         "--kernels", "reference"],
        ["stats", "show", "c.qgs", *form], ["stats", "show", "c.qgs", "t1", *form],
        ["stats", "derive", "c.qgs", "--model", "m.onnx", "-b", other, *form],
        ["stats", "doctor", "m.onnx", "-d", "x.npz", "--kernels", "reference", *form],
        ["run", "s", "-d", "y.npz", "--dump", "*", "-o", "simulated", *form],
        ["run", "s", "-d", "y.npz", "--mode", "integer", "--profile", profile, "--dump", "*",
         "-o", "integer", *form],
        ["tune", "s", "-d", "x.npz", "--steps", "12", "--method", *turn(METHODS, seed), "-o",
         "tuned", *form],
        ["trace", "s", "-d", "y.npz", "--mode", "simulate", "-o", "trace"],
        ["switch", "s", "--set", "op=Conv state=dequantized", "-o", "switched"],
    ]
    if seed % 2:
        made.append(["search", "s", "-d", "x.npz", "--budget", budget, "-o", "search.yaml",
                     *form])
    if seed % 6 == 1:
        made.append(["infer-backend", "m.onnx", "-d", "y.npz", "--against", "trace", "--from",
                     backend, "-o", "infer.yaml", *form])
    if seed % 6 == 0:
        made.append(["search", "m.onnx", "-b", other, "-d", "x.npz", "--over", "rules", *form])
    return made + list(exports(seed))


def of_plant(seed):
    form = ["--json"] if seed % 2 else ["--all"]
    device = ["s", "-d", "x.npz", "--against", "against"]
    profile = ["--profile", turn(PROFILES[:4], seed)]
    made = [["diverge", *device, *form], ["diverge", *device, *profile, "--top", "3", *form],
            ["diverge", *device, "--end-to-end", *form],
            ["fit", *device, "-o", "fit.yaml", *form],
            ["trace", "s", "-d", "x.npz", "-o", "own.npz", *form],
            ["diff", "own.npz", "against", *form],
            ["probe", "s", "-n", "2", "--between",
             turn(["tflite-reference,tflite-xnnpack", "tflite-micro,tflite-micro-single",
                   "onnxruntime-x86-vnni,onnxruntime-x86-avx2"], seed), "-o", "probe.npz",
             *form]]
    if seed % 5 == 0:
        made.append(["infer-backend", "m.onnx", *device[1:], "--from", "tflite-int8", "-o",
                     "infer.yaml", *form])
    return made


def of_form(k):
    """k: the position of the form in its table."""
    form = ["--json"] if k % 2 else ["--all"]
    made = [["quantize", "m.onnx", "-b", turn(BACKENDS, k), "-d", "x.npz", "-o", "s"],
            ["quantize", "m.onnx", "-b", "tflite-int8", "-d", "x.npz", "-o", "t"],
            ["run", "s", "-d", "x.npz", "--mode", "integer", "--profile", turn(PROFILES, k),
             "--dump", "*", "-o", "integer", *form],
            ["export", "t", "--format", "tflite", "-o", "t.tflite"],
            ["import", "t.tflite", "--format", "tflite", "-o", "t.back"]]
    made += [["lint", folder, "--target", turn(TARGETS, k + step), *form]
             for folder in "st" for step in (0, 3)]
    made += [["export", "s", "--format", name, "-o", f"{name}{FORMATS[name]}"]
             for name in ("openvino-ir", "openvino-fq", "onnx-qoperator", "qonnx")]
    placed = ["--placement", turn(["ort", "trt", "openvino"], k)]
    return made + [["export", "s", "--format", "onnx-qdq", "-o", "q.onnx", *placed],
                   ["import", "q.onnx", "--format", "onnx-qdq", "-o", "q.back"],
                   ["import", "openvino-fq.onnx", "--format", "openvino-fq", "-o", "fq.back"]]
