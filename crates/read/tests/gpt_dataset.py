"""Samples of a GPT dataset, by numpy alone: an oracle and a peer for the Rust crate.

Written from the description of Megatron's IndexedDataset.get and GPTDataset: a pair is mapped, a sample is
put together from runs of documents, as int64, and a batch is stacked.

`gpt_dataset.py dump STEM CACHE SEQ OUT` writes all samples in order, `<i8`, and their position ids after them.
`gpt_dataset.py time STEM CACHE SEQ BATCH FIRST COUNT TYPE` prints the seconds of wall clock and CPU that COUNT batches
take, and a sum over their tokens. `gpt_dataset.py evict STEM` has the system forget what it holds of the `.bin`.
"""

import os
import sys
import time

import numpy as np


class Indexed:
    def __init__(self, stem):
        idx = np.memmap(stem + ".idx", mode="r", order="C")
        assert bytes(idx[:9]) == b"MMIDIDX\x00\x00"
        types = {1: np.uint8, 2: np.int8, 3: np.int16, 4: np.int32, 5: np.int64, 8: np.uint16}
        self.dtype = types[int(idx[17])]
        self.size = self.dtype().itemsize
        count = int(np.frombuffer(idx, np.int64, 1, 18)[0])
        self.lengths = np.frombuffer(idx, np.int32, count, 34)
        self.pointers = np.frombuffer(idx, np.int64, count, 34 + 4 * count)
        self.map = np.memmap(stem + ".bin", mode="r", order="C")
        self.buffer = memoryview(self.map)

    def get(self, sequence, offset=0, length=None):
        pointer, whole = self.pointers[sequence], self.lengths[sequence]
        if length is None:
            length = whole - offset
        pointer += offset * self.size
        return np.frombuffer(self.buffer, dtype=self.dtype, count=length, offset=pointer)


class GPTDataset:
    def __init__(self, stem, cache, seq, dtype=np.int64):
        self.indexed, self.seq, self.dtype = Indexed(stem), seq, dtype
        self.document, self.sample, self.shuffle = (
            np.load(f"{cache}/{name}.npy", mmap_mode="r") for name in ("document", "sample", "shuffle")
        )

    def __len__(self):
        return len(self.shuffle)

    def parts(self, k):
        row = self.shuffle[k]
        first, begin = self.sample[row]
        last, end = self.sample[row + 1]
        if first == last:
            return [self.indexed.get(self.document[first], offset=begin, length=end - begin + 1)]
        parts = []
        for place in range(first, last + 1):
            offset = 0 if place > first else begin
            length = None if place < last else end + 1
            parts.append(self.indexed.get(self.document[place], offset=offset, length=length))
        return parts

    def __getitem__(self, k):
        return np.array(np.concatenate(self.parts(k)), dtype=self.dtype)


def dump(stem, cache, seq, out):
    data = GPTDataset(stem, cache, int(seq))
    places = lambda parts: np.concatenate([np.arange(len(part)) for part in parts])
    with open(out, "wb") as file:
        for k in range(len(data)):
            file.write(data[k].astype("<i8").tobytes())
        for k in range(len(data)):
            file.write(places(data.parts(k))[: data.seq].astype("<i8").tobytes())


def timed(stem, cache, seq, batch, first, count, kind):
    data = GPTDataset(stem, cache, int(seq), np.dtype(kind))
    batch, first, count = int(batch), int(first), int(count)
    wall, cpu, total = time.perf_counter(), time.process_time(), 0
    for step in range(count):
        begin = first + step * batch
        made = np.stack([data[k] for k in range(begin, begin + batch)])
        total += int(made[:, 0].astype(np.int64).sum()) + int(made[:, -1].astype(np.int64).sum())
    print(time.perf_counter() - wall, time.process_time() - cpu, total)


def evict(stem):
    with open(stem + ".bin", "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


if __name__ == "__main__":
    {"dump": dump, "time": timed, "evict": evict}[sys.argv[1]](*sys.argv[2:])
