"""Samples of more than 100 MB and a training step: packhorse, numpy in threads, torch's DataLoader, h5py. The shape of DLIO's UNet3D.

    pip install numpy h5py torch
    python benches/python/unet3d.py --cores 2

DLIO (https://github.com/argonne-lcf/dlio_benchmark) simulates the training of a 3D U-Net: NPZ files of one sample, `x` of bytes with 147 MB on average,
uncompressed; batches of 4 (V100) or 7 (A100, H100); 4 threads that read; a step that computes nothing for 1.3604, 0.636 or 0.323 s. Here samples have
100 to 150 MB, and they are as DLIO's generator writes them: `np.savez(x=…, y=[0])`. `--compute` sets the seconds of a step. By default they follow from the
machine: reading a batch by numpy in threads, without steps, takes `--ratio` (1.3) times as long as computing on it.

    packhorse, hdf5        ragged arrays from HDF5 shards without compression, packed from the NPZ files by packhorse
    packhorse, webdataset  the same from tar shards
    numpy                  np.load in threads, from the files; batches are lists of arrays
    DataLoader             np.load in worker processes, from the files. As in DLIO, a worker drops what it read and sends a tensor of 2 MiB instead
    h5py                   contiguous datasets of one HDF5 file, read in threads

Every figure is the median of `--rounds` rounds, in each of which all take their turn, after one that does not count. AU is the utilisation of the accelerator: the
time of computing over the time of all, after `--warm` batches. Files are in memory if they fit; with `--cold` the page cache is
asked to drop them before each turn. The files take about 3.5 times `--files` times 125 MB of disk, in a folder that is removed.
"""

import argparse
import collections
import concurrent.futures
import itertools
import json
import os
import random
import statistics
import tempfile
import time

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--cores", type=int, default=2)
parser.add_argument("--files", type=int, default=12)
parser.add_argument("--batch", type=int, default=4)
parser.add_argument("--threads", type=int, default=4, help="that read, or worker processes")
parser.add_argument("--steps", type=int, default=12, help="of each measurement")
parser.add_argument("--warm", type=int, default=6, help="batches before the clock starts, in which memory is allocated")
parser.add_argument("--rounds", type=int, default=5)
parser.add_argument("--ratio", type=float, default=1.3, help="the time of reading a batch by numpy over that of a step")
parser.add_argument("--compute", type=float, help="seconds of a step, in place of --ratio")
parser.add_argument("--cold", action="store_true", help="drop files from the page cache before each turn")
parser.add_argument("--smallest", type=float, default=100.0, help="MB of the smallest sample")
parser.add_argument("--largest", type=float, default=150.0, help="MB of the largest sample")
parser.add_argument("--dir", help="where the files are made (default: the temporary folder)")
parser.add_argument("--json", action="store_true")
arguments = parser.parse_args()
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: arguments.cores])
BATCH, THREADS, AHEAD = arguments.batch, arguments.threads, 2

import h5py  # noqa: E402  (after binding, so that no library counts more CPUs)
import numpy  # noqa: E402
import packhorse  # noqa: E402

try:
    import torch
except ImportError:
    torch = None


def make(folder):
    """The NPZ files, of sizes that are spread evenly."""
    os.mkdir(folder)
    for number in range(arguments.files):
        share = number / max(arguments.files - 1, 1)
        side = int((1e6 * (arguments.smallest + share * (arguments.largest - arguments.smallest))) ** 0.5)
        x = numpy.random.default_rng(number).integers(0, 255, (side, side, 1), dtype=numpy.uint8)
        numpy.savez(os.path.join(folder, f"img_{number:03}_of_{arguments.files:03}.npz"), x=x, y=[0])


def orders():
    """The numbers of all files, in another order for each epoch."""
    for epoch in itertools.count():
        order = list(range(arguments.files))
        random.Random(epoch).shuffle(order)
        yield order


def windows(read):
    """Batches of samples that threads read ahead."""
    with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
        numbers = itertools.chain.from_iterable(orders())
        ahead = collections.deque(pool.submit(read, next(numbers)) for _ in range(BATCH * (AHEAD + 1)))
        while True:
            batch = []
            for _ in range(BATCH):
                batch.append(ahead.popleft().result())
                ahead.append(pool.submit(read, next(numbers)))
            yield batch


def by_numpy():
    def read(number):
        with numpy.load(files[number]) as sample:
            return sample["x"]

    return windows(read)


def by_h5py():
    with h5py.File(peer, "r") as file:
        yield from windows(lambda number: file[str(number)][()])


class Samples:
    """As DLIO's reader for PyTorch: the sample is read and dropped, and a tensor of the resized length takes its place."""

    def __init__(self):
        self.resized = torch.zeros(2 << 20, dtype=torch.uint8)

    def __len__(self):
        return arguments.files

    def __getitem__(self, number):
        with numpy.load(files[number]) as sample:
            assert sample["x"].size > 0
        return self.resized


def by_dataloader():
    loader = torch.utils.data.DataLoader(
        Samples(), BATCH, shuffle=True, num_workers=THREADS, drop_last=True, persistent_workers=True, prefetch_factor=AHEAD,
    )  # fmt: skip
    for _ in itertools.count():
        yield from loader


def by_packhorse(folder, fields):
    filling = min(THREADS, arguments.cores)
    loader = packhorse.open(folder).loader(BATCH, seed=7, fields=fields, threads=filling, readers=THREADS, ahead=AHEAD)
    try:
        for _ in itertools.count():
            yield from loader
    finally:
        loader.close()


def run(batches, compute):
    """Samples a second and the share of computing, after the first batches."""
    try:
        for _ in range(arguments.warm):
            next(batches)
        begin = time.perf_counter()
        for _ in range(arguments.steps):
            next(batches)
            if compute:
                time.sleep(compute)
        seconds = time.perf_counter() - begin
        return arguments.steps * BATCH / seconds, arguments.steps * compute / seconds
    finally:
        batches.close()


def evict():
    for folder, _, names in os.walk(home):
        for name in names:
            with open(os.path.join(folder, name), "rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def turn(source, compute):
    if arguments.cold:
        evict()
    return run(source(), compute)


def check():
    """Every array of packhorse is that of its file."""
    seen = set()
    for batch in packhorse.open(hdf5).loader(1, fields={"x": packhorse.Ragged("x")}):
        number = next(number for number, path in enumerate(files) if batch.keys[0] in path)
        with numpy.load(files[number]) as sample:
            assert numpy.array_equal(numpy.asarray(batch["x"][0]), sample["x"]), batch.keys
        seen.add(number)
    assert len(seen) == arguments.files


with tempfile.TemporaryDirectory(dir=arguments.dir, prefix="packhorse-unet3d-") as home:
    make(os.path.join(home, "npz"))
    files = sorted(os.path.join(home, "npz", name) for name in os.listdir(os.path.join(home, "npz")))
    size = sum(map(os.path.getsize, files))
    hdf5, tars, peer = (os.path.join(home, name) for name in ["hdf5", "tars", "peer.h5"])
    for folder, to, how in [(hdf5, "hdf5", {"ragged": True, "filter": "none"}), (tars, "webdataset", {})]:
        begin = time.perf_counter()
        packhorse.pack(os.path.join(home, "npz"), folder, to=to, shard_size="600MB", **how)
        seconds = time.perf_counter() - begin
        if not arguments.json:
            print(f"packed {len(files)} files of {size / len(files) / 1e6:.0f} MB to {to} in {seconds:.2f} s, {size / seconds / 1e6:,.0f} MB/s")
    check()
    with h5py.File(peer, "w") as file:
        for number, path in enumerate(files):
            with numpy.load(path) as sample:
                file[str(number)] = sample["x"]

    sources = {
        "packhorse, hdf5": lambda: by_packhorse(hdf5, {"x": packhorse.Ragged("x")}),
        "packhorse, webdataset": lambda: by_packhorse(tars, {"x": packhorse.Ragged("x.npy")}),
        "numpy": by_numpy,
        "DataLoader": by_dataloader,
        "h5py": by_h5py,
    }
    if torch is None:
        print("DataLoader is left out: torch is not installed")
        del sources["DataLoader"]
    compute = arguments.compute
    if compute is None:
        alone = [turn(by_numpy, 0.0)[0] for _ in range(4)][1:]
        compute = BATCH / statistics.median(alone) / arguments.ratio
    found = {name: {"alone": [], "training": [], "au": []} for name in sources}
    for number in range(arguments.rounds + 1):
        for name, source in sources.items():
            alone, (training, au) = turn(source, 0.0)[0], turn(source, compute)
            if number > 0:
                for key, figure in [("alone", alone), ("training", training), ("au", au)]:
                    found[name][key].append(figure)

settings = {"cores": arguments.cores, "files": len(files), "bytes": size, "batch": BATCH, "threads": THREADS, "compute_s": compute, "cold": arguments.cold}
if arguments.json:
    print(json.dumps({**settings, "found": found}))
else:
    where = "cold" if arguments.cold else "in memory if they fit"
    print(f"{len(files)} samples of {size / len(files) / 1e6:.0f} MB, {where}; batches of {BATCH}, {THREADS} threads or workers on {arguments.cores} CPUs")
    print(f"steps of {compute:.3f} s; median of {arguments.rounds} rounds (lowest, highest)")
    print(f"{'':22} {'samples/s, no steps':>24} {'samples/s, steps':>24} {'AU':>22}")
    middle = {name: {key: statistics.median(figures) for key, figures in of.items()} for name, of in found.items()}
    for name, of in found.items():
        shown = []
        for key, unit, digits in [("alone", 1, 1), ("training", 1, 1), ("au", 100, 1)]:
            low, high = min(of[key]) * unit, max(of[key]) * unit
            shown.append(f"{middle[name][key] * unit:7.{digits}f} ({low:.{digits}f} to {high:.{digits}f})")
        print(f"{name:22} {shown[0]:>24} {shown[1]:>24} {shown[2] + ' %':>22}")
    first = next(iter(sources))
    for name in list(sources)[1:]:
        ratios = [middle[first][key] / middle[name][key] for key in ["alone", "training"]]
        print(f"{first} against {name}: {ratios[0]:.2f}x the samples/s without steps, {ratios[1]:.2f}x with steps")
