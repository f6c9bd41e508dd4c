"""Lists and extracts every shard with GNU tar and compares the files on disk with the expected ones."""

import os
import subprocess
import tempfile
from pathlib import Path

from expected import Difference, main, shards


def gnu_tar(*arguments):
    """Runs GNU tar; any message on its error output is a difference."""
    environment = dict(os.environ, LC_ALL="C.UTF-8")
    run = subprocess.run(["tar", *arguments], capture_output=True, env=environment)
    if run.returncode != 0 or run.stderr:
        raise Difference(f"tar {' '.join(map(str, arguments))}: status {run.returncode}: {run.stderr.decode().strip()}")
    return run.stdout.decode()


def check(folder, expected, _arguments):
    want = {f"{key}.{field}": (key, field) for key, fields in expected.samples.items() for field in fields}
    listed = {}
    with tempfile.TemporaryDirectory() as temporary:
        for shard in shards(folder):
            for name in gnu_tar("--quoting-style=literal", "-tf", shard).splitlines():
                if name not in want:
                    raise Difference(f"{shard.name}: tar -t lists {name!r}, which is not expected")
                if name in listed:
                    raise Difference(f"{shard.name}: tar -t lists {name!r}, which {listed[name]} holds as well")
                listed[name] = shard.name
            gnu_tar("-x", "--no-same-owner", "-f", shard, "-C", temporary)
        missing = sorted(want.keys() - listed.keys())
        if missing:
            raise Difference(f"{len(missing)} members are missing, first {missing[0]!r}")
        for name, (key, field) in want.items():
            path = Path(temporary, name)
            if not path.is_file() or path.is_symlink():
                raise Difference(f"{listed[name]}: tar -x did not write the file {name!r}")
            expected.data(key, field, path.read_bytes(), listed[name])
        on_disk = sum(len(files) for _, _, files in os.walk(temporary))
        if on_disk != len(want):
            raise Difference(f"tar -x wrote {on_disk} files, expected {len(want)}")


if __name__ == "__main__":
    main("gnutar", check)
