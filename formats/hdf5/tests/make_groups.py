"""Writes files whose groups are samples with h5py and PyTables into a folder, and prints their values.

One line of JSON per file: its name, the options of the source, and for each field one text per sample as in dump.py ("null" if the sample
lacks it), or the words that the error must contain. Values are read back by h5py.
"""

import json
import sys
from pathlib import Path

import h5py
import numpy as np
import tables

from hexed import hexed

DIR = Path(sys.argv[1])
rng = np.random.default_rng(11)


def members(value, name):
    """The fields of a dataset: one for each member of a compound."""
    if value.dtype.names is None:
        yield name, value
    else:
        for member in value.dtype.names:
            yield from members(value[member], f"{name}.{member}")


def values(group):
    """The fields of a sample, as h5py reads them."""
    found = {}

    def one(name, dataset):
        if not isinstance(dataset, h5py.Dataset):
            return
        name = name.replace("/", ".")
        value = dataset[()]
        if h5py.check_string_dtype(dataset.dtype) is None and h5py.check_vlen_dtype(dataset.dtype) is not None:
            of_bytes = h5py.check_vlen_dtype(dataset.dtype) == np.uint8
            found[name] = (("pieces" if of_bytes else "lists") if dataset.ndim else ("one" if of_bytes else "list"), value)
        elif isinstance(value, np.ndarray) or isinstance(value, np.void):
            for name, value in members(np.asarray(value), name):
                found[name] = ("array", value)
        else:
            found[name] = ("one", value)

    group.visititems(one)
    return found


def text(kind, value, ragged):
    if kind == "lists":
        return "[" + ",".join(text("list", v, ragged) for v in value) + "]"
    if kind in ("list", "pieces"):
        return "[" + ",".join(hexed(v) for v in value) + "]"
    if kind == "array" and ragged:
        return str(list(np.shape(value))) + hexed(value)
    return hexed(value)


def say(name, groups, error="", **options):
    line = {"file": name, "options": {"groups": groups, **options}, "error": error, "fields": {}}
    if not error:
        with h5py.File(DIR / name) as f:
            paths = [""] if groups == "/" else sorted(f"{groups[:-2].strip('/')}/{key}".strip("/") for key in f[groups[:-1] or "/"])
            samples = [values(f[path or "/"]) for path in paths]
        fields = sorted({field for sample in samples for field in sample})
        for field in fields:
            there = [sample[field] for sample in samples if field in sample]
            ragged = len({np.shape(value) for _, value in there}) > 1
            texts = [text(*sample[field], ragged) if field in sample else "null" for sample in samples]
            line["fields"][field] = texts
        if groups != "/":
            line["fields"]["path"] = [hexed(path) for path in paths]
    print(json.dumps(line))


def episodes(libver, name):
    with h5py.File(DIR / name, "w", libver=libver) as f:
        f.create_dataset("mask/train", data=["demo_0", "demo_1"], dtype=h5py.string_dtype())
        for i in range(30):
            steps = 4 + i * 7 % 13
            g = f.create_group(f"data/demo_{i}")
            g["actions"] = rng.normal(size=(steps, 7)).astype("f4")
            image = rng.integers(0, 255, (steps, 6, 5, 3), dtype="u1")
            g.create_dataset("obs/image", data=image, chunks=(2, 6, 5, 3), compression="gzip", shuffle=True)
            g.create_dataset("obs/grows", data=image[:, 0, 0], chunks=(4, 3), maxshape=(None, 3))
            g["obs/state"] = rng.normal(size=(steps, 3)).astype(">f8")
            g["goal"] = np.arange(4, dtype="i8") + i
            g["scalar"], g["done"], g["score"] = i, i % 3 == 0, np.float16(i / 7)
            g["complex"] = np.complex64(complex(i, -i))
            g["task"], g["fixed"] = f"pick é {i}", np.bytes_(b"ab" * (i % 3))
            g.create_dataset("words", data=[f"w{j}" for j in range(i % 4)], dtype=h5py.string_dtype())
            g["codes"] = np.array([b"ab", b"cde"][: 1 + i % 2], "S3")
            g["table"] = np.array([(i, (1.5, j)) for j in range(i % 5)], [("n", ">i4"), ("xy", "f8", (2,))])
            g["one_row"] = np.array((i, 2.5), [("n", "<u2"), ("x", "f4")])
            g["none"], g["flat"] = np.zeros((0, 3)), np.zeros((steps, 0), "u1")
            g.create_dataset("never_written", (steps, 2), "i2", fillvalue=7)
            if i % 3:
                g["note"], g["extra"], g["number"] = f"n{i}", np.full((2, 2), i, "i4"), np.uint8(i)
                g["truth"], g["lengths"] = i % 2 == 0, np.arange(i)
            blob = g.create_dataset("jpg", (), h5py.vlen_dtype(np.uint8))
            blob[()] = np.arange(i, dtype="u1")
            if i != 7:
                frames = g.create_dataset("frames", (0 if i == 3 else steps,), h5py.vlen_dtype(np.uint8))
                tracks = g.create_dataset("tracks", (i % 4,), h5py.vlen_dtype(np.float32))
                for j in range(len(frames)):
                    frames[j] = np.arange(i * j % 50, dtype="u1")
                for j in range(i % 4):
                    tracks[j] = np.arange(j * 2, dtype="f4") + i
            if i != 4:
                g.create_dataset("hits", (), h5py.vlen_dtype(np.int32))[()] = np.arange(i % 6, dtype="i4")
    say(name, "/data/*")


def embeddings():
    with h5py.File(DIR / "embeddings.h5", "w") as f:
        lengths = [1 + i % 9 for i in range(200)]
        for i, length in enumerate(lengths):
            f[f"P{i:05}"] = np.full((length, 8), i, "f2")
    texts = [str([n, 8]) + hexed(np.full((n, 8), i, "f2")) for i, n in enumerate(lengths)]
    fields = {"path": [hexed(f"P{i:05}") for i in range(200)], "value": texts}
    print(json.dumps({"file": "embeddings.h5", "options": {"groups": "*"}, "error": "", "fields": fields}))


def whole_files():
    with h5py.File(DIR / "whole.h5", "w") as f:
        f["a"], f["b/c"], f["length"] = np.arange(5), np.ones((3, 2)), 9
    say("whole.h5", "/")
    say("whole.h5", "/x*", error="there are the groups /b")
    say("whole.h5", "/,b", error="can't be a sample beside")
    say("whole.h5", "/", error="with `groups` each group is a sample", dimension="time")
    say("whole.h5", "/b", error="no dataset of the groups matches a", datasets="a")


def others():
    with tables.open_file(str(DIR / "pytables.h5"), "w") as f:
        for i in range(3):
            f.create_array(f"/runs/r{i}", "x", np.arange(i + 1), createparents=True)
            f.create_array(f"/runs/r{i}", "ok", np.array([True, False]))
    with h5py.File(DIR / "pytables.h5") as f:
        x = [str([i + 1]) + hexed(f[f"runs/r{i}/x"][:]) for i in range(3)]
    fields = {"path": [hexed(f"runs/r{i}") for i in range(3)], "ok": ["0100"] * 3, "x": x}
    print(json.dumps({"file": "pytables.h5", "options": {"groups": "/runs/*"}, "error": "", "fields": fields}))

    with h5py.File(DIR / "unlike.h5", "w") as f:
        f["a/x"], f["b/x"] = np.zeros(3, "f4"), np.zeros(3, "f8")
        f["c/y"], f["d/y"] = np.zeros(3), np.zeros((3, 2))
        f["e/z"], f["g/z"] = np.zeros(3), np.zeros(3)
        f["g"].create_dataset("odd", data=np.zeros(3, "longdouble"))
        f["h/odd"] = np.zeros(3)
        f["i/path"] = np.zeros(3)
        f["j/t"], f["k/t"] = "text", 3
    say("unlike.h5", "c,d", error="dataset /d/y holds Float64[3,2], and that of /c Float64[3]")
    say("unlike.h5", "g,h", error="dataset /g/odd can't be read")
    say("unlike.h5", "i", error="has the name of the field path")
    say("unlike.h5", "j,k", error="dataset /k/t holds")
    say("unlike.h5", "g", error="dataset /g/odd can't be read", datasets="/g/odd")
    for name, datasets in [("e,g", "*,!*/odd"), ("e,g", "*/z")]:
        fields = {"path": [hexed("e"), hexed("g")], "z": [hexed(np.zeros(3))] * 2}
        options = {"groups": name, "datasets": datasets}
        print(json.dumps({"file": "unlike.h5", "options": options, "error": "", "fields": fields}))

    # Python writes 0 in one sample and 0.5 in the next.
    with h5py.File(DIR / "numbers.h5", "w") as f:
        f["s/0/reward"], f["s/1/reward"], f["s/2/reward"] = 0, 0.5, np.uint8(7)
        f["s/0/x"], f["s/1/x"] = np.arange(3, dtype="i1"), np.array([0.5, 1, 2], "f2")
        f["s/0/n"], f["s/1/n"], f["s/2/n"] = np.arange(2, dtype="u2"), np.arange(3, dtype="i4"), np.arange(2, dtype="u1")
        f["t/0/x"], f["t/1/x"] = 2**53 + 1, 0.5
    fields = {
        "path": [hexed(f"s/{i}") for i in range(3)],
        "reward": [hexed(np.float64(value)) for value in (0, 0.5, 7)],
        "x": [hexed(np.arange(3, dtype="f4")), hexed(np.array([0.5, 1, 2], "f4")), "null"],
        "n": [str([n]) + hexed(np.arange(n, dtype="i4")) for n in (2, 3, 2)],
    }
    print(json.dumps({"file": "numbers.h5", "options": {"groups": "/s/*"}, "error": "", "fields": fields}))
    say("numbers.h5", "/t/*", error="holds 9007199254740993, which floats of 64 bits do not hold exactly")

    with h5py.File(DIR / "links.h5", "w") as f:
        f["shared"] = np.arange(4)
        for i in range(2):
            f[f"s/{i}/grid"] = f["shared"]
            f[f"s/{i}/x"] = np.full(2, i)
            f[f"s/{i}/soft"] = h5py.SoftLink("/shared")
            f[f"s/{i}/up"] = f[f"s/{i}"]
        f["s/2"] = f["s/0"]
        f["s/note"] = "beside the groups"
    grid = [hexed(np.arange(4))] * 3
    x = [hexed(np.full(2, i)) for i in (0, 1, 0)]
    fields = {"grid": grid, "path": [hexed(f"s/{i}") for i in range(3)], "x": x}
    print(json.dumps({"file": "links.h5", "options": {"groups": "/s/*"}, "error": "", "fields": fields}))

    # Groups that another link reached before, links that are not followed, a datatype with a name.
    with h5py.File(DIR / "shared.h5", "w") as f:
        for i in range(3):
            f[f"all/demo_{i}/steps"] = np.full(2, i)
        for i in range(2):
            f[f"train/demo_{i}"] = f[f"all/demo_{i}"]
        f["train/demo_9/steps"] = np.full(2, 9)
        f["train/type"] = np.dtype("f4")
        f["train/soft"], f["train/outside"] = h5py.SoftLink("/all/demo_2"), h5py.ExternalLink("other.h5", "/x")
        f["links/a"] = h5py.SoftLink("/all/demo_2")
    for groups, paths in [("/train/*/steps", "train/demo_{}/steps"), ("/train/*", "train/demo_{}")]:
        steps = [hexed(np.full(2, i)) for i in (0, 1, 9)]
        name = "value" if groups.endswith("steps") else "steps"
        fields = {"path": [hexed(paths.format(i)) for i in (0, 1, 9)], name: steps}
        print(json.dumps({"file": "shared.h5", "options": {"groups": groups}, "error": "", "fields": fields}))
    say("shared.h5", "/links/*", error="links.a is a soft link")

    # A dataset beside the groups is not one of their fields.
    with h5py.File(DIR / "beside.h5", "w") as f:
        f["length"] = 7
        for i in range(3):
            f[f"ep{i}/length"] = i
    fields = {"length": [hexed(np.int64(i)) for i in range(3)], "path": [hexed(f"ep{i}") for i in range(3)]}
    print(json.dumps({"file": "beside.h5", "options": {"groups": "*"}, "error": "", "fields": fields}))

    # A large array that few samples have.
    with h5py.File(DIR / "few.h5", "w") as f:
        f["d/a/big"] = np.zeros((1 << 20, 3))
        for i in range(300):
            f[f"d/b{i:04}/x"] = np.arange(3)
    paths = [hexed("d/a")] + [hexed(f"d/b{i:04}") for i in range(300)]
    big = [str([1 << 20, 3]) + hexed(np.zeros((1 << 20, 3)))] + ["null"] * 300
    fields = {"big": big, "path": paths, "x": ["null"] + [hexed(np.arange(3))] * 300}
    print(json.dumps({"file": "few.h5", "options": {"groups": "/d/*"}, "error": "", "fields": fields}))

    with h5py.File(DIR / "strings.h5", "w") as f:
        for i in range(2):
            f[f"{i}/s"] = np.bytes_(b"x" * (i + 1))
            f[f"{i}/raw"] = np.void(b"\xff\x00" * (i + 1) + b"\x00")
    raw = [hexed(b"\xff\x00" * (i + 1) + b"\x00") for i in range(2)]
    for how in ({}, {"text": "bytes"}, {"text": "blob"}):
        fields = {"path": [hexed("0"), hexed("1")], "raw": raw, "s": [hexed(b"x"), hexed(b"xx")]}
        print(json.dumps({"file": "strings.h5", "options": {"groups": "*", **how}, "error": "", "fields": fields}))
    with h5py.File(DIR / "frames.h5", "w") as f:
        f["rgb"], f["x"] = np.array([b"\xff\xd8\x00\xd9", b"\xff", b""], "S9"), np.arange(3)
    rgb = [hexed(b"\xff\xd8\x00\xd9"), hexed(b"\xff"), ""]
    fields = {"rgb": rgb, "x": [hexed(np.int64(i)) for i in range(3)]}
    print(json.dumps({"file": "frames.h5", "options": {"text": "blob"}, "error": "", "fields": fields}))

    # Strings that end at a zero byte, as PyTables writes all of its own: bytes may hold zeros.
    ended = h5py.h5t.C_S1.copy()
    ended.set_size(6)
    ended.set_strpad(h5py.h5t.STR_NULLTERM)
    with h5py.File(DIR / "ended.h5", "w") as f:
        space = h5py.h5s.create_simple((2,))
        data = np.array([b"\xff\x00\x10\x00", b"ab"], "S6")
        h5py.h5d.create(f.id, b"raw", ended, space).write(h5py.h5s.ALL, h5py.h5s.ALL, data.view("u1"), ended)
    fields = {"raw": [hexed(b"\xff\x00\x10"), hexed(b"ab")]}
    print(json.dumps({"file": "ended.h5", "options": {"text": "blob"}, "error": "", "fields": fields}))

    with h5py.File(DIR / "bomb.h5", "w") as f:
        group = f.create_group("leaf")
        for level in range(30):
            above = f.create_group(f"level_{level}")
            above["a"] = above["b"] = group
            group = above
    say("bomb.h5", "level_29", error="too many links")


def attributes(libver, name, many):
    """Attributes of groups; `many` so that HDF5 moves them to a heap of their own."""
    kinds = {}
    with h5py.File(DIR / name, "w", libver=libver) as f:
        f["type"] = np.dtype([("lo", ">i4"), ("hi", "f8", (2,))])
        for i in range(9):
            g = f.create_group(f"runs/{i}")
            g["x"] = np.arange(i)
            a = {"steps": i, "done": i % 2 == 0, "fps": np.float32(i / 3), "task": f"pick é {i}", "fixed": np.bytes_(b"abc")}
            a |= {"origin": np.arange(3.0) + i, "words": [f"w{j}" for j in range(1 + i % 3)], "grid": np.full((2, 1 + i % 2), i, ">i2")}
            a |= {"z": np.complex64(complex(i, 1)), "pair": np.array((i, 0.5), [("n", "u1"), ("v", "<f4")])}
            for key, value in a.items():
                g.attrs[key] = value
            if many:
                g.attrs["long"] = a["long"] = "é" * (9000 + i)
                g.attrs["huge"] = a["huge"] = np.arange(20_000 + i)
                g.attrs["huger"] = a["huger"] = np.full(9_000, i, "f8")
                a |= {f"n{j:02}": np.uint16(i * j) for j in range(40)}
                for j in range(40):
                    g.attrs[f"n{j:02}"] = a[f"n{j:02}"]
            if i > 2:
                g.attrs["note"] = a["note"] = f"only some {i}"
            g.attrs.create("limits", (i, (1, i)), dtype=f["type"])
            hits = np.empty(1, object)
            hits[0] = np.arange(i % 3, dtype="i4")
            g.attrs.create("hits", hits, dtype=h5py.vlen_dtype(np.int32))
            g.attrs["none"], g.attrs["ref"] = h5py.Empty("f4"), g.ref
            a |= {"limits.lo": np.int32(i), "limits.hi": np.array([1.0, i]), "pair.n": np.uint8(i), "pair.v": np.float32(0.5)}
            del a["pair"]
            kinds[i] = {key: np.asarray(value, object if key == "words" else None) for key, value in a.items()}
    fields = {"path": [hexed(f"runs/{i}") for i in range(9)], "x": [str([i]) + hexed(np.arange(i)) for i in range(9)]}
    for key in sorted({key for a in kinds.values() for key in a}):
        ragged = len({a[key].shape for a in kinds.values() if key in a}) > 1
        there = lambda value: (str(list(value.shape)) if ragged else "") + hexed(value)
        fields[key] = [there(a[key]) if key in a else "null" for a in kinds.values()]
    fields["hits"] = ["[[" + ",".join(hexed(v) for v in np.arange(i % 3, dtype="i4")) + "]]" for i in range(9)]
    for chosen in ("*", "task,o*,limits", "!task"):
        wanted = dict(fields)
        if chosen != "*":
            keep = {"path", "x", "task", "origin", "limits.lo", "limits.hi"}
            wanted = {key: value for key, value in fields.items() if (key != "task" if chosen == "!task" else key in keep)}
        options = {"groups": "/runs/*", "attributes": chosen}
        print(json.dumps({"file": name, "options": options, "error": "", "fields": wanted}))
    say(name, "/runs/*", error="no sample has the attribute nope", attributes="nope")
    say(name, "/runs/*", error="no sample has the attribute nope", attributes="zz*,!gone,nope")
    say(name, "/runs/*", error="attribute ref of /runs/0 can't be read", attributes="ref")


def around():
    """Attributes of the groups around the samples, and names like those that libraries write."""
    with h5py.File(DIR / "around.h5", "w") as f:
        f.attrs["version"] = 3
        data = f.create_group("data")
        data.attrs["env_args"], data.attrs["fps"] = '{"env": "lift"}', 20
        for i in range(3):
            g = data.create_group(f"demo_{i}")
            g["x"] = i
            for name in ("_nchannels", "DIMENSION_LIST_2", "CLASS", "_NCProperties"):
                g.attrs[name] = f"{name} {i}"
    rest = {"path": [hexed(f"data/demo_{i}") for i in range(3)], "x": [hexed(np.int64(i)) for i in range(3)]}
    own = {name: [hexed(f"{name} {i}") for i in range(3)] for name in ("_nchannels", "DIMENSION_LIST_2", "CLASS", "_NCProperties")}
    outer = {"env_args": [hexed('{"env": "lift"}')] * 3, "fps": [hexed(np.int64(20))] * 3, "version": [hexed(np.int64(3))] * 3}
    for chosen, names in [("*", "_nchannels DIMENSION_LIST_2 CLASS"), ("*,_NC*", "_nchannels DIMENSION_LIST_2 CLASS _NCProperties"),
                          ("/*", "env_args fps version"), ("/data/*,CLASS", "env_args fps CLASS"), ("/data/fps,!/version", "fps"),
                          ("zz*,!/data/gone,/version", "version")]:
        fields = {**{name: (own | outer)[name] for name in names.split()}, **rest}
        print(json.dumps({"file": "around.h5", "options": {"groups": "/data/*", "attributes": chosen}, "error": "", "fields": fields}))
    say("around.h5", "/data/*", error="no sample has the attribute /data/speed", attributes="*,/data/speed")
    with h5py.File(DIR / "refers.h5", "w") as f:
        f["data/demo_0/x"] = 1
        f["data"].attrs["ref"] = f["data/demo_0"].ref
    say("refers.h5", "/data/*", error="attribute ref of /data can't be read", attributes="/data/ref")


def clashes():
    with h5py.File(DIR / "clashes.h5", "w") as f:
        for i in range(3):
            f[f"a/{i}/x"] = i
            f[f"a/{i}"].attrs["x"] = i
            f[f"b/{i}/y"] = i
            f[f"b/{i}"].attrs["kind"] = [i, "text", 0.5][i]
            f[f"c/{i}"] = np.arange(3) + i
            f[f"c/{i}"].attrs["label"] = i
            f[f"d/{i}/y"] = i
            f[f"d/{i}"].attrs["path"] = "elsewhere"
    say("clashes.h5", "/a/*", error="attribute x and dataset /x of groups give the same field x", attributes="x")
    say("clashes.h5", "/b/*", error="attribute kind of /b/1 holds text, and that of /b/0 Int64", attributes="*")
    say("clashes.h5", "/d/*", error="has the name of the field path", attributes="*")
    paths = [hexed(f"c/{i}") for i in range(3)]
    values = [hexed(np.arange(3) + i) for i in range(3)]
    fields = {"label": [hexed(np.int64(i)) for i in range(3)], "path": paths, "value": values}
    print(json.dumps({"file": "clashes.h5", "options": {"groups": "/c/*", "attributes": "*"}, "error": "", "fields": fields}))


episodes("earliest", "episodes-old.h5")
episodes("latest", "episodes-new.h5")
embeddings()
whole_files()
others()
attributes("earliest", "attributes-old.h5", False)
attributes("latest", "attributes-new.h5", True)
around()
clashes()
