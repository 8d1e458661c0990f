#!/usr/bin/env python3
"""Networks of the zoo at published widths: our float forward and our simulation in turns
with onnxruntime's float forward.

    tests/bench/networks.py [--build BUILD] [--rounds N] [--threads N] [--write] [NETWORK...]

One sample, one thread.  Times are CPU time of that thread, the best of many runs, in turns
with the other program's, so that both meet the same machine.  Prints ratios (below 1 we are
faster), the time to make a plan or a session, and with --write puts the table into
docs/performance.md.  Nothing is asserted.

With --threads N above 1 one sample by N threads of either program: wall time, and no
simulation; what else runs on the machine then shows in the figures."""
import argparse
import os
import pathlib
import platform
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnxruntime as ort

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "zoo"))
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "scripts"))
import run as zoo

NETWORKS = ("resnet18", "resnet50", "mobilenet_v2", "mobilenet_v3", "efficientnet_b0",
            "efficientnet_lite", "shufflenet_v2", "densenet121", "convnext", "vit", "swin",
            "mlp_mixer", "yolo_v5", "yolo_v8", "ssd_mobilenet", "yunet", "unet", "segformer",
            "deeplab_v3", "edsr", "fsrcnn", "dbnet", "dcgan", "diffusion_unet", "crnn",
            "svtr", "ds_cnn", "conformer", "wavenet", "acoustic_lstm", "gru_tagger", "bert",
            "gpt2", "gpt2_cache", "llama", "t5_encoder", "dlrm", "pointnet")
PAGE = pathlib.Path("docs/performance.md")
MARK = "<!-- tests/bench/networks.py{} -->"
SPAN = 0.25  # seconds of one turn


def session_of(path, threads):
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    start = time.thread_time()
    session = ort.InferenceSession(str(path), options)
    return session, 1e3 * (time.thread_time() - start)


def theirs(session, feed, runs, clock=time.thread_time):
    best = np.inf
    for _ in range(runs):
        start = clock()
        session.run(None, feed)
        best = min(best, clock() - start)
    return 1e3 * best


def words(*command):
    out = subprocess.run(list(map(str, command)), check=True, capture_output=True,
                         text=True).stdout.split()
    return dict(zip(out[::2], map(float, out[1::2])))


def measure_together(path, feed, o):
    """The row of one sample by several threads; ours by one thread beside it."""
    row = {"ort": np.inf, "float": np.inf, "one": np.inf}
    session, _ = session_of(path, o.threads)
    first = theirs(session, feed, 3, time.perf_counter)
    runs = max(3, min(200, int(1e3 * SPAN / max(first, 1e-3))))
    for _ in range(o.rounds):
        for key, threads in (("float", o.threads), ("one", 1)):
            figures = words(f"{o.build}/tests/bench_forward", path, runs, threads)
            row[key] = min(row[key], figures["best_ms"])
        row["ort"] = min(row["ort"], theirs(session, feed, runs, time.perf_counter))
    return row


def measure(name, folder, o):
    """One row of figures."""
    path = folder / f"{name}.onnx"
    net = zoo.graph.build(name, wide=True)
    net.close()
    feed = {k: np.asarray(v[0]) for k, v in net.save(path, 1).items()}
    if o.threads > 1:
        row = measure_together(path, feed, o)
        path.unlink()
        return {"name": name, "kind": net.kind, **row}
    session, opening = session_of(path, 1)
    first = theirs(session, feed, 3)
    runs = max(3, min(200, int(1e3 * SPAN / max(first, 1e-3))))
    row = {"name": name, "kind": net.kind, "session": opening, "ort": np.inf, "float": np.inf,
           "simulate": np.inf}
    for _ in range(o.rounds):
        figures = words(f"{o.build}/tests/bench_forward", path, runs)
        row["float"], row["plan"] = min(row["float"], figures["best_ms"]), figures["plan_ms"]
        row["ort"] = min(row["ort"], theirs(session, feed, runs))
    if o.simulate:
        try:
            row["simulate"] = min(
                words(f"{o.build}/tests/bench_simulate", path, o.simulate,
                      max(3, runs // 2))["ratio"] for _ in range(2))
        except subprocess.CalledProcessError as wrong:
            print(f"  {name}: {wrong.stderr.strip()}", file=sys.stderr)
    path.unlink()
    return row


FORM = ("{name:18} {ort:>9.3f} {float:>9.3f} {ratio:>6.2f} {simulate:>9} {plan:>8.1f} "
        "{session:>8.1f}")
TOGETHER = "{name:18} {ort:>9.3f} {float:>9.3f} {ratio:>6.2f} {one:>9.3f} {gain:>6.2f}"
HEAD_TOGETHER = ("{:18} {:>9} {:>9} {:>6} {:>9} {:>6}"
                 .format("network", "ort ms", "ours ms", "ratio", "1 thread", "gain"))
HEAD = ("{:18} {:>9} {:>9} {:>6} {:>9} {:>8} {:>8}"
        .format("network", "ort ms", "ours ms", "ratio", "simulate", "plan", "session"))


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":")[1].strip()
    return platform.machine()


def summary(rows):
    """How many are at most as slow as ONNX Runtime, as the table shows it."""
    ratios = np.array([r["ratio"] for r in rows])
    return (f"{(np.round(ratios, 2) <= 1).sum()} of {len(rows)} networks at most 1.00, "
            f"geometric mean {np.exp(np.log(ratios).mean()):.2f}.")


def table_together(rows, o):
    lines = [f"{processor()}, {o.threads} threads, onnxruntime {ort.__version__}, wall time, "
             f"best of {o.rounds} turns. "
             f"{summary(rows)}", "",
             "| network | ONNX Runtime, ms | ours, ms | ratio | ours with 1 thread, ms | gain |",
             "|---|--:|--:|--:|--:|--:|"]
    return lines + ["| {name} | {ort:.3f} | {float:.3f} | {ratio:.2f} | {one:.3f} | {gain:.2f} |"
                    .format(**r) for r in rows]


def table(rows, o):
    lines = [f"{processor()}, 1 thread, onnxruntime {ort.__version__}, CPU time, best of "
             f"{o.rounds} turns. {summary(rows)}", "",
             "| network | kind | ONNX Runtime, ms | ours, ms | ratio | simulate / float | plan, "
             "ms | session, ms |", "|---|---|--:|--:|--:|--:|--:|--:|"]
    lines += ["| {name} | {kind} | {ort:.3f} | {float:.3f} | {ratio:.2f} | {simulate} | "
              "{plan:.1f} | {session:.1f} |".format(**r) for r in rows]
    return lines


def write(rows, o):
    """Replaces the table in the page."""
    mark = MARK.format(f" --threads {o.threads}" if o.threads > 1 else "")
    lines = (table_together if o.threads > 1 else table)(rows, o)
    head, _, tail = PAGE.read_text().partition(mark)
    _, _, tail = tail.partition(mark)
    PAGE.write_text(head + mark + "\n" + "\n".join(lines) + "\n" + mark + tail)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=os.environ.get("QG_BUILD", "build"))
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--threads", type=int, default=1,
                        help="that compute a sample together")
    parser.add_argument("--simulate", default="trt-int8", metavar="BACKEND",
                        help="backend of the simulation; empty: none")
    parser.add_argument("--write", action="store_true", help=f"into {PAGE}")
    parser.add_argument("networks", nargs="*")
    o = parser.parse_args()
    rows = []
    form, head = (TOGETHER, HEAD_TOGETHER) if o.threads > 1 else (FORM, HEAD)
    print(head, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for name in o.networks or NETWORKS:
            try:
                row = measure(name, pathlib.Path(folder), o)
            except subprocess.CalledProcessError as wrong:
                print(f"{name:18} FAILED {wrong.stderr.strip()}", flush=True)
                continue
            row["ratio"] = row["float"] / row["ort"]
            if o.threads > 1:
                row["gain"] = row["one"] / row["float"]
            else:
                row["simulate"] = f"{row['simulate']:.2f}" if o.simulate else "-"
            rows.append(row)
            print(form.format(**row), flush=True)
    print(summary(rows))
    if o.write:
        write(rows, o)
    return 0


if __name__ == "__main__":
    sys.exit(main())
