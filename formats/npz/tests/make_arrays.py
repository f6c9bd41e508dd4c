"""Writes every kind of array with NumPy, and prints the values that NumPy reads: make_arrays.py FOLDER.

FOLDER/manifest.json is a list of {file, field, fields: [{name, type, numpy, saved, texts}]}, where saved
is the range [start, end] in FOLDER/saved.bin of what numpy.save writes for the field, in C order and little-endian.
"""

import io
import json
import sys
import zipfile
from pathlib import Path

import numpy as np

folder = Path(sys.argv[1])
saved = open(folder / "saved.bin", "wb")
manifest = []
random = np.random.default_rng(7)

NUMBERS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16", "?"]
OTHERS = ["U1", "U7", "S1", "S5", "V3", "V8", "M8[ns]", "M8[D]", "m8[us]", "M8[25s]", "m8[h]"]
SHAPES = [(), (1,), (5,), (0,), (3, 4), (3, 0, 2), (2, 3, 4), (33, 65), (1, 7, 1), (2, 2, 2, 2, 2)]
ARROW = {
    "i1": "Int8", "i2": "Int16", "i4": "Int32", "i8": "Int64", "u1": "UInt8", "u2": "UInt16", "u4": "UInt32",
    "u8": "UInt64", "f2": "Float16", "f4": "Float32", "f8": "Float64", "b1": "Boolean",
}
POINT = [("x", "f4"), ("y", "f8")]
STRUCTS = [
    POINT,
    [("id", "i4"), ("name", "U5"), ("tag", "S3"), ("v", "V2"), ("t", "M8[ns]"), ("z", "c8"), ("ok", "?")],
    [("p", POINT), ("q", [("r", POINT), ("s", "i1")])],
    [("m", "f4", (2, 3)), ("n", "u1", (4,)), ("e", "f4", (0,))],
    [("p", POINT, (2,)), ("q", [("r", "i2", (3,))], (2, 2))],
    [(("the title", "t"), "i4"), ("ünïcode", "f4")],
]
STRUCTS = [np.dtype(s) for s in STRUCTS] + [
    np.dtype([("a", "i1"), ("b", "f8"), ("c", "i2")], align=True),
    np.dtype([("a", "i1"), ("p", np.dtype([("x", "i1"), ("y", "i8")], align=True), (2,))], align=True),
    np.dtype({"names": ["a", "b"], "formats": ["i2", "f4"], "offsets": [3, 8], "itemsize": 20}),
]


def values(dtype, shape):
    if dtype.names:
        array = np.zeros(shape, dtype)
        for name in dtype.names:
            part = dtype[name]
            base, extra = part.subdtype or (part, ())
            array[name] = values(base, tuple(shape) + tuple(extra))
        return array
    n = int(np.prod(shape, dtype=int))
    if dtype.kind == "U":
        letters = ["", "a", "ä", "日本", "x\0y", "🐴", "longest"]
        return np.array([letters[i % 7][: dtype.itemsize // 4] for i in range(n)], dtype).reshape(shape)
    if dtype.kind == "S":
        letters = [b"", b"a", b"\xff\x00b", b"abcde"]
        return np.array([letters[i % 4] for i in range(n)], dtype).reshape(shape)
    if dtype.kind == "b":
        return random.integers(0, 2, shape).astype(dtype).reshape(shape)
    raw = random.integers(0, 256, n * dtype.itemsize, dtype="u1").tobytes()
    return np.frombuffer(raw, dtype).reshape(shape)


def leaves(name, array):
    if array.dtype.names:
        for member in array.dtype.names:
            yield from leaves(f"{name}.{member}", array[member])
    else:
        yield name, np.asarray(array)


def field(name, array):
    little = np.array(array, order="C").astype(array.dtype.newbyteorder("<"))
    out = io.BytesIO()
    np.save(out, little)
    start = saved.tell()
    saved.write(out.getvalue())
    code = little.dtype.str[1:]
    special = little.dtype.kind in "cSVMmU"
    element = ARROW.get(code) or ("Utf8View" if code[0] == "U" else f"FixedSizeBinary({little.dtype.itemsize})")
    dims = "[" + ",".join(map(str, little.shape)) + "]" if little.ndim else ""
    kind = "text" if element == "Utf8View" and not little.ndim else element + dims
    texts = [str(t) for t in little.flat] if code[0] == "U" else None
    return {"name": name, "type": kind, "numpy": little.dtype.str if special else None,
            "saved": [start, saved.tell()], "texts": texts}


def note(file, what, arrays):
    fields = sorted((field(n, a) for name, array in arrays for n, a in leaves(name, array)), key=lambda f: f["name"])
    manifest.append({"file": file, "field": what, "fields": fields})


def one(array):
    name = f"{len(manifest):04}.npy"
    np.save(folder / name, array)
    note(name, "npy", [("npy", np.load(folder / name))])


def several(arrays):
    for save in (np.savez, np.savez_compressed):
        name = f"{len(manifest):04}.npz"
        save(folder / name, **arrays)
        with np.load(folder / name) as found:
            note(name, "view.npz", [("view." + n, found[n]) for n in found.files])


def versions():
    for version in [(1, 0), (2, 0), (3, 0)]:
        name = f"{len(manifest):04}.npy"
        with open(folder / name, "wb") as out:
            np.lib.format.write_array(out, values(np.dtype(">f4"), (3, 5)), version)
        note(name, "depth.npy", [("depth", np.load(folder / name))])


def streamed():
    """A zip with data descriptors, a comment, directories and files that are not arrays."""
    name = f"{len(manifest):04}.npz"
    out = io.BytesIO()

    class Stream:
        def write(self, data):
            return out.write(data)

        def flush(self):
            pass

    with zipfile.ZipFile(Stream(), "w") as archive:
        archive.comment = b"made by hand"
        archive.writestr("folder/", "")
        for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            part = io.BytesIO()
            np.save(part, np.arange(1000) + method)
            archive.writestr(f"folder/x{method}.npy", part.getvalue(), method)
    (folder / name).write_bytes(out.getvalue())
    with np.load(folder / name) as found:
        note(name, "npz", [(n, found[n]) for n in found.files if n.startswith("folder/x")])


for code in NUMBERS + OTHERS:
    for order in "<>":
        dtype = np.dtype(code).newbyteorder(order)
        arrays = {}
        for i, shape in enumerate(SHAPES):
            for fortran in (False, True):
                array = values(dtype, shape)
                array = np.asfortranarray(array) if fortran and shape else array
                arrays[f"a{i}{'f' if fortran else 'c'}"] = array
        several(arrays)
        for array in arrays.values():
            one(array)
for dtype in STRUCTS:
    for order in "<>":
        for shape in SHAPES[:7]:
            array = values(dtype.newbyteorder(order), shape)
            one(array)
            if shape:
                one(np.asfortranarray(array))
        several({"s": array, "plain": np.arange(3)})
for zero in ("U0", "S0"):
    one(np.zeros((), zero))
    several({"z": np.zeros((2, 3), zero)})
big = np.arange(900_000, dtype="<i4").reshape(300_000, 3)
several({"c": big, "f": np.asfortranarray(big[:, ::-1]), "flat": big[:, 0] * 0.5, "t": big[:, 0].astype("U9")})
one(big)
one(np.asfortranarray(big.reshape(75_000, 3, 4)).astype(">f8"))
versions()
streamed()
saved.close()
(folder / "manifest.json").write_text(json.dumps(manifest))
print(len(manifest), "files")
