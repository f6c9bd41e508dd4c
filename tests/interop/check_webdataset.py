"""Reads every sample with the webdataset package and compares it with the expected one."""

import json

import webdataset
from webdataset.autodecode import basichandlers

from expected import Difference, main, shards


def check_decoded(key, name, data, where):
    """The package's own decoders must accept the field and mean the same as its text."""
    extension = name.rsplit(".", 1)[-1]
    try:
        value = basichandlers(name, data)
    except Exception as error:
        raise Difference(f"{where}: webdataset cannot decode {key}.{name}: {error!r}") from error
    want = {"cls": int, "json": json.loads, "txt": bytes.decode}[extension](data)
    if value != want:
        raise Difference(f"{where}: webdataset decodes {key}.{name} as {value!r}, expected {want!r}")


def check(folder, expected, _arguments):
    for shard in shards(folder):
        for sample in webdataset.WebDataset([str(shard)], shardshuffle=False, empty_check=False):
            key = sample["__key__"]
            fields = {name: data for name, data in sample.items() if not name.startswith("__")}
            expected.sample(key, fields, shard.name)
            for name, data in fields.items():
                if name.rsplit(".", 1)[-1] in ("cls", "json", "txt"):
                    check_decoded(key, name, data, shard.name)
    expected.finish("webdataset")


if __name__ == "__main__":
    main("webdataset", check)
