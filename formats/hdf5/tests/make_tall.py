"""Writes a file with chunks that are much larger than a block of rows: one over all rows, and columns.

And another, in which 20,000 variable-length values all refer to the same 100 KB.
"""

import sys

import h5py
import numpy as np

N = 10_000_000
with h5py.File(sys.argv[1], "w") as f:
    f.create_dataset("one", data=np.arange(N) % 1000, chunks=(N,), compression="gzip", compression_opts=1)
    x = np.arange(2 * N, dtype="i4").reshape(N, 2) % 1000
    f.create_dataset("columns", data=x, chunks=(N, 1), compression="gzip", compression_opts=1)

with h5py.File(sys.argv[2], "w") as f:
    blobs = f.create_dataset("x", (20_000,), h5py.vlen_dtype("u1"))
    blobs[0] = np.zeros(100_000, "u1")
    at = blobs.id.get_offset()
with open(sys.argv[2], "r+b") as f:
    f.seek(at)
    first = f.read(16)
    f.seek(at)
    f.write(first * 20_000)
