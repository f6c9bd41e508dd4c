"""Reads every sample by its number with wids, through SHARDS_DIR/shardindex.json, from last to first."""

import json
import tempfile

import wids
from expected import Difference, main, shards


def check(folder, expected, _arguments):
    index = folder / "shardindex.json"
    if not index.is_file():
        raise Difference(f"{index.name} is missing")
    listed = sorted(shard["url"] for shard in json.loads(index.read_text())["shardlist"])
    present = [str(shard.relative_to(folder)) for shard in shards(folder)]
    if listed != present:
        raise Difference(f"{index.name} lists {listed}, the folder holds {present}")
    with tempfile.TemporaryDirectory() as cache:
        dataset = wids.ShardListDataset(str(index), cache_dir=cache, transformations=[])
        if len(dataset) != len(expected.samples):
            raise Difference(f"{index.name} counts {len(dataset)} samples, expected {len(expected.samples)}")
        for number in reversed(range(len(dataset))):
            where = f"sample number {number}"
            sample = dataset[number]
            fields = {name[1:]: data.read() for name, data in sample.items() if name.startswith(".")}
            unknown = [name for name in sample if not name.startswith((".", "__"))]
            if unknown:
                raise Difference(f"{where}: field names {unknown} do not start with a dot")
            expected.sample(sample["__key__"], fields, where)
        dataset.close()
    expected.finish("wids")


if __name__ == "__main__":
    main("wids", check)
