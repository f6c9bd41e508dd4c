"""`FOLDER write` writes the files; `FOLDER read COMPRESSION THREADS` prints uproot's best time of three."""
import concurrent.futures
import pathlib
import sys
import time

import awkward as ak
import numpy as np
import uproot

N, PART = 2_000_000, 200_000
ALL = {"zlib": uproot.ZLIB(1), "lz4": uproot.LZ4(1), "zstd": uproot.ZSTD(1), "lzma": uproot.LZMA(1)}


def part(seed):
    rng = np.random.default_rng(seed)
    counts = rng.poisson(3, PART)
    jagged = lambda: ak.unflatten(rng.normal(size=counts.sum()).round(2).astype("f4"), counts)  # noqa: E731
    flat = {f"f{i}": rng.normal(size=PART).round(2).astype("f4") for i in range(3)}
    flat |= {"run": np.full(PART, seed, "i4"), "event": np.arange(PART, dtype="i8"), "weight": rng.random(PART).round(3)}
    return flat | {"pt": jagged(), "eta": jagged()}


folder = pathlib.Path(sys.argv[1])
if sys.argv[2] == "write":
    for name, compression in ALL.items():
        with uproot.recreate(folder / f"{name}.root", compression=compression) as file:
            for seed in range(N // PART):
                values = part(seed)
                if seed == 0:
                    file.mktree("events", {k: v.type if isinstance(v, ak.Array) else v.dtype for k, v in values.items()})
                file["events"].extend(values)
else:
    threads = int(sys.argv[4])
    pool = concurrent.futures.ThreadPoolExecutor(threads)
    # `None` decompresses and interprets in the caller's thread.
    workers = pool if threads > 1 else uproot.TrivialExecutor()
    best = float("inf")
    for _ in range(3):
        with uproot.open(folder / f"{sys.argv[3]}.root") as file:
            start = time.perf_counter()
            file["events"].arrays(decompression_executor=workers, interpretation_executor=workers)
            best = min(best, time.perf_counter() - start)
    print(best)
