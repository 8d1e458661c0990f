#!/usr/bin/env python3
"""Without --max-mem the limit is four fifths of what the control groups of the process
allow: version 1 and 2, and the groups around its own."""
import os
import pathlib
import subprocess
import sys
import tempfile

try:
    from onnx import TensorProto, helper, save
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

QG = os.environ.get("QG", "build/qg")
ROOT = pathlib.Path(__file__).resolve().parents[2]
MB = 1 << 20
NEED, FIFTHS = 200, 4 / 5  # MB of the largest tensor; of the limit that are used
PLENTY = str(2000 * MB)
TWO, ONE = "/sys/fs/cgroup", "/sys/fs/cgroup/memory"
BOTH = "12:cpu:/c\n3:memory:/a/b\n"
# what the process is in, files of limits, whether the tensor fits
CASES = {
    "no list": (None, {}, True),
    "no limit": ("0::/a/b\n", {}, True),
    "version 2, max": ("0::/a/b\n", {f"{TWO}/a/b/memory.max": "max"}, True),
    "version 2, plenty": ("0::/a/b\n", {f"{TWO}/a/b/memory.max": PLENTY}, True),
    "version 2": ("0::/a/b\n", {f"{TWO}/a/b/memory.max": str(100 * MB)}, False),
    "the group around it": ("0::/a/b\n", {f"{TWO}/a/b/memory.max": PLENTY,
                                          f"{TWO}/a/memory.max": str(100 * MB)}, False),
    "another group": ("0::/a/b\n", {f"{TWO}/c/memory.max": str(100 * MB)}, True),
    "the root": ("0::/\n", {f"{TWO}/memory.max": str(100 * MB)}, False),
    "version 1": (BOTH, {f"{ONE}/a/b/memory.limit_in_bytes": str(100 * MB)}, False),
    "version 1, cpu": (BOTH, {f"{ONE}/c/memory.limit_in_bytes": str(100 * MB)}, True),
    "version 1, no limit": (BOTH, {f"{ONE}/a/b/memory.limit_in_bytes": str(2 ** 63 - 4096)},
                            True),
    "just enough": ("0::/a\n", {f"{TWO}/a/memory.max": str(int(2.2 * NEED / FIFTHS) * MB)},
                    True),
    "four fifths": ("0::/a\n", {f"{TWO}/a/memory.max": str(NEED * MB)}, False),
}


def make_model(path):
    dims = helper.make_tensor("d", TensorProto.INT64, [1], [NEED * MB // 4])
    nodes = [helper.make_node("Expand", ["x", "d"], ["y"], name="wide"),
             helper.make_node("ReduceSum", ["y"], ["z"], keepdims=1)]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "g", [value("x", TensorProto.FLOAT, [1])],
                              [value("z", TensorProto.FLOAT, [1])], [dims])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
         path)


def run_in(work, at, groups, limits):
    """qg run where the process is in these groups."""
    root = work / str(at)
    for name, text in {"/proc/self/cgroup": groups, **limits}.items():
        if text is not None:
            path = root / name[1:]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text + "\n")
    return subprocess.run([QG, "run", work / "m.onnx", "-d", "random:1", "-o", root / "out"],
                          text=True, capture_output=True,
                          env={**os.environ, "QG_GROUPS": str(root),
                               "LD_PRELOAD": str(work / "groups.so")})


def main():
    complaints = []
    with tempfile.TemporaryDirectory() as place:
        work = pathlib.Path(place)
        subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-O1", "-o",
                        work / "groups.so", ROOT / "tests/support/preload/groups.c", "-ldl"],
                       check=True)
        make_model(work / "m.onnx")
        for at, (name, (groups, limits, fits)) in enumerate(CASES.items()):
            run = run_in(work, at, groups, limits)
            good = run.returncode == 0 if fits else \
                run.returncode == 1 and "wide" in run.stderr and "--max-mem" in run.stderr
            if not good:
                complaints.append(f"{name}: exit {run.returncode}, {run.stderr.strip()!r}")
    for line in complaints:
        print("FAILED:", line)
    print(f"{len(CASES)} sets of control groups, {len(complaints)} complaints")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
