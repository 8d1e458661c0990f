#!/usr/bin/env python3
"""qg tune, killed at ten random moments: the same command goes on behind the last block
that was done and writes the bytes of a run that nobody disturbed; a damaged checkpoint
is learned again, one of other options is not looked at."""
import contextlib
import hashlib
import json
import os
import pathlib
import pty
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

try:
    import numpy as np
    import onnx
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)
from command import QG, qg

MODEL = "configs/models/digits.onnx"
CALIB = "configs/data/digits_calib.npy"
BITS = ["op=Conv slot=in1 bits=4 range=[-7,7]", "op=Gemm slot=in1 bits=4 range=[-7,7]",
        "node=* slot=in0 bits=4 range=[-8,7]", "node=* slot=out* bits=4 range=[-8,7]"]
STEPS, MOMENTS = 60, 10


def words(root, out, *more):
    """adaround at 8 bits; with a method in `more` at 4 bits, with offsets."""
    how = ["four"] if "--method" in more else ["eight", "--method", "adaround"]
    return ["tune", root / how[0], *how[1:], "-d", CALIB, "--steps", STEPS, *more, "-o", out]


# Options of which a checkpoint must know; the network as a whole learns in one block.
LSQ = ["--method", "lsq"]
OTHERS = {"qdrop": ["--qdrop", "--method", "adaround"],
          "offsets": ["--gradient", "lsq-plus", "--qdrop", *LSQ],
          "kd": ["--loss", "kd", "--qdrop", "--lr", 0.001, *LSQ],
          "mse": ["--loss", "mse", "--gradient", "nncf-asymmetric", "--lr", 0.001, *LSQ]}


def content(folder):
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.iterdir()}


def killed(command, after):
    """Whether the process was killed before it was done, `after` so many seconds."""
    process = subprocess.Popen([QG, *map(str, command)], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    try:
        process.wait(after)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait()
    return process.returncode == -signal.SIGKILL


def kill(root, out, more, after):
    """Kill it while it works: where it was done first, once more in half the time."""
    while not killed(words(root, out, *more), after):
        shutil.rmtree(out)
        after /= 2


def test_killed(root, want, seconds, name="k", more=()):
    draw = random.Random(20)
    for at in range(MOMENTS):
        out, part = root / f"{name}{at}", root / f"{name}{at}.part"
        kill(root, out, more, draw.uniform(0.1, 0.9) * seconds)
        if not out.exists() and part.exists():
            names = {p.name for p in part.iterdir() if not p.name.startswith(".")}
            assert all(len(n) == 64 for n in names), names
        qg(*words(root, out, *more, "-j", 1 + at % 2))
        assert content(out) == want, f"{name}: killed at moment {at}: other bytes"
        assert not part.exists(), "the checkpoints stay behind"
    print(f"{name}: {MOMENTS} times killed, all resumed with the same bytes")


def begin_behind(root, out, blocks, command=None, **more):
    """A process that has done so many blocks, and their folder."""
    part = out.with_name(out.name + ".part")
    process = subprocess.Popen([QG, *map(str, command or words(root, out))],
                               stdout=subprocess.DEVNULL, **more)
    while process.poll() is None and not (
            part.is_dir() and len(list(part.glob("[0-9a-f]*"))) >= blocks):
        time.sleep(0.005)
    return process, part


def stop_behind(*args):
    """A process that is killed once so many blocks are done."""
    process, part = begin_behind(*args)
    process.kill()
    process.wait()
    return part


def test_interrupted(root, want):
    """Ctrl-C and SIGTERM say how to go on."""
    for number, status in (signal.SIGINT, 130), (signal.SIGTERM, 143):
        out = root / f"interrupted{status}"
        process, part = begin_behind(
            root, out, 1, stderr=subprocess.PIPE, text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        process.send_signal(number)
        error = process.communicate()[1]
        assert process.returncode == status and error == (
            f"qg: tune: interrupted: the same command goes on from '{part}'\n"), error
        qg(*words(root, out))
        assert content(out) == want and not part.exists()


def test_damaged(root, want):
    for at, damage in enumerate((lambda b: b[:-1], lambda b: b"", lambda b: b[:40] + b"\xff" * 8
                                 + b[48:], lambda b: b[::-1], lambda b: b + b"x")):
        out = root / f"d{at}"
        part = stop_behind(root, out, 3)
        for path in part.glob("[0-9a-f]*"):
            path.write_bytes(damage(path.read_bytes()))
        qg(*words(root, out))
        assert content(out) == want, f"damage {at}"


def test_others(root, want):
    """Checkpoints of another seed are no part of the result; files of others stay."""
    out = root / "o"
    part = stop_behind(root, out, 2)
    (part / "notes.txt").write_text("mine")
    qg(*words(root, out, "--seed", 7))
    assert content(out) != want
    assert [p.name for p in part.iterdir()] == ["notes.txt"]
    shutil.rmtree(part)
    qg("tune", root / "eight", "-d", CALIB, "--steps", 1, "--lr", 1000, "-o", root / "none")
    assert content(root / "none") == content(root / "eight"), "the start is written"
    assert not (root / "none.part").exists()


def test_leftovers(root, want):
    """What a killed writer left goes with the checkpoints, also where nobody has asked for the
    status of its process, and when all blocks are there; that of a running process stays."""
    out, part = root / "left", root / "left.part"
    stop_behind(root, out, 2)
    zombie = subprocess.Popen([QG, "--version"], stdout=subprocess.DEVNULL)
    os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
    dead, live = (part / f".qg-{pid}-00000001-0.tmp" for pid in (zombie.pid, os.getpid()))
    dead.touch()
    live.touch()
    qg(*words(root, out))
    assert [p.name for p in part.iterdir()] == [live.name]
    shutil.rmtree(out)
    live.rename(part / dead.name)
    qg(*words(root, out))
    assert content(out) == want and not part.exists()
    zombie.wait()


def test_directory(root, want):
    """A directory with the name of a checkpoint is none: the run says so and goes on."""
    out, part = root / "named", root / "named.part"
    names = [p.name for p in stop_behind(root, out, 2).glob("[0-9a-f]*")]
    shutil.rmtree(part)
    (part / names[0] / "mine").mkdir(parents=True)
    run = subprocess.run([QG, *map(str, words(root, out))], capture_output=True, text=True)
    assert run.returncode == 0 and f"{names[0]}: is a directory" in run.stderr, run.stderr
    assert content(out) == want and [p.name for p in part.iterdir()] == [names[0]]


def test_two(root, want):
    """Two that tune into one folder, and one that fails at once: each ends with the bytes."""
    out = root / "two-at-once"
    running = [subprocess.Popen([QG, *map(str, words(root, out))], stdout=subprocess.DEVNULL,
                                stderr=subprocess.PIPE, text=True) for _ in range(2)]
    while any(process.poll() is None for process in running):
        qg(*words(root, out, "--block", "nope"), fails="block 'nope': there is none")
    for process in running:
        error = process.communicate()[1]
        assert process.returncode == 0, error
    assert content(out) == want and not out.with_name(out.name + ".part").exists()


def test_shown(root, want):
    """What an earlier run has learned is shown as such, on a terminal too."""
    part = stop_behind(root, root / "s", 2)
    learned = len(list(part.glob("[0-9a-f]*")))
    master, slave = pty.openpty()
    run = subprocess.Popen([QG, *map(str, words(root, root / "s")), "--json"], stderr=slave,
                           stdout=subprocess.PIPE, text=True)
    os.close(slave)
    report, shown = json.loads(run.communicate()[0]), b""
    with contextlib.suppress(OSError):  # the terminal is closed
        while more := os.read(master, 65536):
            shown += more
    os.close(master)
    assert report["resumed"].startswith(f"{learned} of "), report
    assert b"resume " in shown and shown.index(b"resume ") < shown.index(b"tune "), shown[:400]
    assert content(root / "s") == want


def test_other_end(root):
    """What brecq learns of a block depends on the network behind it, also where the block and its
    samples are the same."""
    other = onnx.load(MODEL)
    gemm = [n for n in other.graph.node if n.op_type == "Gemm"][-1]
    [last] = [t for t in other.graph.initializer if t.name == gemm.input[1]]
    values = onnx.numpy_helper.to_array(last)
    values = values * np.linspace(0.1, 3, values.size, dtype="f4").reshape(values.shape)
    last.CopyFrom(onnx.numpy_helper.from_array(values, last.name))
    onnx.save(other, root / "other.onnx")
    for name, model in (("one", MODEL), ("two", root / "other.onnx")):
        qg("quantize", model, "-b", "trt-int8", "-d", CALIB, "--set", BITS[0], "-o", root / name)

    def command(start, out):
        return ["tune", root / start, "-d", CALIB, "--method", "brecq", "--steps", STEPS, "-o", out]
    qg(*command("two", root / "clean"))
    part = stop_behind(root, root / "mixed", 1, command("one", root / "mixed"))
    assert list(part.glob("[0-9a-f]*"))
    qg(*command("two", root / "mixed"))
    assert content(root / "mixed") == content(root / "clean")


def undisturbed(root, out, *more):
    begin = time.monotonic()
    qg(*words(root, out, *more))
    return content(out), time.monotonic() - begin


def main():
    with tempfile.TemporaryDirectory() as place:
        root = pathlib.Path(place)
        qg("quantize", MODEL, "-b", "trt-int8", "-d", CALIB, "-o", root / "eight")
        qg("quantize", MODEL, "-b", "tflite-int8", "-d", CALIB,
           *(w for bits in BITS for w in ("--set", bits)), "-o", root / "four")
        want, seconds = undisturbed(root, root / "whole")
        seen = [want]
        test_killed(root, want, seconds)
        for name, more in OTHERS.items():
            other, took = undisturbed(root, root / name, *more)
            assert other not in seen, name
            seen.append(other)
            test_killed(root, other, took, name, more)
        test_interrupted(root, want)
        test_shown(root, want)
        test_other_end(root)
        test_damaged(root, want)
        test_others(root, want)
        test_leftovers(root, want)
        test_directory(root, want)
        test_two(root, want)


if __name__ == "__main__":
    os.chdir(pathlib.Path(__file__).resolve().parents[2])
    sys.exit(main())
