"""An independent writer and checker of the index files, made with the Python standard library alone.

Recomputes from the tar shards what wids (shardindex.json), DALI (NAME.idx) and Megatron Energon
(NAME.tar.idx and .nv-meta) need, compares it with what lies in SHARDS_DIR, and names every difference.
With --write it writes the files instead.  --only wids,dali,energon restricts either to some readers.
"""

import argparse
import hashlib
import json
import re
import sqlite3
import struct
import sys
import tarfile
import uuid
from dataclasses import dataclass, field
from pathlib import Path

from small_yaml import brace_expand, parse_yaml

ENERGON_VERSION = "7.4.1"
SPLIT_RULE = re.compile(r"^((?:.*/|)[^.]+)[.]([^/]*)$")
SKIP_RULE = re.compile(r"__[^/]*__($|/)")

TABLES = (
    "CREATE TABLE samples (tar_file_id INTEGER NOT NULL, sample_key TEXT NOT NULL UNIQUE,"
    " sample_index INTEGER NOT NULL, byte_offset INTEGER, byte_size INTEGER)",
    "CREATE TABLE sample_parts (tar_file_id INTEGER, sample_index INTEGER, part_name TEXT,"
    " content_byte_offset INTEGER, content_byte_size INTEGER)",
)
INDEXES = (
    "CREATE INDEX idx_samples_by_tar_and_idx ON samples(tar_file_id, sample_index)",
    "CREATE INDEX idx_sample_parts_seq ON sample_parts(tar_file_id, sample_index, content_byte_offset)",
    "CREATE INDEX idx_sample_parts_full ON"
    " sample_parts(tar_file_id, sample_index, part_name, content_byte_offset, content_byte_size)",
)


@dataclass
class Sample:
    """One sample: its key, where its first header lies, and its parts (field, member name, data offset, size)."""

    key: str
    start: int
    parts: list = field(default_factory=list)


@dataclass
class Shard:
    """One tar: its path relative to the dataset, its samples, and where its data ends (the first zero block)."""

    name: str
    path: Path
    samples: list
    end: int

    def bounds(self):
        """The samples' starts, and the end of the data."""
        return [sample.start for sample in self.samples] + [self.end]


def read_shard(folder, path):
    """Walks a tar and groups consecutive members by key."""
    samples = []
    with tarfile.open(path, "r:") as tar:
        for member in tar:
            match = SPLIT_RULE.match(member.name)
            if not member.isreg() or not match or SKIP_RULE.match(member.name):
                continue
            key, part = match.groups()
            if not samples or samples[-1].key != key:
                samples.append(Sample(key, member.offset))
            samples[-1].parts.append((part, member.name, member.offset_data, member.size))
        end = tar.offset
    return Shard(path.relative_to(folder).as_posix(), path, samples, end)


def read_shards(folder):
    """Every shard below the folder in the order of relative paths, which is Energon's numbering."""
    paths = [p for p in folder.rglob("*.tar") if not any(part.startswith(".") for part in p.relative_to(folder).parts)]
    return [read_shard(folder, path) for path in sorted(paths, key=lambda p: p.relative_to(folder).as_posix())]


def duplicate_key(shards):
    """A sentence about the first key that occurs twice, or None; Energon's table cannot hold such a dataset."""
    seen = {}
    for shard in shards:
        for sample in shard.samples:
            if sample.key in seen:
                return f"key {sample.key!r} is in {seen[sample.key]} and in {shard.name}"
            seen[sample.key] = shard.name
    return None


def md5(path):
    return hashlib.md5(path.read_bytes()).hexdigest()


# What the files should hold.


def wids_index(shards, name):
    entries = [
        {"url": s.name, "md5sum": md5(s.path), "nsamples": len(s.samples), "filesize": s.path.stat().st_size}
        for s in shards
    ]
    return {"__kind__": "wids-shard-index-v1", "wids_version": 1, "shardlist": entries, "name": name}


def dali_path(shard):
    """DALI's indexer cuts the tar's name at its first dot."""
    return shard.path.with_name(shard.path.name.split(".")[0] + ".idx")


def dali_index(shard):
    lines = [f"v1.2 {len(shard.samples)}"]
    for sample in shard.samples:
        lines.append(" ".join(f"{part} {offset} {size} {name}" for part, name, offset, size in sample.parts))
    return ("\n".join(lines) + "\n").encode()


def energon_tar_index(shard):
    bounds = shard.bounds()
    return struct.pack(f"<{len(bounds)}Q", *bounds)


def energon_info(shards):
    return {"energon_version": ENERGON_VERSION, "shard_counts": {s.name: len(s.samples) for s in shards}}


def energon_rows(shards):
    """The rows of the tables samples and sample_parts."""
    samples, parts = [], []
    for number, shard in enumerate(shards):
        bounds = shard.bounds()
        for index, sample in enumerate(shard.samples):
            samples.append((number, sample.key, index, sample.start, bounds[index + 1] - sample.start))
            parts += [(number, index, part, offset, size) for part, _name, offset, size in sample.parts]
    return samples, parts


# Reading.


class Report:
    """Collects differences."""

    def __init__(self):
        self.lines = []

    def add(self, where, text):
        self.lines.append(f"{where}: {text}")

    def equal(self, where, what, got, want):
        if got != want:
            self.add(where, f"{what} is {got!r}, expected {want!r}")

    def read(self, path):
        """The bytes of a file, or None with a difference where it is missing."""
        if path.is_file():
            return path.read_bytes()
        self.add(path.name, "is missing")
        return None

    def read_json(self, path):
        """A file's JSON object, or None with a difference."""
        data = self.read(path)
        try:
            return None if data is None else json.loads(data)
        except ValueError as error:
            return self.add(path.name, f"is not JSON: {error}")


# The checks.


def check_wids(folder, shards, report):
    path = folder / "shardindex.json"
    index = report.read_json(path)
    if index is None:
        return
    want = wids_index(shards, index.get("name"))
    for name in ("__kind__", "wids_version"):
        report.equal(path.name, name, index.get(name), want[name])
    if not isinstance(index.get("name"), str) or not index["name"]:
        report.add(path.name, "has no name")
    report.equal(path.name, "top-level keys", sorted(index), sorted(want))
    report.equal(
        path.name, "list of urls", [s.get("url") for s in index["shardlist"]], [s["url"] for s in want["shardlist"]]
    )
    for got, right in zip(index["shardlist"], want["shardlist"]):
        if "md5sum" not in got:
            del right["md5sum"]
        report.equal(path.name, f"entry of {right['url']}", got, right)


def check_dali(_folder, shards, report):
    for shard in shards:
        path = dali_path(shard)
        got = report.read(path)
        want = dali_index(shard)
        if got is None or got == want:
            continue
        for number, (mine, right) in enumerate(zip(got.splitlines(), want.splitlines()), 1):
            report.equal(path.name, f"line {number}", mine, right)
        report.equal(path.name, "length in bytes", len(got), len(want))


def check_energon(folder, shards, report):
    for shard in shards:
        path = shard.path.with_name(shard.path.name + ".idx")
        got = report.read(path)
        if got is not None and got != energon_tar_index(shard):
            numbers = list(struct.unpack(f"<{len(got) // 8}Q", got[: len(got) // 8 * 8]))
            report.equal(path.name, "list of offsets", numbers, shard.bounds())
            report.equal(path.name, "length in bytes", len(got), 8 * len(shard.bounds()))
    meta = folder / ".nv-meta"
    info = report.read_json(meta / ".info.json")
    if info is not None:
        report.equal(".info.json", "content", info, energon_info(shards))
        report.equal(
            ".info.json", "order of shard_counts", list(info.get("shard_counts", {})), [s.name for s in shards]
        )
    check_splits(meta, shards, report)
    dataset = report.read(meta / "dataset.yaml")
    if dataset is not None:
        want = {"__module__": "megatron.energon", "__class__": "CrudeWebdataset"}
        report.equal("dataset.yaml", "content", parse_yaml(dataset.decode()), want)
    check_uuid(meta, report)
    check_sqlite(meta / "index.sqlite", shards, report)


def check_splits(meta, shards, report):
    """Every shard belongs to exactly one part, each part keeps the order, nothing is excluded."""
    data = report.read(meta / "split.yaml")
    if data is None:
        return
    split = parse_yaml(data.decode())
    report.equal("split.yaml", "top-level keys", list(split), ["split_parts", "exclude"])
    report.equal("split.yaml", "exclude", split.get("exclude"), [])
    parts = split.get("split_parts") or {}
    report.equal("split.yaml", "list of parts", list(parts), ["train", "val", "test"])
    found = []
    for part, names in parts.items():
        full = [name for pattern in names or [] for name in brace_expand(pattern)]
        report.equal("split.yaml", f"order of {part}", full, sorted(full))
        found += full
    report.equal("split.yaml", "list of shards", sorted(found), [shard.name for shard in shards])


def check_uuid(meta, report):
    data = report.read(meta / "index.uuid")
    if data is None:
        return
    try:
        report.equal("index.uuid", "text", data.decode(), str(uuid.UUID(data.decode())))
    except ValueError:
        report.add("index.uuid", f"holds {data!r}, which is not a UUID")


def describe(database):
    """The schema without its white space: objects, columns and the columns of every index."""
    objects = sorted(database.execute("SELECT type, name, tbl_name FROM sqlite_master"))
    columns = {t: database.execute(f"PRAGMA table_info({t})").fetchall() for t in ("samples", "sample_parts")}
    unique = {t: sorted(row[1:4] for row in database.execute(f"PRAGMA index_list({t})")) for t in columns}
    names = [name for kind, name, _ in objects if kind == "index"]
    keys = {name: database.execute(f"PRAGMA index_info({name})").fetchall() for name in names}
    return {"list of tables and indexes": objects, "columns": columns, "list of indexes": unique, "index columns": keys}


def build_sqlite(database, shards):
    samples, parts = energon_rows(shards)
    for statement in TABLES:
        database.execute(statement)
    database.executemany("INSERT INTO samples VALUES (?, ?, ?, ?, ?)", samples)
    database.executemany("INSERT INTO sample_parts VALUES (?, ?, ?, ?, ?)", parts)
    for statement in INDEXES:
        database.execute(statement)
    database.commit()


def check_sqlite(path, shards, report):
    data = report.read(path)
    if data is None:
        return
    report.equal(path.name, "file format versions (1 means no write-ahead log)", list(data[18:20]), [1, 1])
    for suffix in ("-wal", "-shm", "-journal"):
        if path.with_name(path.name + suffix).exists():
            report.add(path.name + suffix, "was left behind")
    want = sqlite3.connect(":memory:")
    build_sqlite(want, shards)
    got = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    try:
        report.equal(path.name, "integrity_check", got.execute("PRAGMA integrity_check").fetchall(), [("ok",)])
        mine, right = describe(got), describe(want)
        for what in right:
            report.equal(path.name, what, mine[what], right[what])
        for table in ("samples", "sample_parts"):
            compare_rows(path.name, table, got, want, report)
    except sqlite3.Error as error:
        report.add(path.name, f"SQLite says: {error}")
    finally:
        got.close()


def compare_rows(where, table, got, want, report):
    """Compares two tables as sets of rows with their types, and shows the first rows that differ."""
    read = f"SELECT * FROM {table}"
    mine, right = sorted(got.execute(read), key=repr), sorted(want.execute(read), key=repr)
    report.equal(where, f"number of rows of {table}", len(mine), len(right))
    for text, rows in (("a wrong", set(mine) - set(right)), ("no", set(right) - set(mine))):
        for row in sorted(rows, key=repr)[:3]:
            report.add(where, f"{table} has {text} row {row!r} ({len(rows)} such rows)")


# Writing.


def write_wids(folder, shards):
    (folder / "shardindex.json").write_text(json.dumps(wids_index(shards, folder.name), indent=2))


def write_dali(_folder, shards):
    for shard in shards:
        dali_path(shard).write_bytes(dali_index(shard))


def write_energon(folder, shards):
    meta = folder / ".nv-meta"
    meta.mkdir(exist_ok=True)
    for shard in shards:
        shard.path.with_name(shard.path.name + ".idx").write_bytes(energon_tar_index(shard))
    (meta / ".info.json").write_text(json.dumps(energon_info(shards), indent=2))
    names = "".join(f"  - {shard.name}\n" for shard in shards)
    (meta / "split.yaml").write_text(f"split_parts:\n  train:\n{names}  val: []\n  test: []\nexclude: []\n")
    (meta / "dataset.yaml").write_text("__module__: megatron.energon\n__class__: CrudeWebdataset\n")
    (meta / "index.uuid").write_text(str(uuid.uuid5(uuid.NAMESPACE_OID, repr(energon_rows(shards)))))
    (meta / "index.sqlite").unlink(missing_ok=True)
    database = sqlite3.connect(meta / "index.sqlite")
    build_sqlite(database, shards)
    database.close()


READERS = {
    "wids": (check_wids, write_wids),
    "dali": (check_dali, write_dali),
    "energon": (check_energon, write_energon),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shards_dir", type=Path, metavar="SHARDS_DIR")
    parser.add_argument("--only", default=",".join(READERS), help="comma-separated readers")
    parser.add_argument("--write", action="store_true", help="write the index files instead of checking them")
    arguments = parser.parse_args()
    folder = arguments.shards_dir.resolve()
    shards = read_shards(folder)
    if not shards:
        sys.exit(f"oracle: {folder} holds no *.tar")
    if "energon" in arguments.only and duplicate_key(shards):
        sys.exit(f"oracle: {duplicate_key(shards)}")
    report = Report()
    for reader in arguments.only.split(","):
        check, write = READERS[reader]
        if arguments.write:
            write(folder, shards)
        else:
            check(folder, shards, report)
    for line in report.lines:
        print(f"oracle: {line}", file=sys.stderr)
    count = sum(len(shard.samples) for shard in shards)
    if report.lines:
        sys.exit(f"oracle: {len(report.lines)} differences")
    print(
        f"oracle: {arguments.only}: {count} samples in {len(shards)} shards {'indexed' if arguments.write else 'equal'}"
    )


if __name__ == "__main__":
    main()
