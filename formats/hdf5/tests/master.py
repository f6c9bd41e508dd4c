"""Checks a master file: every virtual dataset and every link against the shards themselves."""

import sys
from pathlib import Path

import h5py
import numpy as np

path = Path(sys.argv[1])
with h5py.File(path, "r") as f:
    shards = [f["shards"][name] for name in sorted(f["shards"])]
    n = int(f.attrs["num_samples"])
    assert n == sum(int(s.attrs["num_samples"]) for s in shards) > 0
    where = [(i, j) for i, s in enumerate(shards) for j in range(int(s.attrs["num_samples"]))]
    assert list(zip(f["index/shard"][:].tolist(), f["index/row"][:].tolist())) == where
    assert [s.decode() for s in f["shards_split"][:]] == ["train", "train", "val"]
    fields = dict(f["data"]) if "data" in f else {}
    for name, data in fields.items():
        assert data.is_virtual and data.shape[0] == n, name
        whole = np.concatenate([s["data"][name][:] for s in shards])
        assert whole.dtype == data.dtype and np.array_equal(whole, data[:]), name
        for i in np.random.default_rng(1).integers(0, n, 20):
            assert np.array_equal(data[i], whole[i]), name
    print(len(fields))
