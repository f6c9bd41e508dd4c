"""The peer of benches/order.rs: numpy and a C++ helper. `peer.py gpt LENGTHS SEED SEQ SAMPLES EPOCHS FIRST REPEATS` and
`peer.py blend WEIGHTS SIZE REPEATS` print, best of the repeats, wall and CPU seconds and a digest of the arrays.

The helper is that of the wheel that MEGATRON_CORE names (unpacked), else peer.cpp, built with g++ -O3.
"""

import ctypes
import glob
import hashlib
import importlib.util
import os
import subprocess
import sys
import tempfile
import time

import numpy as np


def megatron():
    root = os.environ.get("MEGATRON_CORE")
    for path in glob.glob(f"{root}/megatron/core/datasets/helpers_cpp*.so") if root else []:
        spec = importlib.util.spec_from_file_location("helpers_cpp", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    return None


def own():
    folder = tempfile.mkdtemp()
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "peer.cpp")
    subprocess.run(["g++", "-O3", "-shared", "-fPIC", "-o", f"{folder}/peer.so", source], check=True)
    return ctypes.CDLL(f"{folder}/peer.so")


THEIRS = megatron()
OWN = None if THEIRS else own()


def pointer(array):
    return array.ctypes.data_as(ctypes.c_void_p)


def gpt(lengths, seed, seq, samples, epochs, first):
    random = np.random.RandomState(seed)

    def documents(times):
        index = np.mgrid[0:times, 0:len(lengths)][1].reshape(-1).astype(np.int32)
        random.shuffle(index)
        return index

    total = int(np.sum(lengths, dtype=np.int64))
    document = documents(epochs) if first == samples else np.concatenate((documents(epochs - 1), documents(1)))
    if THEIRS:
        rows = THEIRS.build_sample_idx_int32(lengths, document, seq, epochs, total, True, 1)
    else:
        rows = np.empty((samples + 1, 2), dtype=np.int32)
        OWN.sample_rows(pointer(lengths), pointer(document), ctypes.c_int64(len(document)), seq,
                        ctypes.c_int64(samples), pointer(rows))
    parts = np.arange(0, first, dtype=np.uint32), np.arange(first, samples, dtype=np.uint32)
    for part in parts:
        random.shuffle(part)
    return document, rows, np.concatenate(parts)


def blend(weights, size):
    dataset, sample = np.zeros(size, dtype=np.int16), np.zeros(size, dtype=np.int64)
    if THEIRS:
        THEIRS.build_blending_indices(dataset, sample, weights, len(weights), size, False)
    else:
        OWN.blend(pointer(weights), len(weights), ctypes.c_int64(size),
                  pointer(np.zeros(len(weights), dtype=np.int64)), pointer(dataset), pointer(sample))
    return dataset, sample


def main():
    what, path, *numbers, repeats = sys.argv[1:]
    values = np.fromfile(path, dtype=np.int32 if what == "gpt" else np.float64)
    wall, cpu = [], []
    for _ in range(int(repeats)):
        start, used = time.perf_counter(), time.process_time()
        arrays = {"gpt": gpt, "blend": blend}[what](values, *map(int, numbers))
        wall.append(time.perf_counter() - start)
        cpu.append(time.process_time() - used)
    digest = hashlib.md5(b"".join(array.tobytes() for array in arrays)).hexdigest()
    print("megatron" if THEIRS else "g++", min(wall), min(cpu), digest)


if __name__ == "__main__":
    main()
