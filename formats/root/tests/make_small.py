"""Writes the files of tests/data, with the values that tests/small.rs expects."""
import pathlib

import awkward as ak
import numpy as np
import uproot

N = 20
HERE = pathlib.Path(__file__).parent / "data"

values = {
    "energy": np.arange(N, dtype="f4") / 4,
    "flag": np.arange(N) % 3 == 0,
    "id": np.arange(N, dtype="i8") - 5,
    "pos": np.arange(6 * N, dtype="i4").reshape(N, 2, 3),
    "pt": ak.Array([[i + j / 2 for j in range(i % 4)] for i in range(N)]),
    "word": ak.Array(["ä" * (i % 5) for i in range(N)]),
}

for name, compression in (("zlib", uproot.ZLIB(1)), ("lz4", uproot.LZ4(1)), ("lzma", uproot.LZMA(1)), ("zstd", uproot.ZSTD(1))):
    with uproot.recreate(HERE / f"tree-{name}.root", compression=compression) as file:
        tree = {key: value for key, value in values.items() if key != "word"}
        types = {key: value.type if isinstance(value, ak.Array) else (value.dtype, value.shape[1:]) for key, value in tree.items()}
        file.mktree("dir/events", types)
        file["dir/events"].extend({key: value[: N // 2] for key, value in tree.items()})
        file["dir/events"].extend({key: value[N // 2 :] for key, value in tree.items()})

with uproot.recreate(HERE / "ntuple.root", compression=uproot.ZSTD(1)) as file:
    ntuple = {key: value for key, value in values.items() if key != "pos"}
    file.mkrntuple("events", ntuple)

with uproot.recreate(HERE / "several.root", compression=uproot.ZSTD(1)) as file:
    file["runs"] = {"run": np.array([7, 8], dtype="i4")}
    file["dir/events"] = {"energy": values["energy"][:3]}
    file.mkrntuple("dir/tuple", {"id": values["id"][:4]})

with uproot.recreate(HERE.parent / "absurd" / "rows.root", compression=uproot.ZSTD(19)) as file:
    file.mkrntuple("events", {"flag": np.zeros(40_000_000, dtype=np.bool_)})
