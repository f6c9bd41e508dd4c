"""Every array that NumPy can save, through packhorse, as other readers see it.

    arrays.py make DIR                         .npz files of every type, order, byte order and shape
    arrays.py check DIR hdf5|parquet|webdataset SHARD...    compares shards with NumPy's own reading
"""

import glob
import io
import os
import sys

import numpy as np

NUMBERS = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]
TEXTS = ["S5", "U4", "V3"]
TIMES = ["M8[ns]", "m8[s]", "M8[D]"]
SHAPES = [(), (1,), (3,), (0,), (2, 3), (2, 0, 3), (2, 3, 4)]
SAMPLES = 3


def values(rng, dtype, shape):
    n = int(np.prod(shape))
    base = dtype.newbyteorder("<")
    if dtype.kind == "U":
        words = [chr(0x61 + int(i % 20)) * int(i % 5) + "é" * int(i % 3 == 0) for i in rng.integers(0, 50, n)]
        return np.array([w[:4] for w in words], base).reshape(shape)
    if dtype.kind == "S":
        return np.array([b"x" * int(i % 6) for i in rng.integers(0, 50, n)], base).reshape(shape)
    if dtype.kind == "b":
        return rng.integers(0, 2, n).astype(base).reshape(shape)
    if dtype.kind in "fc":
        return (rng.random(n) * 100 - 50).astype(base).reshape(shape)
    return np.frombuffer(rng.bytes(n * base.itemsize), base, n).reshape(shape)


def make(folder):
    os.makedirs(folder)
    rng = np.random.default_rng(7)
    for sample in range(SAMPLES):
        arrays = {}
        for code in NUMBERS + TEXTS + TIMES:
            # Readers of WebDataset do not see case: u4 and U4 want names of their own.
            label = {"U4": "text4", "M8[ns]": "when_ns", "M8[D]": "when_d"}.get(code, code)
            for order in "<>":
                dtype = np.dtype(order + code)
                for s, shape in enumerate(SHAPES):
                    array = values(rng, dtype, shape).astype(dtype)
                    name = f"{label.replace('?', 'b1').replace('[', '_').replace(']', '').lower()}_{'lb'['<>'.index(order)]}{s}"
                    arrays[name + "c"] = np.asarray(array, order="C")
                    if len(shape) > 1:
                        arrays[name + "f"] = np.asarray(array, order="F")
        record = np.dtype([("a", ">f4"), ("b", "<i2", (2,)), ("c", [("d", "<u8"), ("e", "S3")])], align=True)
        struct = np.zeros((4,), record)
        struct["a"], struct["b"], struct["c"]["d"] = rng.random(4), rng.integers(0, 99, (4, 2)), rng.integers(0, 99, 4)
        arrays["struct"] = struct
        save = np.savez_compressed if sample % 2 else np.savez
        save(os.path.join(folder, f"s{sample}.npz"), **arrays)


def expected(folder):
    """Key → field → array, with structures as a field a member."""
    samples = {}
    for path in sorted(glob.glob(os.path.join(folder, "*.npz"))):
        fields = {}
        for name, array in np.load(path).items():
            flatten(name, array, fields)
        samples[os.path.basename(path)[:-4]] = fields
    return samples


def flatten(name, array, fields):
    if array.dtype.names is None:
        fields[name] = array
    else:
        for member in array.dtype.names:
            flatten(f"{name}.{member}", array[member], fields)


def native(array):
    return np.ascontiguousarray(array).reshape(array.shape).astype(array.dtype.newbyteorder("<"))


def same(found, wanted, where):
    wanted = native(wanted)
    found = np.asarray(found)
    if wanted.dtype.kind == "S":
        found = found.astype(wanted.dtype)
    if wanted.dtype.kind == "U":
        texts = [x.decode() if isinstance(x, bytes) else str(x) for x in found.reshape(-1)]
        assert texts == list(wanted.reshape(-1)), where
        assert found.shape == wanted.shape, (where, found.shape, wanted.shape)
        return
    assert found.shape == wanted.shape, (where, found.shape, wanted.shape)
    assert native(found).tobytes() == wanted.tobytes(), (where, found, wanted)


def check(folder, kind, shards):
    wanted = expected(folder)
    seen = {}
    for shard in shards:
        for key, fields in globals()["read_" + kind](shard):
            assert key not in seen, key
            seen[key] = True
            want = wanted[key]
            assert sorted(fields) == sorted(want), (key, set(fields) ^ set(want))
            for name, array in want.items():
                same(fields[name](array), array, f"{kind} {key}.{name}")
    assert sorted(seen) == sorted(wanted), seen
    print(f"{len(seen)} samples of {len(next(iter(wanted.values())))} arrays")


def read_webdataset(shard):
    import webdataset

    for sample in webdataset.WebDataset(shard, shardshuffle=False).decode():
        fields = {}
        for name, value in sample.items():
            if name.startswith("__"):
                continue
            plain = name.removesuffix(".npy").removesuffix(".txt")
            def value_of(wanted, value=value):
                assert isinstance(value, str) or value.dtype == wanted.dtype.newbyteorder("<"), value
                return value
            fields[plain] = value_of
        yield sample["__key__"], fields


def read_hdf5(shard):
    import h5py

    with h5py.File(shard) as file:
        data = file["data"]
        keys = [k.decode() for k in data["__key__"][:]]
        names = [name for name in data if name != "__key__"]
        for row, key in enumerate(keys):
            fields = {}
            for name in names:
                def value_of(wanted, name=name, row=row):
                    found = np.asarray(data[name][row])
                    if wanted.dtype.kind in "Mm":
                        found = found.view(wanted.dtype.newbyteorder("<")) if found.dtype.kind != "V" else found
                    if wanted.dtype.kind not in "USVMm":
                        assert native(found).dtype == native(wanted).dtype, (name, found.dtype, wanted.dtype)
                    return found
                fields[name] = value_of
            yield key, fields


def read_parquet(shard):
    import pyarrow.parquet as pq

    table = pq.read_table(shard)
    keys = table["__key__"].to_pylist()
    names = [name for name in table.column_names if name != "__key__"]
    for row, key in enumerate(keys):
        fields = {}
        for name in names:
            def value_of(wanted, name=name, row=row):
                if wanted.dtype.kind in "Mm":
                    found = times(table[name].slice(row, 1).combine_chunks())
                    if found is not None:
                        assert str(found.dtype) == str(native(wanted).dtype), (name, found.dtype, wanted.dtype)
                        return found.reshape(wanted.shape)
                value = table[name][row].as_py()
                if wanted.dtype.kind in "cSVMm":
                    raw = b"".join(flat(value)) if isinstance(value, list) else value
                    return np.frombuffer(raw or b"", native(wanted).dtype, wanted.size).reshape(wanted.shape)
                return np.array(value, native(wanted).dtype).reshape(wanted.shape)
            fields[name] = value_of
        yield key, fields


def times(array):
    """The values of a column of Arrow's times, of one row, as NumPy's; None for a column of another type."""
    import pyarrow as pa

    array = getattr(array, "storage", array)
    while pa.types.is_list(array.type) or pa.types.is_large_list(array.type) or pa.types.is_fixed_size_list(array.type):
        array = array.flatten()
    kinds = {pa.types.is_timestamp: "datetime64", pa.types.is_duration: "timedelta64"}
    kind = next((name for test, name in kinds.items() if test(array.type)), None)
    if kind is None:
        return None
    ticks = np.array([np.iinfo("i8").min if x is None else x for x in array.view(pa.int64()).to_pylist()], "i8")
    return ticks.view(f"{kind}[{array.type.unit}]")


def flat(value):
    for item in value:
        if isinstance(item, list):
            yield from flat(item)
        else:
            yield item


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(sys.argv[2])
    else:
        check(sys.argv[2], sys.argv[3], sys.argv[4:])
