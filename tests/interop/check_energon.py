"""Reads every sample with Megatron Energon, in its two ways.

In order, through `.nv-meta` and the `.tar.idx` files, every split part one after the other; and by key,
through `.nv-meta/index.sqlite`, whole samples and single fields.
"""

from expected import Difference, main, shards
from megatron.energon import (
    Cooker,
    DefaultTaskEncoder,
    WorkerConfig,
    get_loader,
    get_val_dataset,
    stateless,
)
from megatron.energon.cache.file_store import WebdatasetFileStore  # noqa: E402
from megatron.energon.epathlib import EPath  # noqa: E402
from megatron.energon.errors import reraise_exception  # noqa: E402
from megatron.energon.eyaml import load_yaml_json  # noqa: E402
from megatron.energon.flavors.webdataset.itar_reader import SqliteITarEntryReader  # noqa: E402
from megatron.energon.flavors.webdataset.metadata import get_info_shard_files  # noqa: E402

SAME_SPLIT = {"valid": "val", "validation": "val", "dev": "val"}


@stateless
def unchanged(sample):
    return sample


class RawSamples(DefaultTaskEncoder):
    """Leaves the fields as bytes."""

    decoder = None
    cookers = [Cooker(unchanged)]


def fields_of(sample):
    return {name: data for name, data in sample.items() if not name.startswith("__")}


def check_in_order(folder, expected):
    parts = load_yaml_json(EPath(str(folder)) / ".nv-meta" / "split.yaml")["split_parts"]
    for part, names in parts.items():
        if not names:
            continue
        worker = WorkerConfig(rank=0, world_size=1, num_workers=0, global_error_handler=reraise_exception)
        dataset = get_val_dataset(
            str(folder), split_part=part, worker_config=worker, batch_size=None, task_encoder=RawSamples()
        )
        for sample in get_loader(dataset):
            key = sample["__key__"]
            expected.sample(key, fields_of(sample), f"split part {part}")
            split = expected.splits[key]
            if split is not None and SAME_SPLIT.get(split, split) != part:
                raise Difference(f"sample {key!r} of split {split!r} is in Energon's part {part!r}")
    expected.finish("all split parts")


def check_by_key(folder, expected):
    where = "index.sqlite"
    reader = SqliteITarEntryReader(EPath(str(folder)))
    if len(reader) != len(expected.samples):
        raise Difference(f"{where} counts {len(reader)} samples, expected {len(expected.samples)}")
    listed = sorted(name for name, _, _ in reader.list_all_samples())
    if listed != sorted(expected.samples):
        raise Difference(f"{where} lists other keys: {sorted(set(listed) ^ set(expected.samples))[:3]}")
    expected.restart()
    store = WebdatasetFileStore(EPath(str(folder)))
    for key in reversed(list(expected.samples)):
        expected.sample(key, fields_of(reader[key]), where)
        parts = {name: size for name, size, _ in store.list_sample_parts(key)}
        if sorted(parts) != sorted(expected.samples[key]):
            raise Difference(f"{where} lists the fields {sorted(parts)} for {key!r}")
        for name in parts:
            data, _source = store[f"{key}.{name}"]
            expected.data(key, name, data, f"{where} (single field)")
    expected.finish(where)
    reader.close()
    store.close()


def check(folder, expected, _arguments):
    if not (folder / ".nv-meta" / ".info.json").is_file():
        raise Difference(".nv-meta/.info.json is missing")
    listed = get_info_shard_files(EPath(str(folder)))
    present = [str(shard.relative_to(folder)) for shard in shards(folder)]
    if listed != present:
        raise Difference(f".info.json lists {listed}, the folder holds {present}")
    check_in_order(folder, expected)
    check_by_key(folder, expected)


if __name__ == "__main__":
    main("energon", check)
