"""Prints what h5py reads from files of the layout ml-hdf5/1: one line of JSON per file, with one text per sample and field.

Numbers are written as their little-endian bytes in hexadecimal, texts as their UTF-8 bytes, joined by "|".
"""

import json
import sys

import h5py
import numpy as np

try:
    import hdf5plugin  # noqa: F401  (registers zstd)
except ImportError:
    pass


def one(value):
    if isinstance(value, str):
        return value.encode().hex()
    if isinstance(value, bytes):
        return value.hex()
    value = np.asarray(value)
    if value.dtype == object:
        return "|".join(one(v) for v in value.ravel())
    return np.ascontiguousarray(value).tobytes().hex()


def sample(node, i):
    if isinstance(node, h5py.Dataset):
        value = node[i]
        if node.dtype.kind == "S":
            # h5py drops trailing zeros of a scalar.
            value = node[i : i + 1]
        return one(value)
    values = node["values"]
    if "ragged" in node.attrs:
        a, b = node["offsets"][i : i + 2]
        return str(node["shapes"][i].tolist()) + one(values[a:b])
    depth = sum(name.startswith("offsets") for name in node)
    field = json.loads(text(node.attrs["packhorse_field"]))
    # The bytes of a blob, and those in lists, are one value.
    whole = field["kind"] == "blob" or field.get("element") == "bytes"
    return nested(node, values, 0, depth, i, whole)


def nested(node, values, level, depth, i, whole):
    a, b = node["offsets" + (str(level) if level else "")][i : i + 2]
    if level + 1 == depth:
        return one(values[a:b]) if whole else "[" + ",".join(one(v) for v in values[a:b]) + "]"
    return "[" + ",".join(nested(node, values, level + 1, depth, j, whole) for j in range(a, b)) + "]"


def text(value):
    return value.decode() if isinstance(value, bytes) else str(value)


def names(value):
    return json.loads(value) if isinstance(value, str) else [text(name) for name in value]


def main():
    for path in sys.argv[1:]:
        with h5py.File(path, "r") as f:
            assert text(f.attrs["packhorse_layout"]) == "ml-hdf5/1"
            n = int(f.attrs["num_samples"])
            fields = {}
            for name, node in f["data"].items():
                there = f["present"][name][:] if "present" in f and name in f["present"] else np.ones(n, "u1")
                fields[name] = [sample(node, i) if there[i] else None for i in range(n)]
            classes = {name: names(node.attrs["class_names"]) for name, node in f["data"].items() if "class_names" in node.attrs}
            print(json.dumps({"samples": n, "fields": fields, "classes": classes}))


main()
