"""qg quantize-tensor against a model in NumPy, and its messages for bad input."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import ml_dtypes
    import numpy as np
except ImportError as e:
    print(f"skipped: {e}")
    sys.exit(77)

QG = os.environ["QG"]
TENSOR, CHANNEL, BLOCK = "per-tensor", "per-channel", "block"
FLOATING = "per-tensor,floating,symmetric,power-of-2"
f32 = np.float32


def qg(*args):
    return subprocess.run([QG, "quantize-tensor", *map(str, args)], text=True,
                          capture_output=True)


# --- the model ---

ROUND = {
    "half-even": np.rint,
    "half-up": lambda t: np.floor(t + 0.5),
    "half-down": lambda t: np.ceil(t - 0.5),
    "half-toward-zero": lambda t: np.sign(t) * np.ceil(np.abs(t) - 0.5),
    "half-away-from-zero": lambda t: np.sign(t) * np.floor(np.abs(t) + 0.5),
    "near-int": lambda t: np.sign(t) * np.floor(np.abs(t) + 0.5),
    "up": np.ceil,
    "down": np.floor,
}


def from_range(low, high, symmetric, power, qmin, qmax):
    low, high = min(float(low), 0.0), max(float(high), 0.0)
    width = 2 * max(-low, high) if symmetric else high - low
    scale = max(width / (qmax - qmin), 1e-8)
    if power:
        scale = 2.0 ** np.ceil(np.log2(scale))
    zero = 0 if symmetric else int(np.clip(qmin + np.rint(-low / scale), qmin, qmax))
    return f32(scale), zero


def slices(x, granularity, axis, block):
    """Index of the elements of each parameter, parameters in memory order."""
    if granularity == TENSOR:
        return [np.s_[...]]
    if granularity == CHANNEL:
        return [(slice(None),) * axis + (c,) for c in range(x.shape[axis])]
    starts = range(0, x.shape[axis], block)
    shape = x.shape[:axis] + (len(starts),) + x.shape[axis + 1:]
    return [i[:axis] + (slice(i[axis] * block, i[axis] * block + block),) + i[axis + 1:]
            for i in np.ndindex(*shape)]


def model(x, granularity=TENSOR, symmetric=True, power=False, axis=0, block=0,
          limits=(-128, 127), rounding="half-even", wide=False):
    qmin, qmax = limits
    codes, y = np.empty(x.shape, np.int64), np.empty(x.shape, f32)
    scales, zeros = [], []
    for at in slices(x, granularity, axis, block):
        part = x[at]
        scale, zero = from_range(part.min(), part.max(), symmetric, power, qmin, qmax)
        t = part.astype(float) / float(scale) if wide else (part / scale).astype(float)
        q = np.clip(ROUND[rounding](t) + zero, qmin, qmax)
        codes[at] = q.astype(np.int64)
        y[at] = ((q - zero) * float(scale)).astype(f32)
        scales.append(scale)
        zeros.append(zero)
    return codes, y + f32(0), scales, zeros


# --- comparing ---

def metrics(x, y):
    r, p = x.astype(float).ravel(), y.astype(float).ravel()
    d = p - r
    nsr = (d @ d) / (r @ r + 1e-7)
    return {"nsr": nsr, "snr_db": -10 * np.log10(nsr), "mse": d @ d / d.size,
            "max": np.abs(d).max(), "cosine": (r @ p) / np.sqrt((r @ r) * (p @ p)),
            "count": d.size}


def run(folder, x, *args):
    """The answer, and the array that was written."""
    np.save(folder / "x.npy", x)
    got = qg(folder / "x.npy", *args, "--json", "-o", folder / "y.npy")
    assert got.returncode == 0, (args, got.stderr)
    return json.loads(got.stdout), np.load(folder / "y.npy"), got.stderr


def same_numbers(args, answer, expected):
    for name, value in expected.items():
        assert np.isclose(answer[name], value, rtol=1e-9, atol=0), \
            f"{args}: {name} {answer[name]}, expected {value}"


def check(folder, x, words, args, **how):
    args = ["--policy", words, *args]
    codes, y, scales, zeros = model(x, **how)
    answer, got, _ = run(folder, x, *args)
    assert got.dtype == f32 and np.array_equal(got, y), f"{args}: values differ"
    assert [f32(s) for s in answer["scale"]] == scales, f"{args}: scales differ"
    assert answer["offset"] == zeros, f"{args}: offsets differ"
    same_numbers(args, answer, metrics(x, y))
    _, stored, _ = run(folder, x, *args, "--codes")
    assert stored.dtype.kind in "iu" and np.array_equal(stored, codes), \
        f"{args}: codes differ"


def schemes(folder, rng):
    x = (rng.standard_normal((3, 4, 13)) * 3 + 1).astype(f32)
    check(folder, x, "per-tensor,linear,symmetric", [])
    check(folder, x, "per-tensor linear symmetric", ["--narrow"], limits=(-127, 127))
    check(folder, x, "per-tensor, linear, asymmetric", ["--bits", 4],
          symmetric=False, limits=(0, 15))
    check(folder, x, "per-tensor,linear,asymmetric", ["--bits=8", "--range", "-128,127"],
          symmetric=False)
    check(folder, x, "per-tensor,linear,asymmetric,power-of-2", ["--bits", 12],
          symmetric=False, power=True, limits=(0, 4095))
    check(folder, x, "per-channel,linear,symmetric", ["--axis", 1, "--bits", 3],
          granularity=CHANNEL, axis=1, limits=(-4, 3))
    check(folder, x, "per-channel,linear,asymmetric", ["--axis", -1],
          granularity=CHANNEL, axis=2, symmetric=False, limits=(0, 255))
    check(folder, x, "block,linear,symmetric", ["--axis=-1", "--block", 5],
          granularity=BLOCK, axis=2, block=5)
    check(folder, x, "per-tensor,linear,symmetric", ["--bits", 32],
          limits=(-2**31, 2**31 - 1), wide=True)
    for rounding in ROUND:
        check(folder, x, "per-tensor,linear,symmetric", ["--rounding", rounding],
              rounding=rounding)


def given(folder, rng):
    """Scale and offset of the user's; ties in every mode; saturation."""
    x = np.arange(-9, 10, dtype=f32) / 2
    for rounding, mode in ROUND.items():
        answer, got, _ = run(folder, x, "--policy", "per-tensor,linear,asymmetric",
                             "--bits", 3, "--scale", 1, "--offset", 2,
                             "--rounding", rounding)
        q = mode(x.astype(float)) + 2
        assert np.array_equal(got, np.clip(q, 0, 7) - 2), rounding
        assert np.isclose(answer["saturated"], np.mean((q < 0) | (q > 7))), rounding
    x = rng.standard_normal((2, 3)).astype(f32)
    _, got, _ = run(folder, x, "--policy", "per-channel,linear,symmetric", "--scale",
                    ".5,.25", "--bits", 4)
    s = f32([[.5], [.25]])
    assert np.array_equal(got, np.clip(np.rint(x / s), -8, 7) * s + f32(0))


def observers_and_quirks(folder, rng):
    x = rng.standard_normal(1000).astype(f32)
    sym = ["--policy", "per-tensor,linear,symmetric"]
    answer, _, _ = run(folder, x, *sym, "--observer", "percentile")
    order = np.sort(x)
    high, low = order[int(1000 * 0.9999)], order[int(1000 * (1 - 0.9999))]
    assert f32(answer["scale"][0]) == from_range(low, high, True, False, -128, 127)[0]
    assert run(folder, x, *sym, "--observer", "minmax")[0] == run(folder, x, *sym)[0]
    _, static, _ = run(folder, x, *sym)
    _, dynamic, _ = run(folder, x, "--policy", "per-tensor,linear,symmetric,dynamic")
    assert np.array_equal(static, dynamic)
    asym = ["--policy", "per-tensor,linear,asymmetric", "--range", "-128,127"]
    right, wrong = (run(folder, x, *asym, *q)[0] for q in ([], ["--quirks", "ppq"]))
    assert wrong["offset"][0] == right["offset"][0] + 128 and wrong["nsr"] > right["nsr"]


FORMATS = [  # bits, exponent bits, variant, NumPy's type of it
    (8, 4, None, ml_dtypes.float8_e4m3fn), (8, 5, None, ml_dtypes.float8_e5m2),
    (8, 4, "fnuz", ml_dtypes.float8_e4m3fnuz), (8, 5, "fnuz", ml_dtypes.float8_e5m2fnuz),
    (4, 2, None, ml_dtypes.float4_e2m1fn), (16, 5, None, np.float16),
    (16, 8, None, ml_dtypes.bfloat16)]


def floating(folder, rng):
    x = np.concatenate([rng.standard_normal(500), [0, 1e-3, 2.0]]).astype(f32)
    for bits, exponent, variant, kind in FORMATS:
        args = ["--policy", FLOATING, "--bits", bits, "--exponent-bits", exponent,
                "--scale", 0.5, *(["--variant", variant] if variant else [])]
        stored = (x / f32(0.5)).astype(kind)
        _, got, _ = run(folder, x, *args)
        assert np.array_equal(got, stored.astype(f32) * f32(0.5)), f"{args}: values"
        most = float(ml_dtypes.finfo(kind).max)
        _, far, _ = run(folder, f32([most, -most]), *args)  # twice the largest: saturated
        assert far.tolist() == [most / 2, -most / 2], f"{args}: saturates at {far}"
        _, codes, _ = run(folder, x, *args, "--codes")
        pattern = stored.view(np.uint16 if bits == 16 else np.uint8)
        # A negative number that rounds to zero is stored as +0 (quant/fake.h).
        pattern = np.where(stored.astype(f32) == 0, 0, pattern)
        assert np.array_equal(codes, pattern) and codes.dtype.kind == "u", f"{args}: codes"
    mxfp4 = ["--policy", "block,floating,symmetric,power-of-2", "--bits", 4,
             "--exponent-bits", 2, "--block", 32, "--variant", "mx"]
    x = rng.standard_normal((2, 64)).astype(f32)
    answer, _, _ = run(folder, x, *mxfp4, "--axis", 1)
    expected = 2.0 ** (np.floor(np.log2(np.abs(x).reshape(4, 32).max(1))) - 2)
    assert answer["scale"] == expected.tolist()


def inputs(folder, rng):
    """float16 is exact; float64 warns when it rounds; unusual numbers are reported."""
    half = rng.standard_normal(50).astype(np.float16)
    a, y, err = run(folder, half)
    b, z, _ = run(folder, half.astype(f32))
    assert np.array_equal(y, z) and a["nsr"] == b["nsr"] and not err
    wide = rng.standard_normal(50)
    _, y, err = run(folder, wide)
    _, z, _ = run(folder, wide.astype(f32))
    assert np.array_equal(y, z)
    assert "50 of 50 elements were rounded to float32" in err, err
    assert not run(folder, half.astype(float))[2]
    odd = f32([1, np.nan, -np.inf, 0.5])
    answer, y, err = run(folder, odd)
    assert "2 of 4 elements are NaN or infinite" in err and answer["nsr"] is None
    assert np.isnan(y[1]) and y[2] == f32(-128 * answer["scale"][0])
    for shape in ((), (0,), (3, 0)):
        answer, y, _ = run(folder, np.zeros(shape, f32))
        assert y.shape == shape and answer["count"] == y.size and answer["max"] == 0


BAD = [  # arguments, exit status, what is said
    (["--bits", "33"], 1, "bits 33, expected 2 to 32"),
    (["--bits", "x"], 2, "--bits: 'x', expected a whole number from 1 to"),
    (["--policy", "per-chanel,linear,symmetric"], 1, "did you mean 'per-channel'"),
    (["--policy", "linear,symmetric"], 1,
     "expected exactly one of per-tensor, per-channel, block"),
    (["--policy", "per-tensor,exponential,symmetric"], 1,
     "policy 'exponential': expected floating, or linear with power-of-2: exponential is not"),
    (["--policy", FLOATING], 1, "exponent_bits 0 with 8 bits, expected 1 to 8"),
    (["--exponent-bits", "9"], 1, "exponent bits 9, expected 1 to 8"),
    (["--exponent-bits", "4"], 1, "exponent_bits 4 with 8 bits, expected 0 without"),
    (["--variant", "fnus"], 1, "variant 'fnus': unknown, expected fnuz, ppq-ties, mx"),
    (["--variant", "mx"], 1, "the policy is linear, expected floating"),
    (["--range", "3"], 1, "range '3': is not LOW,HIGH in steps"),
    (["--range", "0,1.5"], 1, "range '1.5': is not a whole number"),
    (["--range", "-200,100"], 1, "range [-200, 100] does not fit 8 bits"),
    (["--range", "5,5"], 1, "is empty, expected qmin below qmax"),
    (["--range"], 2, "--range needs a value: LOW,HIGH"),
    (["--range", "--json"], 2, "--range needs a value: LOW,HIGH"),
    (["--narrow", "--range", "0,1"], 1, "narrow: a range is given"),
    (["--axis", "0"], 1, "axis 0: per-tensor has none, expected per-channel or block"),
    (["--policy", "per-channel,linear,symmetric", "--axis", "2"], 1,
     "axis 2: does not fit float32[4,3], expected -2 to 1"),
    (["--axis", "first"], 2, "--axis: 'first', expected a number from -9 to 9"),
    (["--policy", "block,linear,symmetric"], 1, "block 0, expected 1 or more"),
    (["--block", "4"], 1, "block 4, expected 0 unless the policy is block"),
    (["--rounding", "half"], 1, "rounding 'half': unknown, expected half-even"),
    (["--scale", "0"], 1, "scale 0, expected a float32 above 0"),
    (["--scale", "1e-60"], 1, "expected a float32 above 0"),
    (["--scale", "1,x"], 1, "scale 'x': is not a number"),
    (["--scale", "1,2"], 1, "scale: 2 of them, expected 1"),
    (["--policy", "per-tensor,linear,symmetric,power-of-2", "--scale", "0.3"], 1,
     "is not a power of two"),
    (["--policy", "per-tensor,linear,symmetric,dynamic", "--scale", "1"], 1,
     "scale: the policy is dynamic"),
    (["--offset", "1"], 1, "offset: no scale, expected both"),
    (["--scale", "1", "--offset", "1"], 1, "offset: the policy is symmetric"),
    (["--policy", "per-tensor,linear,asymmetric", "--scale", "1", "--offset", "1,2"], 1,
     "offset: 2 of them, expected one per scale, 1"),
    (["--policy", "per-tensor,linear,asymmetric", "--scale", "1", "--offset", "3e9"], 1,
     "offset 3000000000, expected an int32"),
    (["--observer", "percentil"], 1, "did you mean 'percentile'"),
    (["--observer", "minmax", "--scale", "1"], 1, "an observer is given, too"),
    (["--observer", "ppq-percentile", "--policy", "per-channel,linear,symmetric"], 1,
     "observer ppq-percentile supports per-tensor only"),
    (["--quirks", "ppw"], 1, "unknown quirk 'ppw'"),
    (["--quirks", "ppq-split-groups"], 1, "without effect on one array"),
    (["--codes"], 1, "codes: no output, expected a file"),
    (["--curve", "c.csv"], 1, "curve: no observer that compares thresholds, expected one such as kl"),
    (["--curve", "c.csv", "--observer", "mse"], 1,
     "curve: observer 'mse' compared no thresholds here, expected an observer such as kl"),
    (["--curve", "c.csv", "--observer", "kl", "--policy", "per-channel,linear,symmetric"],
     1, "one scale and more bins than levels"),
    (["--curve", "c.csv", "--scale", "1"], 1, "curve: no observer that compares"),
    (["--policy", FLOATING, "--bits", "6", "--exponent-bits", "3", "--codes", "-o",
      "OUT"], 1, "codes: no storage for 6 bits with 3 of exponent"),
    (["-o", "no/such/folder/y.npy"], 1,
     "No such file or directory: expected a folder 'no/such/folder' to write to"),
]


def bad_input(folder):
    np.save(folder / "x.npy", np.ones((4, 3), f32))
    out = folder / "never.npy"
    for args, status, text in BAD:
        got = qg(folder / "x.npy", *[str(out) if a == "OUT" else a for a in args])
        assert got.returncode == status, (args, got.returncode, got.stderr)
        assert got.stderr.startswith("qg: quantize-tensor: "), (args, got.stderr)
        assert text in got.stderr and not got.stdout, (args, got.stderr)
    assert not out.exists()
    np.save(folder / "i.npy", np.arange(3))
    (folder / "t.npy").write_bytes((folder / "x.npy").read_bytes()[:-1])
    for name, text in (("i.npy", "is int64[3], expected float16, float32 or float64"),
                       ("none.npy", "No such file"), ("t.npy", "read")):
        got = qg(folder / name)
        assert got.returncode == 1 and text in got.stderr, got.stderr


def main():
    rng = np.random.default_rng(5)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for part in (schemes, given, observers_and_quirks, floating, inputs):
            part(folder, rng)
        bad_input(folder)
    print(f"arrays as the model has them; {len(BAD)} bad command lines refused")


main()
