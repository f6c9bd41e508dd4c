"""Samples of a generator into shards: packhorse.Writer and webdataset.ShardWriter.

    pip install webdataset
    python benches/python/writer.py FOLDER

FOLDER is made if it is not there, and the shards in it are removed again; in memory (tmpfs) it shows the writers, elsewhere the disk. Both write the same
samples, a label and 15,000 bytes that are ready in memory, and end when the last shard is closed. packhorse also writes the indexes, digests and
checksums. Every figure is the median of alternating rounds, after one that does not count.
"""

import argparse
import os
import random
import shutil
import statistics
import time

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("folder")
parser.add_argument("--samples", type=int, default=30_000)
parser.add_argument("--bytes", type=int, default=15_000)
parser.add_argument("--cores", type=int, default=2)
parser.add_argument("--rounds", type=int, default=5)
arguments = parser.parse_args()
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: arguments.cores])

import packhorse  # noqa: E402  (after binding)
import webdataset  # noqa: E402

OUT = os.path.join(arguments.folder, "bench-writer")
blocks = [random.Random(number).randbytes(arguments.bytes) for number in range(64)]


def samples():
    for number in range(arguments.samples):
        yield {"__key__": f"{number:09}", "jpg": blocks[number % 64], "cls": number % 1000}


def ours():
    with packhorse.Writer(OUT, to="webdataset", shard_size="100MB", jobs=arguments.cores) as writer:
        for sample in samples():
            writer.write(sample)


def theirs():
    os.makedirs(OUT)
    with webdataset.ShardWriter(os.path.join(OUT, "shard-%06d.tar"), maxsize=100e6, maxcount=10**9, verbose=0) as writer:
        for sample in samples():
            writer.write(sample)


def seconds(write):
    shutil.rmtree(OUT, ignore_errors=True)
    begin = time.perf_counter()
    write()
    taken = time.perf_counter() - begin
    shutil.rmtree(OUT)
    return taken


os.makedirs(arguments.folder, exist_ok=True)
writers = {"packhorse.Writer": ours, "webdataset.ShardWriter": theirs}
found = {name: [] for name in writers}
for turn in range(arguments.rounds + 1):
    for name, write in writers.items():
        taken = seconds(write)
        if turn > 0:
            found[name].append(taken)

print(f"{arguments.samples:,} samples of {arguments.bytes:,} bytes on {arguments.cores} CPUs; median of {arguments.rounds} rounds (lowest, highest)")
first = statistics.median(found["packhorse.Writer"])
for name, times in found.items():
    middle = statistics.median(times)
    speed = arguments.samples / middle
    print(f"{name:24} {middle:6.2f} s  ({min(times):.2f} to {max(times):.2f})  {speed:9,.0f} samples/s  packhorse takes {first / middle:.2f} of its time")
