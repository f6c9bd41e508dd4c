"""Writes small tars by other hands, which packhorse must read as inputs.

Each case is OUT_DIR/NAME.tar (or .tar.gz, .tar.zst, or a folder NAME of several tars) with the samples
that it holds in OUT_DIR/NAME.expected.jsonl.  Directories, links and other special members are not samples.
The samples are the same in every run; time stamps in the headers are not.
"""

import base64
import gzip
import hashlib
import io
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

JPEG = base64.b64decode(
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDACgcHiMeGSgjISMtKygwPGRBPDc3PHtYXUlkkYCZlo+AjIqgtObDoKrarYqMyP/L2u71////m8H////6"
    "/+b9//j/2wBDASstLTw1PHZBQXb4pYyl+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4+Pj4+Pj/wAAR"
    "CAAIAAgDASIAAhEBAxEB/8QAFQABAQAAAAAAAAAAAAAAAAAAAAP/xAAXEAEAAwAAAAAAAAAAAAAAAAAAMnGx/8QAFQEBAQAAAAAAAAAAAAAAAAAA"
    "AwT/xAAXEQADAQAAAAAAAAAAAAAAAAAAAQIR/9oADAMBAAIRAxEAPwCEr0AbeFN24eI//9k="
)
"""An 8 x 8 picture."""

MTIME = 1_700_000_000


def picture(key):
    """A valid JPEG whose comment makes its bytes and its length depend on the key."""
    comment = b"".join(hashlib.sha256(f"{key} {i}".encode()).digest() for i in range(1 + len(key) % 40))
    comment = comment[: len(comment) - len(key) % 29]
    return JPEG[:2] + b"\xff\xfe" + (len(comment) + 2).to_bytes(2, "big") + comment + JPEG[2:]


def sample(key, number):
    """A sample of a picture, a class and some JSON, as {field: bytes}."""
    text = json.dumps({"number": number, "caption": f"sample {number}"}).encode()
    return {"jpg": picture(key), "cls": str(number % 10).encode(), "json": text}


def some(*keys):
    """{key: fields} for some keys."""
    return {key: sample(key, number) for number, key in enumerate(keys)}


def members(samples):
    """The members of some samples, in order: (name, bytes)."""
    return [(f"{key}.{field}", data) for key, fields in samples.items() for field, data in fields.items()]


def info(name, size=0, **attributes):
    """A member header with an owner and a time, as tools write them."""
    header = tarfile.TarInfo(name)
    header.size, header.mtime, header.mode = size, MTIME, 0o644
    header.uid, header.gid, header.uname, header.gname = 1000, 1000, "user", "users"
    for attribute, value in attributes.items():
        setattr(header, attribute, value)
    return header


def write_tar(path, files, tar_format, pax_headers=None, **attributes):
    """Writes (name, bytes) members with Python's tarfile."""
    with tarfile.open(path, "w", format=tar_format, pax_headers=pax_headers) as tar:
        for name, data in files:
            tar.addfile(info(name, len(data), **attributes), io.BytesIO(data))


def write_expected(out, name, samples):
    with open(out / f"{name}.expected.jsonl", "w", encoding="utf-8") as lines:
        for key, fields in samples.items():
            specs = {
                field: {"text": data.decode()}
                if field == "cls"
                else {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
                for field, data in sorted(fields.items())
            }
            lines.write(json.dumps({"key": key, "split": None, "fields": specs}, ensure_ascii=False) + "\n")


# The cases.  Each writes its tar and returns the samples that it holds.


def webdataset_shards(out, name):
    """Shards by webdataset.ShardWriter: a PAX header with a float mtime before every member."""
    from webdataset import ShardWriter

    samples = some(*(f"photo{number:04d}" for number in range(7)))
    (out / name).mkdir()
    with ShardWriter(str(out / name / "part-%06d.tar"), maxcount=3, verbose=0) as writer:
        for key, fields in samples.items():
            writer.write({"__key__": key, **fields})
    return samples


def webdataset_tarwriter(out, name):
    """One tar by webdataset.TarWriter, which encodes the values itself; keys with directories."""
    from webdataset import TarWriter

    samples = some("dress/0001", "hat/0002", "dress/0003")
    with TarWriter(str(out / f"{name}.tar")) as writer:
        for key, fields in samples.items():
            values = {"jpg": fields["jpg"], "cls": int(fields["cls"]), "json": json.loads(fields["json"])}
            writer.write({"__key__": key, **values})
    return samples


def pax(out, name):
    """PAX path records: names over 100 and over 255 bytes and non-ASCII names, a float mtime, a global header."""
    samples = some("short", "größe/übung_01", "写真/猫", "a" * 120 + "/" + "b" * 140 + "/0001", "x/" + "long" * 30)
    write_tar(
        out / f"{name}.tar", members(samples), tarfile.PAX_FORMAT, {"comment": "a global header"}, mtime=MTIME + 0.25
    )
    return samples


def gnu(out, name):
    """GNU long-name members, and owner numbers in base 256."""
    samples = some("short", "folder/" + "n" * 110, "d" * 200 + "/" + "e" * 90 + "/0002")
    write_tar(out / f"{name}.tar", members(samples), tarfile.GNU_FORMAT, uid=3_000_000, gid=3_000_000)
    return samples


def ustar_prefix(out, name):
    """Names over 100 bytes kept in ustar's prefix field."""
    samples = some("short", "p" * 90 + "/" + "q" * 60 + "/0001", "p" * 150 + "/0002")
    write_tar(out / f"{name}.tar", members(samples), tarfile.USTAR_FORMAT)
    return samples


def old_v7(out, name):
    """The oldest format: no ustar magic, a NUL as type."""
    samples = some("one", "sub/two")
    with open(out / f"{name}.tar", "wb") as tar:
        for member, data in members(samples):
            block = bytearray(info(member, len(data)).tobuf(tarfile.USTAR_FORMAT))
            block[156:157] = b"\0"
            block[257:512] = bytes(255)
            block[148:156] = b" " * 8
            block[148:156] = b"%06o\0 " % sum(block)
            tar.write(block + data + bytes(-len(data) % 512))
        tar.write(bytes(1024))
    return samples


def scattered(out, name):
    """All pictures first, then all classes, then all JSON: the members of a sample are far apart."""
    samples = some("a", "b", "sub/c", "sub/d")
    files = [(f"{key}.{field}", samples[key][field]) for field in ("jpg", "cls", "json") for key in samples]
    write_tar(out / f"{name}.tar", files, tarfile.USTAR_FORMAT)
    return samples


def links(out, name):
    """Directories, a symbolic link, a hard link and a FIFO between the samples; none of them is a sample."""
    samples = some("dress/0001", "hat/0002")
    with tarfile.open(out / f"{name}.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
        for key, fields in samples.items():
            tar.addfile(info(key.split("/")[0], type=tarfile.DIRTYPE, mode=0o755))
            for member, data in members({key: fields}):
                tar.addfile(info(member, len(data)), io.BytesIO(data))
        tar.addfile(info("dress/0008.jpg", type=tarfile.SYMTYPE, linkname="0001.jpg"))
        tar.addfile(info("dress/0009.jpg", type=tarfile.LNKTYPE, linkname="dress/0001.jpg"))
        tar.addfile(info("dress/0010.jpg", type=tarfile.FIFOTYPE))
    return samples


def compressed_gz(out, name):
    """A gzip-compressed tar."""
    samples = some("dress/0001", "dress/0002", "hat/0003")
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for member, data in members(samples):
            tar.addfile(info(member, len(data)), io.BytesIO(data))
    (out / f"{name}.tar.gz").write_bytes(gzip.compress(plain.getvalue(), mtime=0))
    return samples


def compressed_zst(out, name):
    """A zstd-compressed tar (by the zstandard package, or else by the zstd program)."""
    samples = some("dress/0001", "dress/0002", "hat/0003")
    with tempfile.TemporaryDirectory() as temporary:
        plain = Path(temporary, "plain.tar")
        write_tar(plain, members(samples), tarfile.USTAR_FORMAT)
        target = out / f"{name}.tar.zst"
        try:
            import zstandard

            target.write_bytes(zstandard.compress(plain.read_bytes()))
        except ImportError:
            if not shutil.which("zstd"):
                sys.exit("make_foreign: needs the zstd program or the zstandard package")
            subprocess.run(["zstd", "-q", "-f", str(plain), "-o", str(target)], check=True)
    return samples


def gnutar_dot(out, name):
    """A folder packed by `tar -C FOLDER -cf x.tar .`: every name starts with "./", which is not part of the key."""
    samples = some("dress/0001", "hat/0002", "0003")
    with tempfile.TemporaryDirectory() as temporary:
        for member, data in members(samples):
            path = Path(temporary, member)
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(data)
        subprocess.run(["tar", "-C", temporary, "--sort=name", "-cf", str(out / f"{name}.tar"), "."], check=True)
    return samples


CASES = {
    "webdataset-shards": webdataset_shards,
    "webdataset-tarwriter": webdataset_tarwriter,
    "pax": pax,
    "gnu": gnu,
    "ustar-prefix": ustar_prefix,
    "old-v7": old_v7,
    "scattered": scattered,
    "links": links,
    "compressed-gz": compressed_gz,
    "compressed-zst": compressed_zst,
    "gnutar-dot": gnutar_dot,
}


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(f"usage: {sys.argv[0]} OUT_DIR\n\n{__doc__}")
    out = Path(sys.argv[1])
    if out.exists() and any(out.iterdir()):
        sys.exit(f"make_foreign: {out} is not empty")
    out.mkdir(parents=True, exist_ok=True)
    for name, case in CASES.items():
        samples = case(out, name)
        write_expected(out, name, samples)
        print(f"{name}: {len(samples)} samples")


if __name__ == "__main__":
    main()
