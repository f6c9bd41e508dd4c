"""Writes the small files of this folder with h5py, for tests that run without Python."""

from pathlib import Path

import h5py
import hdf5plugin
import numpy as np

HERE = Path(__file__).parent
N = 40


def fill(f):
    x = np.arange(N * 6, dtype="<i2").reshape(N, 2, 3)
    f.create_dataset("extensible", data=x, chunks=(3, 2, 3), maxshape=(None, 2, 3), compression="gzip")
    f.create_dataset("fixed", data=x, chunks=(7, 1, 3), shuffle=True, fletcher32=True)
    f.create_dataset("tree", data=x, chunks=(9, 2, 2), maxshape=(None, None, 3), compression="gzip")
    f.create_dataset("single", data=x, chunks=(N, 2, 3), compression="gzip")
    f["big"] = x.astype(">f4")
    f["compound"] = np.zeros(N, [("a", "<i4"), ("b", ">f8", (2,)), ("c", "S3")])
    f.create_dataset("text", data=[f"text {i}" for i in range(N)], dtype=h5py.string_dtype())
    f["text2"] = np.array([b"ab"] * N, "S4")
    f["bool"] = np.arange(N) % 3 == 0
    for i in range(9):
        f[f"group/name {i}"] = np.arange(N, dtype="u1")


for libver, name in [("earliest", "old.h5"), (("v110", "v110"), "new.h5")]:
    with h5py.File(HERE / name, "w", libver=libver) as f:
        fill(f)

with h5py.File(HERE / "filters.h5", "w", libver=("v110", "v110")) as f:
    x = np.arange(N * 30, dtype="<i4").reshape(N, 30)
    blosc = hdf5plugin.Blosc
    hows = {f"blosc {coder}": blosc(cname=coder, shuffle=shuffle)
            for shuffle, coder in enumerate(["zlib", "blosclz", "lz4"])}
    hows |= {f"bits {coder}": hdf5plugin.Bitshuffle(cname=coder) for coder in ["none", "lz4", "zstd"]}
    hows |= {"lz4": hdf5plugin.LZ4(), "bzip2": hdf5plugin.BZip2(), "lzf": {"compression": "lzf"}}
    for name, how in hows.items():
        f.create_dataset(name, data=x, chunks=(20, 30), **how)

with h5py.File(HERE / "groups.h5", "w", libver=("v110", "v110")) as f:
    for i in range(12):
        g = f.create_group(f"data/demo_{i}")
        x = np.arange((i + 4) * 3, dtype="<f4").reshape(i + 4, 3)
        g.create_dataset("obs/x", data=x, chunks=(4, 3), compression="gzip")
        g["goal"], g["done"], g["task"] = np.arange(2) + i, i % 2 == 0, f"task {i}"
        g["table"] = np.array([(i, 2.5)] * (i % 3), [("n", "<i4"), ("x", "f8")])
        if i % 2:
            g["note"] = f"note {i}"
        g.attrs["seed"], g.attrs["env"] = 100 + i, f"env {i % 3}"
        if i == 5:
            # So many that they have a heap of their own.
            for n in range(9):
                g.attrs[f"a{n}"] = np.uint8(n)
