"""Compares the indexes in SHARDS_DIR with those that the readers' own tools make for copies of its tars.

`widsindex create`, DALI's `wds2idx` and `energon prepare` run in a folder of their own.  Random numbers (index.uuid) are
not compared.
"""

import json
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

from expected import Difference
from small_yaml import brace_expand, parse_yaml

BIN = Path(sys.executable).parent


def run(*command, cwd):
    done = subprocess.run([str(word) for word in command], cwd=cwd, capture_output=True, text=True)
    if done.returncode != 0:
        raise Difference(f"{command}: {done.stdout}{done.stderr}")


def same(what, ours, theirs):
    if ours != theirs:
        raise Difference(f"{what} is {str(ours)[:300]!r}, the tool writes {str(theirs)[:300]!r}")


def wids(ours, theirs, tars):
    run(BIN / "widsindex", "create", "--name", ours.name, "--output", "shardindex.json", *tars, cwd=theirs)
    index = json.loads((ours / "shardindex.json").read_text())
    same("shardindex.json", index, json.loads((theirs / "shardindex.json").read_text()))


def dali(ours, theirs, tars):
    for tar in tars:
        run(BIN / "wds2idx", tar, cwd=theirs)
        name = Path(tar).with_suffix(".idx")
        same(name, (ours / name).read_bytes(), (theirs / name).read_bytes())


def rows(path, table):
    with sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True) as database:
        return sorted(database.execute(f"SELECT * FROM {table}"))


def energon(ours, theirs, tars):
    how = ["--non-interactive", "--no-progress", "--split-ratio", "1,0,0", "--sample-type", "CrudeWebdataset"]
    run(BIN / "energon", "prepare", *how, ".", cwd=theirs)
    for tar in tars:
        same(f"{tar}.idx", (ours / f"{tar}.idx").read_bytes(), (theirs / f"{tar}.idx").read_bytes())
    mine, right = ours / ".nv-meta", theirs / ".nv-meta"
    for name in (".info.json", "dataset.yaml"):
        same(name, (mine / name).read_text(), (right / name).read_text())
    splits = [parse_yaml((meta / "split.yaml").read_text()) for meta in (mine, right)]
    for split in splits:
        for part, names in split["split_parts"].items():
            split["split_parts"][part] = [name for pattern in names for name in brace_expand(pattern)]
    same("split.yaml", *splits)
    for table in ("samples", "sample_parts", "sqlite_master WHERE 0"):
        same(f"table {table}", rows(mine / "index.sqlite", table), rows(right / "index.sqlite", table))


def main():
    ours = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as temporary:
        theirs = Path(temporary) / ours.name
        tars = sorted(str(path.relative_to(ours)) for path in ours.rglob("*.tar"))
        for tar in tars:
            (theirs / tar).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ours / tar, theirs / tar)
        for check in (wids, dali, energon):
            check(ours, theirs, tars)
    print(f"tools: the indexes of {len(tars)} tars are equal")


if __name__ == "__main__":
    try:
        main()
    except Difference as difference:
        sys.exit(f"tools: {difference}")
