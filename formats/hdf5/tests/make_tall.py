"""Writes a file with chunks that are far larger than a block of rows: one over all rows, and columns."""

import sys

import h5py
import numpy as np

N = 10_000_000
with h5py.File(sys.argv[1], "w") as f:
    f.create_dataset("one", data=np.arange(N) % 1000, chunks=(N,), compression="gzip", compression_opts=1)
    x = np.arange(2 * N, dtype="i4").reshape(N, 2) % 1000
    f.create_dataset("columns", data=x, chunks=(N, 1), compression="gzip", compression_opts=1)
