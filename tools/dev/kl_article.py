#!/usr/bin/env python3
"""The array of the article on KL calibration, and a picture of the observers' results
(docs/calibration.md).

    kl_article.py array OUT.npy                    the array
    kl_article.py draw A.csv B.csv... -o OUT.svg   curves of `qg quantize-tensor --curve`

The array is abs(clip(randn(802816), -4, 4)) of numpy.random.RandomState(1), in float32;
it is made here without numpy, as docs/evidence/observers.md#test-data describes."""
import array
import csv
import math
import random
import struct
import sys

COUNT, LIMIT, SEED = 802816, 4.0, 1
WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 640, 300, 62, 44, 34
DECADES = -5, 1  # of the divergence
COLORS = "#b03030", "#2060a0", "#408040"


def normals(count, seed):
    """Legacy Gaussian numbers of numpy: polar method on MT19937 of init_genrand."""
    state = [seed]
    for i in range(1, 624):
        state.append((1812433253 * (state[-1] ^ state[-1] >> 30) + i) & 0xFFFFFFFF)
    uniform = random.Random()
    uniform.setstate((3, (*state, 624), None))
    while count > 0:
        x1, x2 = 2 * uniform.random() - 1, 2 * uniform.random() - 1
        r2 = x1 * x1 + x2 * x2
        if not 0 < r2 < 1:
            continue
        factor = math.sqrt(-2 * math.log(r2) / r2)
        yield factor * x2
        yield factor * x1
        count -= 2


def write_array(path):
    data = array.array("f", (min(abs(x), LIMIT) for x in normals(COUNT, SEED)))
    header = str({"descr": "<f4", "fortran_order": False, "shape": (COUNT,)}).encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    if sys.byteorder == "big":
        data.byteswap()
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header)
        data.tofile(f)


def read_curve(path):
    with open(path, newline="") as f:
        return [(float(r["threshold"]), float(r["divergence"])) for r in csv.DictReader(f)]


def at(threshold, divergence):
    low, high = DECADES
    level = min(max(math.log10(divergence), low), high)
    return (LEFT + (WIDTH - LEFT - 12) * threshold / LIMIT,
            TOP + (HEIGHT - TOP - BOTTOM) * (high - level) / (high - low))


def curve(path, color, row):
    """A line with gaps where the divergence is infinite, and its least value."""
    points = read_curve(path)
    runs, pen = [], "M"
    for x, d in points:
        if math.isfinite(d):
            runs.append("{}{:.1f} {:.1f}".format(pen, *at(x, d)))
        pen = "L" if math.isfinite(d) else "M"
    least = min(d for _, d in points)
    x, d = [p for p in points if p[1] == least][-1]
    px, py = at(x, d)
    name = path.rpartition("/")[2].removesuffix(".csv")
    yield f'<path d="{"".join(runs)}" fill="none" stroke="{color}" stroke-width="1"/>'
    yield f'<circle cx="{px:.1f}" cy="{py:.1f}" r="4" fill="{color}"/>'
    yield (f'<text x="{LEFT + 190 * row}" y="18" fill="{color}">{name}: '
           f'{x:.7f}'.rstrip("0").rstrip(".") + "</text>")


def draw(paths, out):
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
             'font-family="sans-serif" font-size="12">',
             f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>']
    for decade in range(DECADES[0], DECADES[1] + 1):
        x, y = at(0, 10.0 ** decade)
        lines += [f'<path d="M{x} {y:.1f}H{WIDTH - 12}" stroke="#ddd"/>',
                  f'<text x="{x - 6}" y="{y + 4:.1f}" text-anchor="end">1e{decade}</text>']
    for tick in range(int(LIMIT) + 1):
        x, y = at(tick, 10.0 ** DECADES[0])
        lines.append(f'<text x="{x:.1f}" y="{y + 16:.1f}" text-anchor="middle">{tick}</text>')
    for row, (path, color) in enumerate(zip(paths, COLORS)):
        lines += curve(path, color, row)
    middle = (LEFT + WIDTH) / 2
    lines += [f'<text x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">threshold</text>',
              f'<text transform="translate(14 {HEIGHT / 2}) rotate(-90)" '
              'text-anchor="middle">divergence, nats</text>', "</svg>", ""]
    with open(out, "w", encoding="utf-8") as f:
        f.write("\n".join(lines))


def main(words):
    if len(words) == 2 and words[0] == "array":
        write_array(words[1])
    elif len(words) > 3 and words[0] == "draw" and words[-2] == "-o":
        draw(words[1:-2], words[-1])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
