"""What the checks share: the list of expected samples, and the comparison with what a reader returns.

EXPECTED.jsonl has one line per sample:

    {"key": "dress/0001", "split": null,
     "fields": {"jpg": {"sha256": "...", "bytes": 12345}, "cls": {"text": "3"}}}

A field is given by the SHA-256 digest and the length of its bytes, or, where it is short text, by the
text itself.  Field names carry no leading dot.  `split` is null where the dataset has none.
"""

import argparse
import hashlib
import json
import re
import sys
import tarfile
import traceback
from pathlib import Path

SPLIT_RULE = re.compile(r"^((?:.*/|)[^.]+)[.]([^/]*)$")
"""The rule of the WebDataset readers: a key up to the first dot of the base name, then the field."""


class Difference(Exception):
    """The dataset is not what was expected; the message says where."""


class Expected:
    """The expected samples, ticked off one by one as a reader returns them."""

    def __init__(self, path):
        self.samples = {}
        self.splits = {}
        self.seen = set()
        with open(path, encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if not line.strip():
                    continue
                sample = json.loads(line)
                if sample["key"] in self.samples:
                    raise Difference(f"{path}, line {number}: key {sample['key']!r} is listed twice")
                self.samples[sample["key"]] = sample["fields"]
                self.splits[sample["key"]] = sample.get("split")
        if not self.samples:
            raise Difference(f"{path} lists no samples")

    def restart(self):
        """Forgets what was seen, for a second reading of the same dataset."""
        self.seen.clear()

    def fields(self):
        """Every field name that occurs, sorted."""
        return sorted({field for fields in self.samples.values() for field in fields})

    def begin(self, key, names, where):
        """Ticks off a sample: its key must be expected, not yet seen, and have exactly these fields."""
        if key not in self.samples:
            raise Difference(f"{where}: sample {key!r} is not expected")
        if key in self.seen:
            raise Difference(f"{where}: sample {key!r} came twice")
        names = sorted(names)
        if names != sorted(self.samples[key]):
            raise Difference(f"{where}: sample {key!r} has fields {names}, expected {sorted(self.samples[key])}")
        self.seen.add(key)

    def sample(self, key, fields, where):
        """Compares one whole sample, given as {field name: bytes}."""
        self.begin(key, fields, where)
        for name, data in fields.items():
            self.data(key, name, data, where)

    def data(self, key, name, data, where):
        """Compares the bytes of one field."""
        want = self.samples[key][name]
        data = bytes(data)
        if "text" in want and data != want["text"].encode():
            raise Difference(f"{where}: {key}.{name} is {data[:80]!r}, expected the text {want['text']!r}")
        if "bytes" in want and len(data) != want["bytes"]:
            raise Difference(f"{where}: {key}.{name} has {len(data)} bytes, expected {want['bytes']}")
        if "sha256" in want and hashlib.sha256(data).hexdigest() != want["sha256"]:
            raise Difference(f"{where}: {key}.{name} has the right length but other bytes (SHA-256 differs)")

    def finish(self, where):
        """Every expected sample must have come."""
        missing = [key for key in self.samples if key not in self.seen]
        if missing:
            raise Difference(
                f"{where}: {len(missing)} of {len(self.samples)} samples are missing, first {missing[0]!r}"
            )


def shards(folder):
    """The tar shards below a folder, sorted by relative path; hidden folders do not count."""
    folder = Path(folder)
    found = [p for p in folder.rglob("*.tar") if not any(part.startswith(".") for part in p.relative_to(folder).parts)]
    if not found:
        raise Difference(f"{folder} holds no *.tar")
    return sorted(found, key=lambda p: str(p.relative_to(folder)))


def raw_members(folder):
    """{(key, field): bytes} of every regular member, by Python's tarfile; for readers that return decoded values."""
    members = {}
    for shard in shards(folder):
        with tarfile.open(shard, "r:") as tar:
            for member in tar:
                match = SPLIT_RULE.match(member.name)
                if member.isreg() and match:
                    members[match.groups()] = tar.extractfile(member).read()
    return members


def main(name, check, options=()):
    """Runs `check(shards_dir, expected, arguments)` as a command and turns its outcome into an exit status."""
    parser = argparse.ArgumentParser(description=sys.modules["__main__"].__doc__)
    parser.add_argument("shards_dir", type=Path, metavar="SHARDS_DIR")
    parser.add_argument("expected", metavar="EXPECTED.jsonl")
    for flag, text in options:
        parser.add_argument(flag, action="store_true", help=text)
    arguments = parser.parse_args()
    try:
        expected = Expected(arguments.expected)
        check(arguments.shards_dir.resolve(), expected, arguments)
    except Difference as difference:
        sys.exit(f"{name}: {difference}")
    except Exception as error:
        traceback.print_exc()
        sys.exit(f"{name}: the reader fails: {error!r}")
    print(f"{name}: {len(expected.samples)} samples equal")
