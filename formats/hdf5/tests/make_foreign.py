"""Writes files with h5py, PyTables and netCDF4 into a folder, and prints their values.

One line of JSON per file: its name, the option `datasets`, and for each field one text per sample as in dump.py, or
the words that the error must contain.
"""

import json
import sys
from pathlib import Path

import h5py
import hdf5plugin
import netCDF4
import numpy as np
import tables

from hexed import hexed as one

DIR = Path(sys.argv[1])
N = 57
rng = np.random.default_rng(7)


def say(name, fields=None, datasets="", error=""):
    texts = {k: v if v and isinstance(v[0], list) else [one(x) for x in v] for k, v in (fields or {}).items()}
    texts = {k: [x[0] if isinstance(x, list) else x for x in v] for k, v in texts.items()}
    print(json.dumps({"file": name, "datasets": datasets, "error": error, "fields": texts}))


def number(shape, dtype):
    dtype = np.dtype(dtype)
    if dtype.kind == "f":
        return rng.normal(size=shape).astype(dtype)
    if dtype.kind == "c":
        return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    return rng.integers(0, 100, shape).astype(dtype)


DTYPES = ["u1", "i1", "<i2", ">i2", "<u4", ">u8", "i8", "<f2", ">f4", "f8", "c8", ">c16", "?"]


def h5py_zoo(libver, tag):
    kinds = {
        "contiguous": {},
        "chunked": dict(chunks=(10, 2, 3)),
        "whole": dict(chunks=(10, 4, 5)),
        "gzip": dict(chunks=(7, 4, 2), compression="gzip", shuffle=True),
        "sum": dict(chunks=(7, 4, 5), compression="gzip", fletcher32=True),
        "sumonly": dict(chunks=(7, 3, 5), fletcher32=True),
        "grows": dict(chunks=(5, 4, 5), maxshape=(None, 4, 5), compression="gzip"),
        "growsmore": dict(chunks=(5, 2, 5), maxshape=(None, None, 5), compression="gzip"),
        "growsaside": dict(chunks=(5, 2, 5), maxshape=(N, None, 5)),
        "single": dict(chunks=(N, 4, 5), compression="gzip"),
        "tiny": dict(chunks=(1, 1, 1), maxshape=(None, 4, 5)),
        "lzf": dict(chunks=(20, 4, 5), compression="lzf", shuffle=True),
        "zstd": dict(chunks=(9, 4, 5), shuffle=True, **hdf5plugin.Zstd(clevel=3)),
    }
    for kind, how in kinds.items():
        name = f"{tag}-{kind}.h5"
        fields = {}
        with h5py.File(DIR / name, "w", libver=libver) as f:
            for i, dtype in enumerate(DTYPES):
                x = number((N, 4, 5), dtype)
                f.create_dataset(f"g{i % 3}/sub/x{i}", data=x, **how)
                fields[f"g{i % 3}.sub.x{i}"] = list(x)
            f["scalar"] = 3.5
            f["empty"] = h5py.Empty("f4")
        say(name, fields)


def h5py_odd(libver, tag):
    name = f"{tag}-odd.h5"
    with h5py.File(DIR / name, "w", libver=libver) as f:
        texts = ["naïve " * (i % 4) for i in range(N)]
        f.create_dataset("vlen", data=texts, dtype=h5py.string_dtype())
        fixed = np.array([f"ab{i}".encode() for i in range(N)], "S6")
        f["fixed"] = fixed
        f["utf"] = np.array([t[:9].encode() for t in texts], h5py.string_dtype("utf-8", 12))
        words = np.array([[f"w{i}", "x" * i] for i in range(N)], dtype=object)
        f.create_dataset("words", data=words, dtype=h5py.string_dtype(), chunks=(10, 1), compression="gzip")
        color = h5py.enum_dtype({"RED": 3, "GREEN": 9}, basetype="i2")
        colors = number((N,), "i2")
        f.create_dataset("enum", data=colors, dtype=color)
        filled = f.create_dataset("filled", (N, 3), "<i4", chunks=(10, 3), fillvalue=-7)
        filled[20:25] = 4
        late = f.create_dataset("late", (N,), ">f8", fillvalue=2.5)
        del late
        pairs = np.zeros(N, [("a", "<i4"), ("b", ">f8", (2, 3)), ("c", "S4")])
        pairs["a"], pairs["b"], pairs["c"] = number(N, "i4"), number((N, 2, 3), "f8"), b"xy"
        f["pairs"] = pairs
        f["void"] = np.frombuffer(bytes(range(3)) * N, "V3")
        named = f.create_group("named")
        named["type"] = np.dtype("<i8")
        f.create_dataset("committed", data=np.arange(N), dtype=named["type"])
        f["soft"] = h5py.SoftLink("/fixed")
        f["away"] = h5py.ExternalLink("no.h5", "/x")
        space = h5py.h5s.create_simple((N,))
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_layout(h5py.h5d.COMPACT)
        compact = h5py.h5d.create(f.id, b"compact", h5py.h5t.STD_I16BE, space, plist)
        compact.write(h5py.h5s.ALL, h5py.h5s.ALL, np.arange(N, dtype="i2"))
        blobs = f.create_dataset("blobs", (N,), h5py.vlen_dtype("u1"))
        for i in range(N):
            blobs[i] = np.arange(i * 9, dtype="u1")
    say(name, {
        "vlen": texts, "fixed": list(fixed), "utf": [t[:9] for t in texts],
        "words": list(words), "enum": list(colors), "filled": [np.full(3, 4 if 20 <= i < 25 else -7, "i4") for i in range(N)],
        "late": [np.float64(2.5)] * N, "pairs.a": list(pairs["a"]), "pairs.b": list(pairs["b"]), "pairs.c": list(pairs["c"]),
        "void": [bytes(range(3))] * N, "committed": list(np.arange(N)), "compact": list(np.arange(N, dtype="i2")),
        "blobs": [np.arange(i * 9, dtype="u1") for i in range(N)],
    })
    say(name, {"fixed": list(fixed), "filled": [np.full(3, 4 if 20 <= i < 25 else -7, "i4") for i in range(N)]}, datasets="fi*")
    say(name, datasets="nothing", error="nothing")


def h5py_large(libver, tag):
    """Trees and arrays of several levels, pages and super blocks; groups of many links."""
    name = f"{tag}-large.h5"
    with h5py.File(DIR / name, "w", libver=libver) as f:
        x = number((9000, 2), "i2")
        f.create_dataset("grows", data=x, chunks=(1, 2), maxshape=(None, 2))
        f.create_dataset("growsgzip", data=x, chunks=(1, 2), maxshape=(None, 2), compression="gzip")
        f.create_dataset("fixed", data=x, chunks=(1, 1))
        f.create_dataset("growsboth", data=x, chunks=(2, 1), maxshape=(None, None))
    say(name, {k: list(x) for k in ["grows", "growsgzip", "fixed", "growsboth"]})
    name = f"{tag}-many.h5"
    fields = {}
    with h5py.File(DIR / name, "w", libver=libver) as f:
        for i in range(700):
            x = number((2,), "i4")
            f[f"a group/a rather long name of a dataset {i:05d}"] = x
            fields[f"a group.a rather long name of a dataset {i:05d}"] = list(x)
    say(name, fields)


def h5py_filters():
    """Filters of hdf5plugin: compressible and incompressible values, numbers of elements not divisible by 8."""
    blosc = hdf5plugin.Blosc
    kinds = {f"blosc-{coder}-{shuffle}": blosc(cname=coder, clevel=5, shuffle=shuffle)
             for coder in ["blosclz", "lz4", "lz4hc", "zlib", "zstd"] for shuffle in [0, 1, 2]}
    kinds |= {f"bitshuffle-{coder}-{n}": hdf5plugin.Bitshuffle(nelems=n, cname=coder)
              for coder in ["none", "lz4", "zstd"] for n in [0, 64]}
    kinds |= {"lz4": hdf5plugin.LZ4(), "lz4-small": hdf5plugin.LZ4(nbytes=1000), "bzip2": hdf5plugin.BZip2()}
    for kind, how in kinds.items():
        fields = {}
        with h5py.File(DIR / f"{kind}.h5", "w") as f:
            for dtype in ["u1", "<i2", ">f4", "f8"]:
                for width, rows in [(3, 5), (301, 10), (1500, 19)]:
                    x = number((N, width), dtype) if width < 1500 else np.arange(N * width).reshape(N, width).astype(dtype)
                    name = f"{np.dtype(dtype).name}-{width}"
                    f.create_dataset(name, data=x, chunks=(rows, width), **how)
                    fields[name] = list(x)
        say(f"{kind}.h5", fields)


def h5py_scaleoffset():
    """Numbers of all widths; chunks of one value, with the full number of bits, and with values never written."""
    fields = {}
    with h5py.File(DIR / "scaleoffset.h5", "w") as f:
        def dataset(name, x, how, **more):
            d = f.create_dataset(name, data=x, chunks=(10, 7), scaleoffset=how, **more)
            fields[name] = list(d[:])

        for dtype in ["u1", "i1", "<u2", ">i2", "<i4", ">u4", "i8", ">u8"]:
            info = np.iinfo(dtype)
            for name, (low, high) in {"few": (-5, 9), "one": (7, 8), "all": (info.min, info.max)}.items():
                low = max(low, info.min)
                x = rng.integers(low, high, (N, 7), dtype=np.dtype(dtype).newbyteorder("=")).astype(dtype)
                dataset(f"{np.dtype(dtype).str[1:]}-{name}", x, 0)
                dataset(f"{np.dtype(dtype).str[1:]}-{name}-more", x, 0, shuffle=True, compression="gzip")
        for dtype in ["<f4", ">f4", "f8", ">f8"]:
            x = rng.normal(size=(N, 7)).astype(dtype) * 50
            for digits in [1, 3]:
                dataset(f"{np.dtype(dtype).str[1:]}{np.dtype(dtype).str[0] == '>'}-{digits}", x, digits)
        for dtype, fill in [("i4", -7), ("u2", 9), ("f8", 2.5), ("f4", -1.5)]:
            d = f.create_dataset(f"filled-{dtype}", (N, 7), dtype, chunks=(10, 7), scaleoffset=2, fillvalue=fill)
            d[5:33, 2:6] = rng.integers(0, 99, (28, 4)).astype(dtype)
            fields[f"filled-{dtype}"] = list(d[:])
    with h5py.File(DIR / "scaleoffset.h5") as f:
        say("scaleoffset.h5", {name: list(f[name][:]) for name in fields})


def h5py_refused():
    with h5py.File(DIR / "blosc2.h5", "w") as f:
        f.create_dataset("x", data=np.arange(1000), chunks=(100,), **hdf5plugin.Blosc2())
    say("blosc2.h5", error="blosc2")
    with h5py.File(DIR / "snappy.h5", "w") as f:
        f.create_dataset("x", data=np.arange(1000), chunks=(500,), **hdf5plugin.Blosc(cname="snappy"))
    say("snappy.h5", error="snappy")
    with h5py.File(DIR / "zfp.h5", "w") as f:
        f.create_dataset("x", data=np.arange(1000.0), chunks=(100,), **hdf5plugin.Zfp())
    say("zfp.h5", error="zfp")
    with h5py.File(DIR / "rows.h5", "w") as f:
        f["a"], f["b"] = np.arange(3), np.arange(4)
    say("rows.h5", error="/a has 3 rows and /b has 4")
    say("rows.h5", {"b": list(np.arange(4))}, datasets="b")
    with h5py.File(DIR / "sparse.h5", "w") as f:
        f.create_dataset("x", (2_000_000_000,), "u1", chunks=(1 << 20,), fillvalue=7)
        f.create_dataset("y", (2_000_000_000,), "S1")
    say("sparse.h5", error="expansion=any")
    with h5py.File(DIR / "block.h5", "w", userblock_size=1024) as f:
        f["a"] = np.arange(3)
    say("block.h5", {"a": list(np.arange(3))})


def pytables():
    x, table = number((N, 3), "f4"), np.zeros(N, [("e", "<f8"), ("n", "<i4"), ("s", "S5")])
    table["e"], table["n"], table["s"] = number(N, "f8"), number(N, "i4"), b"abc"
    with tables.open_file(str(DIR / "pytables.h5"), "w", filters=tables.Filters(5, "zlib", shuffle=True)) as f:
        f.create_array("/", "plain", x)
        f.create_carray("/", "chunked", obj=x)
        f.create_earray("/g", "grows", obj=x, createparents=True)
        f.create_table("/", "table", obj=table)
    fields = {"plain": list(x), "chunked": list(x), "g.grows": list(x)}
    fields |= {f"table.{k}": list(table[k]) for k in "ens"}
    say("pytables.h5", fields)
    many = np.arange(N * 2000, dtype="f8").reshape(N, 2000)
    for coder in ["blosc", "blosc:lz4", "bzip2", "lzo"]:
        if tables.which_lib_version(coder.split(":")[0]) is None:
            continue
        name = f"pytables-{coder.replace(':', '-')}.h5"
        with tables.open_file(str(DIR / name), "w", filters=tables.Filters(5, coder, shuffle=True)) as f:
            f.create_carray("/", "x", obj=many)
        say(name, {} if coder == "lzo" else {"x": list(many)}, error="lzo" if coder == "lzo" else "")


def netcdf():
    x = number((N, 4), "f4")
    with netCDF4.Dataset(DIR / "grid.nc4", "w") as f:
        f.createDimension("time", None)
        f.createDimension("x", 4)
        f.createVariable("temperature", "f4", ("time", "x"), compression="zlib", shuffle=True, fletcher32=True)[:] = x
        f.createVariable("pressure", ">i2", ("time", "x"), endian="big")[:] = np.arange(N * 4).reshape(N, 4)
    pressure = np.arange(N * 4, dtype="i2").reshape(N, 4)
    say("grid.nc4", {"temperature": list(x), "pressure": list(pressure)}, datasets="temperature,pressure")
    say("grid.nc4", {"temperature": list(x), "pressure": list(pressure)})


for libver, tag in [("earliest", "old"), (("v108", "v108"), "v108"), (("v110", "v110"), "v110"), ("latest", "new")]:
    h5py_zoo(libver, tag)
    h5py_odd(libver, tag)
    h5py_large(libver, tag)
h5py_filters()
h5py_scaleoffset()
h5py_refused()
pytables()
netcdf()
