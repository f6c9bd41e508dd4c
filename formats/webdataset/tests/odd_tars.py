"""Odd tars by seed, and the members that Python's tarfile and GNU tar read in each.

odd_tars.py FOLDER SEED COUNT writes FOLDER/NNNNN.tar and FOLDER/manifest.json: a list of
{"tar": name, "python": members, "gnu": members}, where members is a list of [name, bytes] in hexadecimal, regular
files only; null where the reader reports an error. GNU tar's are sorted by name, the last of equal names wins, and
names are as extracted.
"""

import json
import os
import random
import shutil
import subprocess
import sys
import tarfile
import tempfile

BLOCK = 512


def pad(data):
    return data + b"\0" * (-len(data) % BLOCK)


def size_field(rng, size):
    plain = b"%011o\0" % size
    return plain if rng.random() < 0.9 else rng.choice([
        b"%11o\0" % size, b"%011o " % size, b"%012o" % size, b"%o\0" % size, b" %010o\0" % size,
        b"\x80" + size.to_bytes(11, "big"), b"\x81" + size.to_bytes(11, "big"), b"\xff" * 12, b"\0" * 12, b" " * 12,
        b"\0%010o\0" % size, b"%o 7\0" % size, b"%o\0junk" % size, b"+%010o\0" % size, b"0o%o\0" % size,
    ])


def header(rng, name, kind, size, declared=None):
    magic = b"ustar\x0000" if rng.random() < 0.8 else rng.choice([b"ustar  \0", b"\0" * 8, b"ustar\0 \0", b"ustar\x0001"])
    prefix = b"" if rng.random() < 0.9 else rng.choice([b"pre/fix", b"p", b"00000000000\x0000000000000"])
    block = bytearray(BLOCK)

    def put(at, data):
        block[at:at + len(data)] = data

    put(0, name[:100])
    put(100, b"0000644\0")
    put(108, b"0000000\0")
    put(116, b"0000000\0")
    put(124, (declared or size_field(rng, size))[:12])
    put(136, b"00000000000\0")
    put(148, b" " * 8)
    put(156, kind)
    put(257, magic)
    put(345, prefix[:155])
    sums = sum(block)
    if rng.random() < 0.05:
        sums = sum(b - 256 if b > 127 else b for b in block)
    put(148, rng.choice([b"%06o\0 ", b"%06o\0 ", b"%07o\0", b"%6o\0 "]) % max(sums, 0))
    return bytes(block)


def record(key, value):
    rest = len(key) + len(value) + 3
    length = next(n for n in range(rest, rest + 9) if len(str(n)) + rest == n)
    return b"%d %s=%s\n" % (length, key, value)


def odd_record(rng, key, value):
    whole = record(key, value)
    if rng.random() < 0.95:
        return whole
    return rng.choice([
        whole[:-1] + b"x", b"+" + whole, b"0" + record(key, value), b"99999 " + whole, b" " + whole,
        record(b"", value), whole.replace(b"=", b"-"), b"\0" + whole,
    ])


def name_of(rng, number):
    base = b"m%d" % number
    return rng.choice([
        base + b".jpg", b"d/" + base + b".jpg", b"./" + base + b".x", base + b".seg.png", b"d/" * 40 + base + b".jpg",
        (b"l" * 88 + base + b".jpg")[:100], base + "é.jpg".encode(), base + b"\xff.jpg", base + b"/", base + b".jpg/", base,
    ])


def sparse(rng, name):
    """A sparse member as GNU tar writes it: PAX 0.0, 0.1, 1.0, or its old header."""
    size, parts = 0, []
    for _ in range(rng.randrange(1, 4)):
        size += BLOCK * rng.randrange(0, 3)
        data = rng.randbytes(BLOCK * rng.randrange(1, 3))
        parts.append((size, data))
        size += len(data)
    size += rng.choice([0, 700])
    numbers = [b"%d" % n for at, data in parts for n in (at, len(data))]
    stored = b"".join(data for _, data in parts)
    version = rng.choice(["0.0", "0.1", "1.0"])
    if version == "1.0":
        table = pad(b"".join(n + b"\n" for n in [b"%d" % len(parts)] + numbers))
        records = [(b"GNU.sparse.major", b"1"), (b"GNU.sparse.minor", b"0"), (b"GNU.sparse.name", name),
                   (b"GNU.sparse.realsize", b"%d" % size)]
        stored = table + stored
    elif version == "0.1":
        records = [(b"GNU.sparse.size", b"%d" % size), (b"GNU.sparse.numblocks", b"%d" % len(parts)),
                   (b"GNU.sparse.name", name), (b"GNU.sparse.map", b",".join(numbers))]
    else:
        records = [(b"GNU.sparse.size", b"%d" % size), (b"GNU.sparse.numblocks", b"%d" % len(parts))]
        for at, data in parts:
            records += [(b"GNU.sparse.offset", b"%d" % at), (b"GNU.sparse.numbytes", b"%d" % len(data))]
    head = b"".join(record(*r) for r in records)
    plain = random.Random(1)
    inner = name if version == "0.0" else b"GNUSparseFile.0/" + name
    return (header(plain, b"PaxHeaders.0/x", b"x", len(head), b"%011o\0" % len(head)) + pad(head)
            + header(plain, inner, b"0", len(stored), b"%011o\0" % len(stored)) + pad(stored))


def before(rng, number, size):
    """An extension header before a member."""
    name = b"x%d.jpg" % number

    def extended(kind, records):
        body = b"".join(odd_record(rng, *r) for r in records)
        return header(rng, b"PaxHeaders/0", kind, len(body), b"%011o\0" % len(body)) + pad(body)

    def long(kind):
        body = rng.choice([name + b"\0", name, name + b"\0more\0", b"\0", b"long/" * 30 + name + b"\0"])
        return header(rng, b"././@LongLink", kind, len(body), b"%011o\0" % len(body)) + pad(body)

    path = lambda: rng.choice([name] * 4 + [b"p/" * 80 + name, b"", name + b"\0cut", name + b"/", b"\xff" + name])
    length = lambda: rng.choice([b"%d" % size] * 4 + [b"%d" % (size + 1), b"", b"x", b"+5", b" 5", b"0005"])
    return rng.choice([
        lambda: extended(b"x", [(b"path", path())]),
        lambda: extended(b"x", [(b"path", path())]),
        lambda: extended(b"x", [(b"size", length())]),
        lambda: extended(b"x", [(b"path", path()), (b"size", length())]),
        lambda: extended(b"x", [(b"path", b"first.jpg"), (b"path", path())]),
        lambda: extended(b"x", [(b"mtime", b"1.5"), (b"comment", b"any")]),
        lambda: extended(b"X", [(b"path", path())]),
        lambda: extended(b"g", [(b"comment", b"any")]),
        lambda: extended(b"g", [(b"path", path())]),
        lambda: extended(b"g", [(b"size", length())]),
        lambda: long(b"L"),
        lambda: long(b"L"),
        lambda: long(b"K"),
    ])()


def odd_tar(rng):
    out = b""
    for number in range(rng.randrange(1, 6)):
        if rng.random() < 0.07:
            out += sparse(rng, b"s%d.jpg" % number)
            continue
        size = rng.choice([0, 1, 511, 512, 513, 1300])
        for _ in range(rng.choices([0, 1, 2, 3], [12, 7, 2, 1])[0]):
            out += before(rng, number, size)
        kind = b"0" if rng.random() < 0.75 else rng.choice([b"\0", b"7", b"5", b"1", b"2", b"6", b"Z", b"V", b"D"])
        data = rng.randbytes(size)
        if kind in b"126" and rng.random() < 0.7 or kind == b"5":
            data = b""
        out += header(rng, name_of(rng, number), kind, len(data)) + pad(data)
        if rng.random() < 0.03:
            out += b"\0" * BLOCK
    return out + rng.choice([b"\0" * 1024] * 9 + [b"\0" * 512, b""])


def by_python(path):
    try:
        with tarfile.open(path, "r:") as tar:
            return [
                [member.name.encode("utf-8", "surrogateescape").hex(), tar.extractfile(member).read().hex()]
                for member in tar if member.isreg()
            ]
    except (tarfile.TarError, ValueError, OSError, EOFError, IndexError, KeyError):
        return None


def by_gnu(path):
    folder = tempfile.mkdtemp().encode()
    try:
        done = subprocess.run(["tar", "--no-same-owner", "-xf", path, "-C", folder], capture_output=True)
        if done.returncode != 0:
            return None
        found = []
        for at, _, names in os.walk(folder):
            for name in names:
                file = os.path.join(at, name)
                if os.path.isfile(file) and not os.path.islink(file):
                    found.append([os.path.relpath(file, folder).hex(), open(file, "rb").read().hex()])
        return sorted(found)
    finally:
        shutil.rmtree(folder)


def main(folder, seed, count):
    manifest = []
    for number in range(count):
        rng = random.Random(seed * 1_000_003 + number)
        name = f"{number:05}.tar"
        path = os.path.join(folder, name)
        with open(path, "wb") as file:
            file.write(odd_tar(rng))
        manifest.append({"tar": name, "python": by_python(path), "gnu": by_gnu(path)})
    with open(os.path.join(folder, "manifest.json"), "w") as file:
        json.dump(manifest, file)


main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
