"""An independent reader and writer of tokens, written from the specification of the bytes, with numpy only.

    check.py write DOCUMENTS.json DTYPE PREFIX   documents are lists of sequences, which are lists of ids
    check.py read PREFIX                         prints what `write` takes, and the type
    check.py datatrove FILE.ds                   prints the documents, and the metadata's lines
    check.py llmc FILE.bin                       prints the tokens, as llm.c's loader checks and reads them
    check.py table FILE.parquet                  prints the rows of the table of documents
"""

import json
import struct
import sys

import numpy as np

CODES = {1: "u1", 2: "i1", 3: "<i2", 4: "<i4", 5: "<i8", 6: "<f8", 7: "<f4", 8: "<u2"}


def write(source, dtype, prefix):
    documents = json.load(open(source))
    code = {np.dtype(t): c for c, t in CODES.items()}[np.dtype(dtype)]
    lengths, document_index = [], [0]
    with open(prefix + ".bin", "wb") as data:
        for document in documents:
            for sequence in document:
                ids = np.array(sequence, dtype=np.int64)
                cast = ids.astype(dtype)
                assert (cast == ids).all(), "an id that the type does not hold"
                data.write(cast.tobytes(order="C"))
                lengths.append(len(sequence))
            document_index.append(len(lengths))
    lengths = np.array(lengths, dtype="<i4")
    pointers = np.zeros(len(lengths), dtype="<i8")
    if len(lengths):
        pointers[1:] = np.cumsum(lengths[:-1].astype("<i8")) * np.dtype(dtype).itemsize
    with open(prefix + ".idx", "wb") as index:
        index.write(b"MMIDIDX\x00\x00")
        index.write(struct.pack("<Q", 1))
        index.write(struct.pack("<B", code))
        index.write(struct.pack("<Q", len(lengths)))
        index.write(struct.pack("<Q", len(document_index)))
        index.write(lengths.tobytes() + pointers.tobytes())
        index.write(np.array(document_index, dtype="<i8").tobytes())


def read(prefix):
    index = open(prefix + ".idx", "rb").read()
    assert index[:9] == b"MMIDIDX\x00\x00"
    version, code, sequences, entries = struct.unpack("<QBQQ", index[9:34])
    assert version == 1
    dtype = np.dtype(CODES[code])
    lengths = np.frombuffer(index, "<i4", sequences, 34)
    pointers = np.frombuffer(index, "<i8", sequences, 34 + lengths.nbytes)
    documents = np.frombuffer(index, "<i8", entries, 34 + lengths.nbytes + pointers.nbytes)
    assert len(index) == 34 + lengths.nbytes + pointers.nbytes + documents.nbytes
    assert documents[0] == 0 and documents[-1] == sequences and (np.diff(documents) >= 0).all()
    data = open(prefix + ".bin", "rb").read()
    assert len(data) == int(lengths.astype(np.int64).sum()) * dtype.itemsize
    one = lambda i: np.frombuffer(data, dtype, lengths[i], pointers[i]).tolist()
    found = [[one(i) for i in range(a, b)] for a, b in zip(documents[:-1], documents[1:])]
    print(json.dumps({"dtype": dtype.name, "documents": found}))


def datatrove(path):
    lines = open(path + ".metadata").read().split("\n")
    size = int(lines[0].rpartition("|")[2])
    ends = np.fromfile(path + ".index", "<u8")
    tokens = np.fromfile(path, {2: "<u2", 4: "<u4"}[size])
    assert len(tokens) == int(lines[1]) == (int(ends[-1]) if len(ends) else 0)
    starts = [0, *ends[:-1].tolist()]
    print(json.dumps({"documents": [tokens[a:b].tolist() for a, b in zip(starts, ends.tolist())], "lines": lines}))


def llmc(path):
    header = np.fromfile(path, "<i4", 256)
    dtype = {(20240520, 1): "<u2", (20240801, 7): "<u4"}[(int(header[0]), int(header[1]))]
    tokens = np.fromfile(path, dtype, offset=256 * 4)
    assert len(tokens) == header[2]
    print(json.dumps(tokens.tolist()))


def table(path):
    import pyarrow.parquet

    rows = pyarrow.parquet.read_table(path).to_pylist()
    print(json.dumps([{**row, "digest": row["digest"].hex()} for row in rows]))


def digests(*documents):
    import xxhash

    print(json.dumps([xxhash.xxh3_128_hexdigest(bytes.fromhex(document)) for document in documents]))


if __name__ == "__main__":
    commands = {"write": write, "read": read, "datatrove": datatrove, "llmc": llmc, "table": table, "digests": digests}
    commands[sys.argv[1]](*sys.argv[2:])
