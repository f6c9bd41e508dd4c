"""Reads every sample with NVIDIA DALI's webdataset reader on the CPU.

Twice: through the index files NAME.idx beside the shards, and without them, when DALI scans the tars itself.
"""

import re

import nvidia.dali.fn as fn
from expected import Difference, main, shards
from nvidia.dali import pipeline_def

SOURCE = re.compile(r"^(.*):(\d+):([^:]*)$")


def index_path(shard):
    """Where DALI's own indexer puts a shard's index: the name up to its first dot."""
    return shard.with_name(shard.name.split(".")[0] + ".idx")


def index_fields(path):
    """The number of samples and the field names that an index file lists."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return int(lines[0].split()[1]), {word for line in lines[1:] for word in line.split(" ")[::4]}


def open_reader(paths, indexes, fields, uniform):
    """A pipeline that returns one sample at a time, one output per field."""

    @pipeline_def(batch_size=1, num_threads=1, device_id=None)
    def pipeline():
        return tuple(
            fn.readers.webdataset(
                name="reader",
                paths=[str(path) for path in paths],
                index_paths=[str(path) for path in indexes],
                ext=fields,
                missing_component_behavior="error" if uniform else "empty",
            )
        )

    reader = pipeline()
    reader.build()
    return reader


def read_all(folder, expected, with_index):
    paths = shards(folder)
    indexes = [index_path(path) for path in paths] if with_index else []
    absent = [path.name for path in indexes if not path.is_file()]
    if absent:
        raise Difference(f"index {absent[0]} is missing")
    for path in indexes:
        unknown = index_fields(path)[1] - set(expected.fields())
        if unknown:
            raise Difference(f"{path.name} lists the fields {sorted(unknown)}, which are not expected")
    fields = expected.fields()
    uniform = all(len(sample) == len(fields) for sample in expected.samples.values())
    reader = open_reader(paths, indexes, fields, uniform)
    count = reader.reader_meta("reader")["epoch_size"]
    how = "through the index" if with_index else "without an index"
    if count != len(expected.samples):
        raise Difference(f"{how}: DALI counts {count} samples, expected {len(expected.samples)}")
    expected.restart()
    for _ in range(count):
        outputs = dict(zip(fields, reader.run()))
        sources = {name: SOURCE.match(output[0].source_info() or "") for name, output in outputs.items()}
        names = {match.group(3) for match in sources.values() if match}
        key = next(
            (name.removesuffix(f".{field}") for name in names for field in fields if name.endswith(f".{field}")), None
        )
        if key is None:
            raise Difference(f"{how}: DALI names no source file for a sample: {names}")
        present = {
            field: out.at(0)
            for field, out in outputs.items()
            if field in expected.samples.get(key, {}) or len(out.at(0))
        }
        expected.sample(key, {field: array.tobytes() for field, array in present.items()}, how)
    expected.finish(how)


def check(folder, expected, _arguments):
    read_all(folder, expected, with_index=True)
    read_all(folder, expected, with_index=False)


if __name__ == "__main__":
    main("dali", check)
