"""Pictures of 224 x 224 a second: packhorse, SPDL, litData, datago, and webdataset with simplejpeg.

    pip install spdl litdata datago simplejpeg webdataset pillow
    packhorse synth images --count 20000 --out photos
    packhorse pack photos --to webdataset --out shards --shard-size 64MB
    python benches/python/peers.py photos shards --cores 2

Each gives batches of 256 pictures as uint8 [256, 224, 224, 3], the whole picture squashed to that size, in one process bound to `--cores` CPUs with as
many threads. Peers that are not installed are left out; SPDL also needs FFmpeg's shared libraries. Every figure is the median of `--rounds` rounds, in each of which all take their turn, after one that does
not count.

    packhorse             Image(crop="squash"), from shards
    SPDL                  load_image_batch in a pipeline, from files
    datago                a client of files, from files; its samples are put into batches here
    litData               a StreamingDataset of JPEGs in DataLoader's workers, decoded and resized by Pillow, from its own chunks
    webdataset+simplejpeg in DataLoader's workers, decoded by simplejpeg, resized by Pillow, from shards
"""

import argparse
import glob
import io
import itertools
import json
import os
import random
import statistics
import tempfile
import time

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("photos")
parser.add_argument("shards")
parser.add_argument("--cores", type=int, default=2)
parser.add_argument("--rounds", type=int, default=5)
parser.add_argument("--seconds", type=float, default=4, help="of each measurement")
arguments = parser.parse_args()
CORES, BATCH, SIDE = arguments.cores, 256, 224
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])

import numpy  # noqa: E402  (after binding, so that no library counts more CPUs)
import packhorse  # noqa: E402

files = glob.glob(os.path.join(arguments.photos, "**", "*.jpg"), recursive=True)
shards = sorted(glob.glob(os.path.join(arguments.shards, "*.tar")))


def rate(batches):
    """Pictures a second, of an endless iterator of batches, after the first."""
    assert next(batches).shape == (BATCH, SIDE, SIDE, 3)
    samples, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < arguments.seconds:
        samples += len(next(batches))
    return samples / (time.perf_counter() - begin)


def ours():
    fields = {"image": packhorse.Image("jpg", SIDE, crop="squash")}
    loader = packhorse.open(arguments.shards).loader(BATCH, seed=7, fields=fields, threads=CORES)
    try:
        return rate(numpy.asarray(batch["image"]) for _ in itertools.count() for batch in loader)
    finally:
        loader.close()


def spdl():
    import spdl.io
    from spdl.pipeline import PipelineBuilder

    def chosen():
        while True:
            yield random.sample(files, BATCH)

    def load(paths):
        return spdl.io.to_numpy(spdl.io.load_image_batch(paths, width=SIDE, height=SIDE))

    # Without FFmpeg's libraries this fails at once; a pipeline logs each picture and waits.
    spdl.io.to_numpy(spdl.io.load_image(files[0]))
    pipeline = PipelineBuilder().add_source(chosen()).pipe(load, concurrency=CORES).add_sink(2).build(num_threads=CORES)
    with pipeline.auto_stop():
        return rate(iter(pipeline.get_iterator(timeout=60)))


def datago():
    from datago import DatagoClient

    config = {
        "source_type": "file",
        "source_config": {"root_path": arguments.photos, "random_sampling": True, "rank": 0, "world_size": 1},
        "image_config": {
            "crop_and_resize": True, "default_image_size": SIDE, "downsampling_ratio": 32, "min_aspect_ratio": 1.0,
            "max_aspect_ratio": 1.0, "pre_encode_images": False,
        },
        "samples_buffer_size": 2 * BATCH, "limit": 1_000_000_000,
    }  # fmt: skip

    def batches():
        client = DatagoClient(json.dumps(config))
        client.start()
        pictures = []
        while True:
            sample = client.get_sample()
            if sample is None:
                client.stop()
                client.start()
                continue
            pictures.append(sample.image.to_numpy_array())
            if len(pictures) == BATCH:
                yield numpy.stack(pictures)
                pictures = []

    return rate(batches())


def squashed(image):
    return numpy.asarray(image.resize((SIDE, SIDE), 2))


def from_pillow(jpeg):
    from PIL import Image

    return squashed(Image.open(io.BytesIO(jpeg)).convert("RGB"))


def workers(dataset, loader=None):
    from torch.utils.data import DataLoader

    made = (loader or DataLoader)(
        dataset, batch_size=BATCH, num_workers=CORES, collate_fn=numpy.stack, drop_last=True, persistent_workers=True,
        multiprocessing_context="fork",
    )  # fmt: skip
    return rate(batch for _ in itertools.count() for batch in made)


def read(path):
    """An input of litData's chunks."""
    with open(path, "rb") as file:
        return {"jpeg": file.read()}


def litdata(chunks=[]):  # noqa: B006  (chunks are made once)
    from litdata import StreamingDataLoader, StreamingDataset, optimize

    if not chunks:
        folder = tempfile.mkdtemp()
        optimize(fn=read, inputs=files, output_dir=folder, chunk_bytes="64MB", num_workers=CORES)
        chunks.append(folder)

    class Pictures(StreamingDataset):
        def __getitem__(self, index):
            return from_pillow(super().__getitem__(index)["jpeg"])

    return workers(Pictures(chunks[0], shuffle=True), StreamingDataLoader)


def simplejpeg():
    import simplejpeg as decoder
    import webdataset
    from PIL import Image

    def picture(sample):
        return squashed(Image.fromarray(decoder.decode_jpeg(sample["jpg"])))

    stream = webdataset.WebDataset(shards, shardshuffle=len(shards)).shuffle(1000).map(picture)
    return workers(stream)


measures = {"packhorse": ours, "SPDL": spdl, "datago": datago, "litData": litdata, "webdataset+simplejpeg": simplejpeg}
if __name__ == "__main__":
    found = {name: [] for name in measures}
    for turn in range(arguments.rounds + 1):
        for name, measure in list(measures.items()):
            try:
                figure = measure()
            except Exception as error:
                print(f"{name} is left out: {type(error).__name__}: {error}")
                del measures[name], found[name]
                continue
            if turn > 0:
                found[name].append(figure)
    print(f"pictures a second on {CORES} CPUs; median of {arguments.rounds} rounds (lowest, highest)")
    first = statistics.median(found["packhorse"])
    for name, figures in found.items():
        middle = statistics.median(figures)
        print(f"{name:24} {middle:8,.0f}  ({min(figures):,.0f} to {max(figures):,.0f})  packhorse is {first / middle:5.2f}x as fast")
