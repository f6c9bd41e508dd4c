"""Pictures and raw samples a second: packhorse's Python package, its Rust loader, torch's DataLoader, webdataset.

    pip install torch torchvision webdataset
    packhorse synth images --count 20000 --out photos
    packhorse pack photos --to webdataset --out shards --labels folders --shard-size 64MB
    python benches/python/loader.py photos shards --cores 2

PHOTOS is a folder with a folder of JPEGs for each class, and SHARDS the dataset of it; several shards, so that webdataset's workers have some each.
Every figure is the median of `--rounds` rounds, in each of which all take their turn. The process is bound to `--cores` CPUs; packhorse has as many
threads, DataLoader as many workers. Files are in memory after the first round, which does not count. Threads and workers start before the clock.

    pixels    224 x 224 pictures (shorter side to 256, centre cut out), uint8 [256, 224, 224, 3]
    floats    the same, normalised: float32 [256, 3, 224, 224]
    same      the package and the Rust loader at the same work: shorter side to 224, centre cut out; uint8, and float32 (same32)
    raw       JPEGs as stored, in shuffled batches of 256
"""

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import time

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("photos")
parser.add_argument("shards")
parser.add_argument("--cores", type=int, default=2)
parser.add_argument("--rounds", type=int, default=5)
parser.add_argument("--seconds", type=float, default=4, help="of each measurement")
parser.add_argument("--batch", type=int, default=256)
arguments = parser.parse_args()
CORES, BATCH = arguments.cores, arguments.batch
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])

import numpy  # noqa: E402  (after binding, so that no library counts more CPUs)
import packhorse  # noqa: E402
import torch  # noqa: E402
import webdataset  # noqa: E402
from torch.utils.data import DataLoader  # noqa: E402
from torchvision import transforms  # noqa: E402
from torchvision.datasets import ImageFolder  # noqa: E402

torch.set_num_threads(1)
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
dataset = packhorse.open(arguments.shards)
shards = sorted(os.path.join(arguments.shards, name) for name in os.listdir(arguments.shards) if name.endswith(".tar"))


def rate(batches):
    """Samples a second, of an endless iterator of the sizes of batches, after the first."""
    next(batches)
    samples, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < arguments.seconds:
        samples += next(batches)
    return samples / (time.perf_counter() - begin)


def endless(loader, size):
    """The sizes of the batches of one epoch after another."""
    for _ in itertools.count():
        for batch in loader:
            yield size(batch)


def ours(fields):
    loader = dataset.loader(BATCH, seed=7, fields=fields, threads=CORES)
    try:
        return rate(endless(loader, lambda batch: len(batch["image"])))
    finally:
        loader.close()


def picture(short=256, **how):
    return {"image": packhorse.Image("jpg;jpeg", 224, crop="center", short=short, **how), "label": "cls"}


def rust(stage, *flags):
    """The rate that the command measures."""
    command = [sys.executable, "-m", "packhorse", "bench", "read", arguments.shards, "--json", "--batch", str(BATCH), "--jobs", str(CORES)]
    report = subprocess.run([*command, "--seconds", str(arguments.seconds), *flags], check=True, capture_output=True)
    return next(found["samples_per_s"] for found in json.loads(report.stdout)["stages"] if found["stage"] == stage)


def pixels(image):
    return torch.from_numpy(numpy.array(image))


def peer(*last):
    view = transforms.Compose([transforms.Resize(256), transforms.CenterCrop(224), *last])
    files = DataLoader(
        ImageFolder(arguments.photos, view), BATCH, shuffle=True, num_workers=CORES, drop_last=True, persistent_workers=True,
    )  # fmt: skip
    return rate(endless(files, lambda batch: len(batch[0])))


def raw_samples(workers):
    """Undecoded dictionaries, as many a batch, shuffled by a buffer of 1,000."""
    workers = min(workers, len(shards))
    stream = webdataset.WebDataset(shards, shardshuffle=len(shards)).shuffle(1000).batched(BATCH, collation_fn=list)
    return rate(endless(DataLoader(stream, batch_size=None, num_workers=workers, persistent_workers=workers > 0), len))


def package_raw():
    return ours({"image": packhorse.Bytes("jpg;jpeg"), "label": "cls"})


# Each group: its first row is what the others are compared with.
groups = {
    "pixels": {
        "packhorse": lambda: ours(picture()),
        "DataLoader, PIL, torchvision": lambda: peer(pixels),
    },
    "floats": {
        "packhorse": lambda: ours(picture(normalize=(MEAN, STD))),
        "DataLoader, PIL, torchvision": lambda: peer(transforms.ToTensor(), transforms.Normalize(MEAN, STD)),
    },
    "same": {
        "packhorse": lambda: ours(picture(224)),
        "Rust loader (packhorse bench)": lambda: rust("batch", "--size", "224"),
    },
    "same32": {
        "packhorse": lambda: ours(picture(224, normalize=(MEAN, STD))),
        "Rust loader (packhorse bench)": lambda: rust("batch", "--size", "224", "--normalize"),
    },
    "raw": {
        "packhorse": package_raw,
        "Rust loader (packhorse bench)": lambda: rust("batch"),
        "webdataset": lambda: raw_samples(0),
        "webdataset in DataLoader's workers": lambda: raw_samples(CORES),
    },
}
found = {group: {name: [] for name in rows} for group, rows in groups.items()}
for turn in range(arguments.rounds + 1):
    for group, rows in groups.items():
        for name, measure in rows.items():
            figure = measure()
            if turn > 0:
                found[group][name].append(figure)

print(f"samples a second on {CORES} CPUs, batches of {BATCH}; median of {arguments.rounds} rounds (lowest, highest)")
for group, rows in found.items():
    first = statistics.median(next(iter(rows.values())))
    for name, figures in rows.items():
        middle = statistics.median(figures)
        print(f"{group:7} {name:36} {middle:10,.0f}  ({min(figures):,.0f} to {max(figures):,.0f})  packhorse is {first / middle:6.2f}x as fast")
