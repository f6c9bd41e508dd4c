"""Reads every shard with Python's tarfile, and its headers byte by byte.

Besides the samples this asserts the exact layout: plain ustar headers, no extension types, no prefix
field, names of at most 100 bytes, size and mtime in 11 octal digits, mtime 0, owner 0, one mode of 0444 or
0644, zero padding, the members of a sample next to each other and sorted by field, no key twice, and
exactly 1,024 zero bytes at the end.  With --sorted-keys the keys of a shard must ascend, too.
"""

import re
import tarfile

from expected import SPLIT_RULE, Difference, main, shards

BLOCK = 512
KEY = re.compile(r"^(?!\./)(?:(?!\.|__)[^/.\s]+/)*(?!__)[^/.\s]+$")
HEADER = (
    ("name", 0, 100), ("mode", 100, 108), ("uid", 108, 116), ("gid", 116, 124), ("size", 124, 136),
    ("mtime", 136, 148), ("chksum", 148, 156), ("type", 156, 157), ("linkname", 157, 257), ("magic", 257, 263),
    ("version", 263, 265), ("uname", 265, 297), ("gname", 297, 329), ("devmajor", 329, 337),
    ("devminor", 337, 345), ("prefix", 345, 500), ("pad", 500, 512),
)  # fmt: skip


def octal(raw, what, where):
    """A number of octal digits, ended by one NUL (or blank) byte, digits in every place before it."""
    if not re.fullmatch(rb"[0-7]+[\0 ]", raw):
        raise Difference(f"{where}: header field {what} is {raw!r}, not octal digits up to its last byte")
    return int(raw[:-1], 8)


def check_header(block, where):
    """Checks one 512-byte header and returns (name, mode, size)."""
    field = {name: block[start:end] for name, start, end in HEADER}
    name = field["name"].rstrip(b"\0")
    where = f"{where} ({name!r})"
    exact = {
        "type": b"0",
        "magic": b"ustar\0",
        "version": b"00",
        "linkname": bytes(100),
        "prefix": bytes(155),
        "pad": bytes(12),
    }
    for what, want in exact.items():
        if field[what] != want:
            raise Difference(f"{where}: header field {what} is {field[what]!r}, expected {want!r}")
    for what in ("uid", "gid", "mtime"):
        if octal(field[what], what, where) != 0:
            raise Difference(f"{where}: header field {what} is {field[what]!r}, expected 0")
    for what in ("devmajor", "devminor"):
        if field[what] != bytes(8) and octal(field[what], what, where) != 0:
            raise Difference(f"{where}: header field {what} is {field[what]!r}, expected 0")
    mode = octal(field["mode"], "mode", where)
    if mode not in (0o444, 0o644):
        raise Difference(f"{where}: mode is {mode:o}, expected 444 or 644")
    checksum = sum(block[:148]) + 8 * 32 + sum(block[156:])
    if int(field["chksum"].rstrip(b"\0 "), 8) != checksum:
        raise Difference(f"{where}: header checksum is {field['chksum']!r}, expected {checksum:o}")
    if not name or b"\0" in name:
        raise Difference(f"{where}: bad name")
    return name.decode("utf-8"), mode, octal(field["size"], "size", where)


def raw_members(data, where):
    """Walks the headers of a shard and yields (name, bytes); checks headers, padding and the end."""
    offset, modes = 0, set()
    while data[offset : offset + BLOCK] != bytes(BLOCK):
        if offset + BLOCK > len(data):
            raise Difference(f"{where}: ends at byte {offset} without a zero block")
        name, mode, size = check_header(data[offset : offset + BLOCK], f"{where}, byte {offset}")
        start, end = offset + BLOCK, offset + BLOCK + size
        offset = end + -size % BLOCK
        if data[end:offset] != bytes(-size % BLOCK):
            raise Difference(f"{where}: the padding after {name!r} is not zero (or the shard is cut)")
        modes.add(mode)
        yield name, data[start:end]
    if data[offset:] != bytes(1024):
        raise Difference(
            f"{where}: {len(data) - offset} bytes follow the last member, expected exactly 1024 zero bytes"
        )
    if len(modes) > 1:
        raise Difference(f"{where}: members have different modes")


def samples(members, where):
    """Groups members into samples and yields (key, {field: bytes}); checks names and order."""
    done, key, fields = set(), None, {}
    for name, data in members:
        match = SPLIT_RULE.match(name)
        if not match or not KEY.match(match.group(1)):
            raise Difference(f"{where}: member name {name!r} is not KEY.FIELD with a plain key")
        next_key, field = match.groups()
        if field != field.lower() or not field or re.search(r"\s", field):
            raise Difference(f"{where}: field name of {name!r} is not lower case without blanks")
        if next_key != key:
            if key is not None:
                yield key, fields
            if next_key in done:
                raise Difference(f"{where}: the members of sample {next_key!r} are not adjacent")
            done.add(next_key)
            key, fields = next_key, {}
        if fields and field <= max(fields):
            raise Difference(f"{where}: the fields of {key!r} are not sorted: {field!r} after {max(fields)!r}")
        fields[field] = data
    if key is not None:
        yield key, fields


def check(folder, expected, arguments):
    for shard in shards(folder):
        previous = None
        for key, fields in samples(raw_members(shard.read_bytes(), shard.name), shard.name):
            expected.sample(key, fields, shard.name)
            if arguments.sorted_keys and previous is not None and key <= previous:
                raise Difference(f"{shard.name}: key {key!r} comes after {previous!r}")
            split = expected.splits[key]
            if split is not None and not shard.name.startswith(f"{split}-"):
                raise Difference(f"{shard.name}: sample {key!r} belongs to split {split!r}")
            previous = key
    expected.finish("headers")

    expected.restart()
    for shard in shards(folder):
        with tarfile.open(shard, "r:") as tar:
            members = ((member.name, tar.extractfile(member).read()) for member in tar)
            for key, fields in samples(members, shard.name):
                expected.sample(key, fields, shard.name)
            if tar.pax_headers:
                raise Difference(f"{shard.name}: has a global PAX header")
    expected.finish("tarfile")


if __name__ == "__main__":
    main("tarfile", check, [("--sorted-keys", "the keys of a shard must be in ascending order")])
