"""Runs the Python of docs/hdf5.md as it stands there, and compares what it reads with the arrays that were packed.

    check_hdf5_docs.py make RUNS            writes .npz files
    check_hdf5_docs.py run RUNS DOC FOLDER  runs the snippets of DOC in FOLDER, which holds their shards/

What the snippets leave in their variables must be the arrays of RUNS.
"""

import os
import re
import sys
from pathlib import Path

import numpy as np

COUNT = 12


def make(runs):
    rng = np.random.default_rng(5)
    runs.mkdir()
    for i in range(COUNT):
        points = rng.normal(size=(i % 4 + 1, 2)).astype("f4")
        np.savez(runs / f"{i:03}.npz", x=rng.normal(size=(3, 4)).astype("f4"), label=np.int64(i % 3), points=points)


def h5py(names, arrays):
    assert list(names["keys"]) == [f"{i:03}" for i in range(COUNT)], names["keys"]
    np.testing.assert_array_equal(names["x"], np.stack([a["x"] for a in arrays[:8]]))
    np.testing.assert_array_equal(names["fourth"], arrays[3]["points"])


def xarray(names, arrays):
    shard, x = names["shard"], np.stack([a["x"] for a in arrays])
    np.testing.assert_array_equal(shard["x"].values, x)
    np.testing.assert_array_equal(shard["label"].values, [a["label"] for a in arrays])
    np.testing.assert_allclose(names["mean"].values, x.mean(0), rtol=1e-5)


def torch(names, arrays):
    assert len(names["Samples"]("shards/shard-000000.h5")) == COUNT
    last = arrays[COUNT // 5 * 5 :]
    np.testing.assert_array_equal(names["x"].numpy(), np.stack([a["x"] for a in last]))
    assert names["label"].tolist() == [int(a["label"]) for a in last]


def run(runs, doc, folder):
    arrays = [np.load(runs / f"{i:03}.npz") for i in range(COUNT)]
    snippets = re.findall(r"^```python\n(.*?)^```", doc.read_text(), re.DOTALL | re.MULTILINE)
    assert len(snippets) == 3, f"{doc} has {len(snippets)} snippets"
    os.chdir(folder)
    for check, snippet in zip([h5py, xarray, torch], snippets):
        assert f"import {check.__name__}" in snippet, snippet
        names = {"__name__": "snippet"}
        exec(compile(snippet, f"{doc}: {check.__name__}", "exec"), names)
        check(names, arrays)
    print(f"{len(snippets)} snippets read {COUNT} samples")


if __name__ == "__main__":
    command, *paths = sys.argv[1:]
    {"make": make, "run": run}[command](*(Path(path).resolve() for path in paths))
