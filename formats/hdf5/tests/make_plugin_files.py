"""Writes KIND.h5 for each filter of hdf5plugin into a folder, and the values that h5py reads of each field to KIND.FIELD.

Prints the folder of the plugins.
"""

import sys
from pathlib import Path

import h5py
import hdf5plugin as hp
import numpy as np

DIR = Path(sys.argv[1])
N = 30
rng = np.random.default_rng(11)


def smooth(shape, dtype):
    """Smooth values for lossy filters, and integers for the others."""
    steps = rng.integers(-3, 4, shape).cumsum(axis=-1)
    return (steps + 100).astype(dtype) if np.dtype(dtype).kind in "iu" else (steps / 7).astype(dtype)


KINDS = {}
for coder, some in {"blosclz": [0, 1], "lz4": [1, 2], "lz4hc": [1], "zlib": [2], "zstd": [0, 1, 2, 3]}.items():
    for filters in some:
        KINDS[f"blosc2-{coder}-{filters}"] = (hp.Blosc2(cname=coder, clevel=5, filters=filters), ["u1", "<i2", ">f4", "f8"])
KINDS["blosc-snappy"] = (hp.Blosc(cname="snappy"), ["<i2", "f8"])
for mode in [{"reversible": True}, {"accuracy": 0.01}, {"rate": 12}, {"precision": 14}]:
    KINDS[f"zfp-{'-'.join(mode)}"] = (hp.Zfp(**mode), ["f4", "f8"] + ([] if "accuracy" in mode else ["i4", "i8"]))
KINDS["sperr"] = (hp.Sperr(peak_signal_to_noise_ratio=70), ["f4", "f8"])
KINDS["sz"] = (hp.SZ(absolute=0.01), ["f4", "f8"])
KINDS["sz3"] = (hp.SZ3(absolute=0.01), ["f4", "f8"])
KINDS["fcidecomp"] = (hp.FciDecomp(), ["u1", "u2"])
KINDS["htj2k"] = (hp.Htj2k(), ["u1", "u2"])
# The first does not match the datasets: chunks extend beyond them.
SHAPES = {"edges": ((N, 20, 33), (16, 16, 20)), "rows": ((N, 24, 33), (1, 24, 33)), "tall": ((N, 20), (10, 20))}
HOWS = {"": {}, "-shuffle": {"shuffle": True}, "-sum": {"fletcher32": True}}

for i, (kind, (filter_, dtypes)) in enumerate(KINDS.items()):
    with h5py.File(DIR / f"{kind}.h5", "w", libver=["earliest", "latest"][i % 2]) as f:
        for dtype in dtypes:
            for shape, (dims, chunks) in SHAPES.items():
                if kind in ("fcidecomp", "htj2k") and shape == "edges":
                    continue
                for how, more in HOWS.items():
                    if how == "-shuffle" and not kind.startswith("blosc"):
                        continue
                    field = f"{np.dtype(dtype).name}-{shape}{how}"
                    f.create_dataset(field, data=smooth(dims, dtype), chunks=chunks, **filter_, **more)
    with h5py.File(DIR / f"{kind}.h5") as f:
        for field, dataset in f.items():
            values = dataset[:]
            (DIR / f"{kind}.{field}").write_bytes(values.astype(values.dtype.newbyteorder("<")).tobytes())
print(hp.PLUGIN_PATH)
