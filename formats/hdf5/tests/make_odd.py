"""Writes files with unusual types into a folder, and prints their values and omitted fields.

One line of JSON per file: its name, for each field one text per sample as in make_foreign.py, and the omitted fields.
Fields and omitted fields together are all datasets and members of compounds that h5py lists.
"""

import json
import sys
from pathlib import Path

import h5py
import numpy as np
import tables

from hexed import hexed as one

DIR = Path(sys.argv[1])
N = 33
rng = np.random.default_rng(11)


def many(value):
    return "[" + ",".join(one(v) for v in value) + "]"


def shown(name):
    """A name as text; with escapes if it is not UTF-8."""
    raw = name.encode("utf-8", "surrogateescape") if isinstance(name, str) else name
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return "".join(chr(c) if 32 <= c < 127 else f"\\x{c:02x}" for c in raw)


def listing(path):
    """The field names of all datasets and members of compounds, and all links to other files."""
    names = set()

    def leaves(name, t):
        if isinstance(t, h5py.h5t.TypeArrayID):
            return leaves(name, t.get_super())
        fields = t.get_nmembers() if isinstance(t, h5py.h5t.TypeCompoundID) else 0
        parts = [shown(t.get_member_name(i)) for i in range(fields)]
        if not parts or parts == ["r", "i"]:
            return names.add(name)
        for i, part in enumerate(parts):
            leaves(f"{name}.{part}", t.get_member_type(i))

    def group(g, prefix):
        for name in g:
            link = g.id.links.get_info(g._e(name)).type
            if link == h5py.h5l.TYPE_EXTERNAL:
                names.add(prefix + name)
            if link != h5py.h5l.TYPE_HARD:
                continue
            kind = h5py.h5o.get_info(g.id, g._e(name)).type
            if kind == h5py.h5o.TYPE_GROUP:
                group(g[name], prefix + name + ".")
            elif kind == h5py.h5o.TYPE_DATASET:
                leaves(prefix + shown(name), h5py.h5d.open(g.id, g._e(name)).get_type())

    with h5py.File(path, "r") as f:
        group(f, "")
    return names


def say(name, fields, omitted=()):
    found = listing(DIR / name)
    assert found == set(fields) | set(omitted), (name, found ^ (set(fields) | set(omitted)))
    print(json.dumps({"file": name, "fields": {k: list(v) for k, v in fields.items()}, "omitted": sorted(omitted)}))


def raw(f, name, t, elements):
    """A dataset whose elements have these bytes."""
    data = np.frombuffer(b"".join(elements), f"V{t.get_size()}")
    d = h5py.h5d.create(f.id, name.encode(), t, h5py.h5s.create_simple((len(elements),)))
    d.write(h5py.h5s.ALL, h5py.h5s.ALL, data, mtype=t)


def as_h5py(f, names):
    return {name: [one(v) for v in f[name.replace(".", "/")][:]] for name in names}


def bits(precision, size, offset=0, order=h5py.h5t.ORDER_LE, signed=True):
    t = (h5py.h5t.STD_I32LE if signed else h5py.h5t.STD_U32LE).copy()
    t.set_size(size)
    t.set_precision(precision)
    t.set_offset(offset)
    t.set_order(order)
    return t


def floats(sign, exponent, size_e, mantissa, size_m, bias, size):
    t = h5py.h5t.IEEE_F32LE.copy()
    t.set_fields(sign, exponent, size_e, mantissa, size_m)
    t.set_size(size)
    t.set_ebias(bias)
    return t


def numbers():
    """Integers of 20 and 24 bits, bit fields, bfloat16, floats of 8 bits, times, and long doubles, which are too long."""
    with h5py.File(DIR / "numbers.h5", "w") as f:
        halves = [rng.integers(0, 1 << 16, dtype="u2").tobytes() for _ in range(N)]
        raw(f, "bfloat", floats(15, 7, 8, 0, 7, 127, 2), halves)
        raw(f, "eight", floats(7, 3, 4, 0, 3, 7, 1), [bytes([i * 3 + i % 2 * 128]) for i in range(N)])
        raw(f, "bits20", bits(20, 4), [rng.integers(-1 << 19, 1 << 19, dtype="i4").tobytes() for _ in range(N)])
        raw(f, "high12", bits(12, 2, 4, h5py.h5t.ORDER_BE, False), [bytes([i, 0xF0]) for i in range(N)])
        raw(f, "bits24", bits(24, 3), [int(i - 9).to_bytes(3, "little", signed=True) for i in range(N)])
        raw(f, "sound", bits(24, 3, 0, h5py.h5t.ORDER_BE), [int(9 - i).to_bytes(3, "big", signed=True) for i in range(N)])
        raw(f, "flags", h5py.h5t.STD_B16BE, [bytes([i, 255 - i]) for i in range(N)])
        raw(f, "seconds", h5py.h5t.UNIX_D32LE, [np.int32(i * 1000 - 5).tobytes() for i in range(N)])
        f["long"] = rng.normal(size=N).astype(np.longdouble)
        fields = as_h5py(f, ["bits20", "high12", "flags"])
        for name in ["bfloat", "eight"]:
            fields[name] = [one(v) for v in f[name][:].astype("f4")]
    # NumPy has no 3-byte integers, and h5py no times.
    fields["bits24"] = [one(np.int32(i - 9)) for i in range(N)]
    fields["sound"] = [one(np.int32(9 - i)) for i in range(N)]
    fields["seconds"] = [one(np.int32(i * 1000 - 5)) for i in range(N)]
    say("numbers.h5", fields, ["long"])
    with h5py.File(DIR / "long.h5", "w") as f:
        f["x"] = np.zeros(4, np.longdouble)
    say("long.h5", {}, ["x"])


def complex_numbers():
    """HDF5 2's own type of them."""
    with h5py.File(DIR / "complex.h5", "w", libver="latest") as f:
        for name, t in [("c8", h5py.h5t.COMPLEX_IEEE_F32LE), ("c16", h5py.h5t.COMPLEX_IEEE_F64BE)]:
            x = (rng.normal(size=N) + 1j * rng.normal(size=N)).astype(f"{'<' if name == 'c8' else '>'}{name}")
            raw(f, name, t, [v.tobytes() for v in x])
        fields = as_h5py(f, ["c8", "c16"])
    say("complex.h5", fields)


def pytables():
    class Event(tables.IsDescription):
        name = tables.StringCol(8)
        at = tables.Time64Col()
        day = tables.Time32Col()
        good = tables.BoolCol(shape=(2,))

        class inner(tables.IsDescription):
            x = tables.Float32Col(shape=(3,))
            n = tables.ComplexCol(itemsize=16)

    with tables.open_file(str(DIR / "events.h5"), "w") as f:
        table = f.create_table("/", "events", Event)
        for i in range(N):
            row = table.row
            row["name"], row["at"], row["day"], row["good"] = f"e{i}", i * 1e6 - 1.25, i, (i % 2, i % 3 == 0)
            row["inner/x"], row["inner/n"] = (i, 2, 3), 1j * i
            row.append()
        table.flush()
        times = f.create_earray("/", "times", tables.Time64Atom(), (0, 2))
        times.append(np.arange(2 * N).reshape(N, 2) * 0.5)
        flags = f.create_carray("/", "flags", tables.BoolAtom(), (N,))
        flags[:] = np.arange(N) % 2 == 0
        words = f.create_vlarray("/", "words", tables.Int16Atom())
        for i in range(N):
            words.append(np.arange(i % 5, dtype="i2"))
        moments, states = (f.create_vlarray("/", n, t) for n, t in [("moments", tables.Time64Atom()), ("states", tables.BoolAtom())])
        for i in range(N):
            moments.append(np.arange(1 + i % 4) * 0.75 - 1e6)
            states.append(np.arange(i % 3) % 2 == 0)
        cols = table.read()
        fields = {f"events.{k}": [one(v) for v in cols[k]] for k in ["name", "at", "day", "good"]}
        fields |= {f"events.inner.{k}": [one(v) for v in cols["inner"][k]] for k in ["x", "n"]}
        fields["times"] = [one(v) for v in times[:]]
        fields["flags"] = [one(v) for v in flags[:]]
        fields["words"] = [many(np.asarray(v, "i2")) for v in words]
        fields["moments"] = [many(np.asarray(v, "f8")) for v in moments]
        fields["states"] = [many(np.asarray(v, "?")) for v in states]
    say("events.h5", fields)


def places():
    """Datasets stored in other files, and scalar datasets, beside one that can be read."""
    with h5py.File(DIR / "source.h5", "w") as f:
        f["x"] = np.arange(N)
    for name, virtual, outside in [("places.h5", True, True), ("virtual.h5", True, False), ("outside.h5", False, True)]:
        with h5py.File(DIR / name, "w") as f:
            if virtual:
                layout = h5py.VirtualLayout((N,), "i8")
                layout[:] = h5py.VirtualSource("source.h5", "x", (N,))
                f.create_virtual_dataset("virtual", layout)
            if outside:
                f.create_dataset("outside", (N,), "i4", external=[(DIR / "outside.bin", 0, h5py.h5f.UNLIMITED)])
            if name == "places.h5":
                f["plain"] = np.arange(N)
                f["one"], f["none"] = 3.5, h5py.Empty("f4")
                f["g/away"], f["g/soft"] = h5py.ExternalLink("source.h5", "/x"), h5py.SoftLink("/plain")
                f["refs"] = np.array([f["plain"].ref] * N, h5py.ref_dtype)
        omitted = ["virtual"] * virtual + ["outside"] * outside
        if name != "places.h5":
            say(name, {}, omitted)
    say("places.h5", {"plain": [one(np.int64(i)) for i in range(N)]}, ["virtual", "outside", "one", "none", "g.away", "refs"])


def filters():
    """Several filters that make chunks shorter, one after the other."""
    with h5py.File(DIR / "filters.h5", "w") as f:
        for name, how in [("gzip", {"compression": "gzip"}), ("lzf", {"compression": "lzf", "shuffle": True})]:
            seven = np.full((N, 2000), 7, "i4")
            seven[3, 5] = 8
            f.create_dataset(name, data=seven, chunks=seven.shape, scaleoffset=0, **how)
            floats = np.linspace(0, 1, N * 2000).reshape(N, 2000).round(1)
            f.create_dataset(name + "2", data=floats, chunks=floats.shape, scaleoffset=2, **how)
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk((N, 2000))
        plist.set_deflate(9)
        plist.set_deflate(9)
        space = h5py.h5s.create_simple((N, 2000))
        h5py.Dataset(h5py.h5d.create(f.id, b"twice", h5py.h5t.STD_I32LE, space, plist))[:] = np.zeros((N, 2000), "i4")
        fields = as_h5py(f, ["gzip", "gzip2", "lzf", "lzf2", "twice"])
    say("filters.h5", fields)


def names():
    """Names that are not UTF-8, and so many bytes of names that a header of them is long; text attributes without a value."""
    for version in ["earliest", "latest"]:
        with h5py.File(DIR / f"names-{version}.h5", "w", libver=version) as f:
            t = h5py.h5t.create(h5py.h5t.COMPOUND, 4)
            t.insert(b"\xb0C", 0, h5py.h5t.STD_I16LE)
            t.insert(b"\xb5C", 2, h5py.h5t.STD_I16LE)
            values = [np.array([i, -i], "<i2") for i in range(N)]
            raw(f, "pairs", t, [v.tobytes() for v in values])
            fields = {"pairs.\\xb0C": [one(v[0]) for v in values], "pairs.\\xb5C": [one(v[1]) for v in values]}
            for number, name in enumerate([b"T_\xb5", b"T_\xb0", "T_µ".encode()]):
                data = np.arange(N, dtype="i4") * (number + 1)
                d = h5py.h5d.create(f.id, name, h5py.h5t.STD_I32LE, h5py.h5s.create_simple((N,)))
                h5py.Dataset(d)[:] = data
                fields[shown(name)] = [one(v) for v in data]
            group = f.create_group("group")
            for i in range(400):
                group[f"link{i}"] = h5py.SoftLink("/" + "x" * 3500)
            group["data"] = np.arange(N)
            fields["group.data"] = [one(np.int64(i)) for i in range(N)]
            for name in ["CLASS", "units"]:
                group["data"].attrs[name] = h5py.Empty(h5py.string_dtype())
                f.attrs[name] = np.zeros(0, h5py.string_dtype())
            f.attrs["PYTABLES_FORMAT_VERSION"] = h5py.Empty(h5py.string_dtype())
        say(f"names-{version}.h5", fields)


def small_addresses():
    for offsets, lengths in [(4, 4), (8, 4), (4, 8)]:
        sizes(f"small{offsets}{lengths}.h5", offsets, lengths)


def sizes(name, offsets, lengths):
    plist = h5py.h5p.create(h5py.h5p.FILE_CREATE)
    plist.set_sizes(offsets, lengths)
    texts = ["ö" * (i % 4) for i in range(N)]
    with h5py.File(h5py.h5f.create(bytes(DIR / name), fcpl=plist)) as f:
        f.create_dataset("text", data=texts, dtype=h5py.string_dtype())
        numbers = f.create_dataset("numbers", (N,), h5py.vlen_dtype(">i2"))
        for i in range(N):
            numbers[i] = np.arange(i % 6)
        pairs = np.zeros(N, [("t", h5py.string_dtype()), ("n", "i4")])
        pairs["t"] = texts
        f["pairs"] = pairs
    lists = [many(np.arange(i % 6, dtype="<i2")) for i in range(N)]
    texts = [one(t) for t in texts]
    say(name, {"text": texts, "numbers": lists, "pairs.t": texts, "pairs.n": [one(np.int32(0))] * N})


# Random types: a dtype, how to make an element, how its text is written (None if rows can't hold it).

def atom():
    word = lambda: "ö" * int(rng.integers(0, 4))
    number = lambda t: lambda: np.array(rng.integers(0, 100)).astype(t)[()]
    atoms = [(t, number(t), one) for t in ["u1", "<i2", ">u4", "i8", "<f2", ">f4", "f8", "<c8", ">c16", "?"]]
    atoms += [
        (h5py.string_dtype(), word, one),
        ("S5", lambda: b"ab", one),
        (h5py.enum_dtype({"A": 1, "B": 99}, "u2"), number("u2"), one),
        ("V3", lambda: np.void(rng.bytes(3)), one),
        (h5py.opaque_dtype("<M8[ms]"), lambda: np.datetime64(int(rng.integers(0, 1 << 40)), "ms"), one),
        (h5py.vlen_dtype("<f4"), lambda: rng.normal(size=rng.integers(0, 4)).astype("f4"), many),
        (h5py.vlen_dtype("u1"), lambda: rng.integers(0, 255, rng.integers(0, 4)).astype("u1"), one),
        (np.longdouble, number(np.longdouble), None),
        (h5py.ref_dtype, lambda: h5py.Reference(), None),
    ]
    return atoms[rng.integers(len(atoms))]


def random_type(depth, arrays=True):
    """A dtype, a function that makes an element, and its leaves: name, path, text."""
    if depth and rng.integers(3):
        parts = [(f"m{i}", *random_type(depth - 1)) for i in range(rng.integers(1, 5))]
        dtype = np.dtype([(name, dtype) for name, dtype, _, _ in parts])

        def make(dtype=dtype):
            element = np.zeros(1, dtype)
            for name, _, part, _ in parts:
                element[name][0] = part()
            return element[0]

        leaves = [(f".{name}{inner}", (name, *path), text) for name, _, _, l in parts for inner, path, text in l]
    else:
        dtype, make, text = atom()
        leaves = [("", (), text)]
        if dtype == "V3" or np.dtype(dtype).kind == "O":
            return np.dtype(dtype), make, leaves
    dtype = np.dtype(dtype)
    if arrays and rng.integers(4) == 0 and not dtype.hasobject:
        shape = tuple(int(n) for n in rng.integers(1, 4, rng.integers(1, 3)))
        single, element = make, dtype

        def make(dtype=element):
            value = np.zeros(shape, dtype)
            for at in np.ndindex(shape):
                value[at] = single()
            return value

        dtype = np.dtype((dtype, shape))
    return dtype, make, leaves


def by_chance(count):
    for number in range(count):
        name, fields, omitted = f"chance{number}.h5", {}, []
        with h5py.File(DIR / name, "w", libver=["earliest", "latest"][number % 2]) as f:
            f["plain"] = np.arange(N)
            fields["plain"] = [one(np.int64(i)) for i in range(N)]
            for i in range(rng.integers(1, 5)):
                dtype, make, leaves = random_type(3, arrays=False)
                values = np.zeros(N, dtype)
                for at in range(N):
                    values[at] = make()
                how = [{}, {"chunks": (7,), "compression": "gzip"}][rng.integers(2)]
                path = f"g{i}/d"
                f.create_dataset(path, data=values, dtype=dtype, **how)
                for leaf, at, text in leaves:
                    if text is None:
                        omitted.append(f"g{i}.d{leaf}")
                        continue
                    found = values
                    for part in at:
                        found = found[part]
                    fields[f"g{i}.d{leaf}"] = [text(v) for v in found]
        say(name, fields, omitted)


numbers()
complex_numbers()
pytables()
places()
filters()
names()
small_addresses()
by_chance(40)
