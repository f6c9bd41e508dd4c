"""What users run today to tokenize a corpus, in the structure of Megatron-LM's two tools.

    preprocess.py pool  TOKENIZER.json EOD WORKERS IN.jsonl OUT    a pool encodes line by line, one process writes
    preprocess.py whole TOKENIZER.json EOD WORKERS IN.jsonl OUT    gigatoken encodes all of the file, then it is written

Prints the seconds that it took, without starting Python, and the peak of its memory in MiB.
"""

import json
import multiprocessing
import os
import resource
import struct
import sys
import time

import numpy


def write_index(path, code, lengths, width):
    lengths = numpy.asarray(lengths, dtype=numpy.int64)
    pointers = numpy.zeros(len(lengths), dtype=numpy.int64)
    numpy.cumsum(lengths[:-1] * width, out=pointers[1:])
    with open(path, "wb") as out:
        out.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, code, len(lengths), len(lengths) + 1))
        out.write(lengths.astype(numpy.int32).tobytes())
        out.write(pointers.tobytes())
        out.write(numpy.arange(len(lengths) + 1, dtype=numpy.int64).tobytes())


def start(path):
    from tokenizers import Tokenizer

    global tokenizer
    tokenizer = Tokenizer.from_file(path)


def encode(line):
    return tokenizer.encode(json.loads(line)["text"]).ids


def pool(path, eod, workers, source, out, kind):
    lengths = []
    with open(source, encoding="utf-8") as lines, open(out + ".bin", "wb") as tokens:
        with multiprocessing.Pool(workers, initializer=start, initargs=(path,)) as workers:
            for ids in workers.imap(encode, lines, 32):
                ids.append(eod)
                tokens.write(numpy.array(ids, dtype=kind).tobytes())
                lengths.append(len(ids))
    return lengths


def whole(path, eod, workers, source, out, kind):
    os.environ["RAYON_NUM_THREADS"] = str(workers)
    import gigatoken

    tokenizer = gigatoken.Tokenizer(path)
    documents = tokenizer.encode_files(gigatoken.JsonlFileSource([source]), parallel=workers > 1)
    lengths = []
    with open(out + ".bin", "wb") as tokens:
        # A million documents at a time, each followed by its EOD.
        for first in range(0, len(documents), 1_000_000):
            layout = documents[first : first + 1_000_000].layout
            offsets = numpy.asarray(layout.offsets.data)
            ids = numpy.asarray(layout.content.data)[offsets[0] : offsets[-1]]
            ids = numpy.insert(ids, offsets[1:] - offsets[0], eod).astype(kind)
            tokens.write(ids.tobytes())
            lengths.extend((numpy.diff(offsets) + 1).tolist())
    return lengths


def main():
    how, path, eod, workers, source, out = sys.argv[1:7]
    began = time.perf_counter()
    small = int(eod) < 65_500
    kind, code = (numpy.uint16, 8) if small else (numpy.int32, 4)
    lengths = {"pool": pool, "whole": whole}[how](path, int(eod), int(workers), source, out, kind)
    write_index(out + ".idx", code, lengths, numpy.dtype(kind).itemsize)
    seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{seconds:.3f} {peak:.0f}")


if __name__ == "__main__":
    main()
