"""Writes plugin.h5: chunks with unregistered filters, for the plugins that ../plugin.rs compiles."""

from pathlib import Path

import h5py
import numpy as np

N, CHUNK = 50, 20
with h5py.File(Path(__file__).parent / "plugin.h5", "w", libver=("v110", "v110")) as f:
    x = np.arange(N * 4, dtype="<i4").reshape(N, 4)
    for number in range(300, 305):
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk((CHUNK, 4))
        # Optional, since libhdf5 does not have them; the second parameter is the XOR mask of the bytes.
        plist.set_filter(number, h5py.h5z.FLAG_OPTIONAL, (3, 0x5A))
        space = h5py.h5s.create_simple(x.shape)
        dataset = h5py.h5d.create(f.id, f"filter{number}".encode(), h5py.h5t.STD_I32LE, space, plist)
        for row in range(0, N, CHUNK):
            chunk = np.zeros((CHUNK, 4), "<i4")
            chunk[: len(x[row : row + CHUNK])] = x[row : row + CHUNK]
            data = bytes(byte ^ 0x5A for byte in chunk.tobytes())
            dataset.write_direct_chunk((row, 0), data + b"end", filter_mask=0)
