"""Prints the wall-clock and processor seconds of h5py: `write-gzip|write-zstd|read RAW FILE`."""

import sys
import time

import h5py
import hdf5plugin
import numpy as np

what, raw, path = sys.argv[1:]
if what == "read":
    start, busy = time.perf_counter(), time.process_time()
    with h5py.File(path, "r") as f:
        (f["x"] if "x" in f else f["data/x"])[:]
else:
    x = np.fromfile(raw, "<f4").reshape(-1, 224, 224, 3)
    how = dict(compression="gzip", compression_opts=4) if what == "write-gzip" else dict(**hdf5plugin.Zstd(clevel=3))
    start, busy = time.perf_counter(), time.process_time()
    with h5py.File(path, "w") as f:
        f.create_dataset("x", data=x, chunks=(1, 224, 224, 3), shuffle=True, **how)
print(time.perf_counter() - start, time.process_time() - busy)
