#!/usr/bin/env python3
"""make_arrays.py -- the arrays of this folder, as NumPy writes them; run it here."""
import numpy as np

KINDS = ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1"]
for kind in KINDS:
    np.save(f"{kind}.npy", np.array([[0, 1, 2], [3, 4, 127]]).astype(kind))
np.save("scalar.npy", np.float32(1.5))
np.save("empty.npy", np.zeros((0, 4), np.int64))
np.save("one_axis.npy", np.arange(5, dtype=np.int32))
np.save("fortran.npy", np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3)))
np.save("big_endian.npy", np.arange(3, dtype=">f4"))
np.save("complex.npy", np.zeros(2, np.complex64))
np.savez("stored.npz", x=np.arange(12, dtype=np.float32).reshape(3, 4),
         y=np.arange(3, dtype=np.int64))
np.savez_compressed("deflated.npz", x=np.arange(12, dtype=np.float32).reshape(3, 4),
                    y=np.arange(3, dtype=np.int64))
with open("version2.npy", "wb") as f:
    np.lib.format.write_array(f, np.arange(4, dtype=np.float32), version=(2, 0))
with open("version3.npy", "wb") as f:
    np.lib.format.write_array(f, np.arange(4, dtype=np.float32), version=(3, 0))

# images/: three 4 x 2 pictures without any imaging library
import os
import struct
import zlib


def png(path, pixels):
    height, width, channels = pixels.shape

    def chunk(kind, body):
        return (struct.pack(">I", len(body)) + kind + body
                + struct.pack(">I", zlib.crc32(kind + body)))
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    head = struct.pack(">IIBBBBB", width, height, 8, {1: 0, 3: 2}[channels], 0, 0, 0)
    with open(path, "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head)
                + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


os.makedirs("images", exist_ok=True)
ramp = np.arange(24, dtype=np.uint8).reshape(2, 4, 3) * 10
png("images/a.png", ramp)
with open("images/b.ppm", "wb") as f:
    f.write(b"P6\n4 2\n255\n" + (ramp + 1).tobytes())
png("images/c.png", ramp[..., :1])
with open("images/note.txt", "w") as f:
    f.write("not an image: left alone\n")
with open("images.yaml", "w") as f:
    f.write("files: images\nlayout: nhwc\ncolors: bgr\nresize: [1, 2]\n"
            "mean: [10, 20, 30]\nstd: 2\n")
