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
