"""Reads every sample with Hugging Face datasets' "webdataset" loader, without the network."""

import io
import json
import os
import tempfile

os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", HF_HUB_DISABLE_TELEMETRY="1")
TEMPORARY = tempfile.TemporaryDirectory()
os.environ["HF_HOME"] = TEMPORARY.name

import datasets  # noqa: E402
import numpy  # noqa: E402
from expected import Difference, main, raw_members, shards  # noqa: E402

datasets.disable_progress_bars()
MEDIA = (datasets.Image, datasets.Audio, datasets.Video)
INTEGER = ("cls", "cls2", "index", "inx", "id")
TEXT = ("txt", "text", "transcript")


def without_nulls(value):
    """The loader stores JSON in columns, so keys that some samples lack come back as None."""
    if isinstance(value, dict):
        return {name: without_nulls(item) for name, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


def decoded(extension, data):
    """The value that the loader should have made of a field's bytes."""
    if extension in INTEGER:
        return int(data)
    if extension in TEXT:
        return data.decode("utf-8")
    if extension in ("json", "jsn"):
        return without_nulls(json.loads(data))
    if extension == "npy":
        return numpy.load(io.BytesIO(data)).tolist()
    raise Difference(f"no rule for the value of a .{extension} field; add it to {__file__}")


def same_field(value, extension, data):
    """Whether a value that the loader returned stands for these bytes."""
    if isinstance(value, dict) and value.keys() == {"bytes", "path"}:
        return value["bytes"] == data
    if isinstance(value, bytes):
        return value == data
    return without_nulls(value) == decoded(extension, data)


def load(folder):
    """The dataset, with media fields left as bytes."""
    files = [str(shard) for shard in shards(folder)]
    dataset = datasets.load_dataset("webdataset", data_files=files, split="train", cache_dir=TEMPORARY.name)
    for name, feature in dataset.features.items():
        if isinstance(feature, MEDIA):
            dataset = dataset.cast_column(name, type(feature)(decode=False))
    return dataset


def check(folder, expected, _arguments):
    members = raw_members(folder)
    for (key, name), data in members.items():
        if name in expected.samples.get(key, ()):
            expected.data(key, name, data, "the tar's own bytes")
    for sample in load(folder):
        key = sample["__key__"]
        where = os.path.basename(sample["__url__"])
        fields = {n: v for n, v in sample.items() if not n.startswith("__") and v is not None}
        expected.begin(key, fields, where)
        for name, value in fields.items():
            if not same_field(value, name.rsplit(".", 1)[-1].lower(), members[key, name]):
                raise Difference(f"{where}: {key}.{name} differs: got {str(value)[:80]}")
    expected.finish("datasets")


if __name__ == "__main__":
    main("datasets", check)
