"""Checks of a TFRecord file by third-party code, and files that it writes.

check.py read DATA INDEX ... checksums, index, protobuf; prints the features of a file's records a line as JSON
check.py write FOLDER        writes files with the package tfrecord
check.py dali DATA INDEX     labels and sizes of images as NVIDIA DALI reads them
"""

import gzip
import json
import struct
import sys
import zlib

TABLE = []
for n in range(256):
    for _ in range(8):
        n = (n >> 1) ^ 0x82F63B78 if n & 1 else n >> 1
    TABLE.append(n)


def masked(data):
    """CRC-32C from its polynomial, masked as in TensorFlow."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    crc ^= 0xFFFFFFFF
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def frames(data):
    at = 0
    while at < len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        assert struct.unpack_from("<I", data, at + 8)[0] == masked(data[at : at + 8])
        record = data[at + 12 : at + 12 + length]
        assert struct.unpack_from("<I", data, at + 12 + length)[0] == masked(record)
        yield at, length + 16, record
        at += length + 16


def features(example):
    out = {}
    for name, feature in sorted(example.features.feature.items()):
        kind = feature.WhichOneof("kind")
        values = list(getattr(feature, kind).value)
        out[name] = [kind, [v.hex() if kind == "bytes_list" else v for v in values]]
    return out


def serialize(example_pb2, example):
    """As protobuf serialises, with entries sorted by name: upb puts "x.shape" before "x"."""
    entries = []
    for name in sorted(example.features.feature, key=str.encode):
        one = example_pb2.Features()
        one.feature[name].CopyFrom(example.features.feature[name])
        entries.append(one.SerializeToString(deterministic=True))
    whole = example_pb2.Example(features=example_pb2.Features())
    empty = whole.SerializeToString()
    assert empty == b"\n\0"
    entries, length = b"".join(entries), []
    n = len(entries)
    while n >= 128:
        length.append(n & 127 | 128)
        n >>= 7
    return b"\n" + bytes(length + [n]) + entries


def read(*paths):
    for path, index in zip(paths[::2], paths[1::2]):
        print(json.dumps(list(read_one(path, index))))


def read_one(path, index):
    from tfrecord import example_pb2, reader
    from tfrecord.tools.tfrecord2idx import create_index

    packed = path.endswith(".gz")
    data = gzip.open(path).read() if packed else open(path, "rb").read()
    records = list(frames(data))
    if not packed:
        create_index(path, index + ".theirs")
        assert open(index).read() == open(index + ".theirs").read(), "another index than tfrecord2idx"
    theirs = reader.tfrecord_iterator(path, compression_type="gzip" if packed else None)
    theirs = [bytes(record) for record in theirs]
    assert theirs == [record for _, _, record in records]
    for record in theirs:
        example = example_pb2.Example.FromString(record)
        again = serialize(example_pb2, example)
        assert again == record, f"other bytes than protobuf:\n{record}\n{again}"
        yield features(example)
    for loaded in reader.tfrecord_loader(path, None, None, compression_type="gzip" if packed else None):
        assert loaded


def write(folder):
    from tfrecord.writer import TFRecordWriter

    path = folder + "/theirs.tfrecord"
    writer = TFRecordWriter(path)
    for i in range(50):
        writer.write(
            {
                "image": (bytes([i, 255]) * i, "byte"),
                "label": (i - 25, "int"),
                "box": ([i, -i, 1 << 40, 0], "int"),
                "scores": ([0.5 * j for j in range(i % 4)], "float"),
                "weight": (i / 4, "float"),
            }
        )
    writer.close()
    sequences = TFRecordWriter(folder + "/sequences.tfrecord")
    for i in range(6):
        frames, scores = [bytes([200, step, i]) for step in range(i)], [[0.5 * step, 1.0, 2.0] for step in range(i)]
        steps = {"rgb": (frames, "byte"), "scores": (scores, "float"), "label": (list(range(i)), "int")}
        sequences.write({"id": (i, "int")}, steps)
    sequences.close()
    data = open(path, "rb").read()
    with gzip.open(folder + "/theirs.gz.tfrecord", "wb") as out:
        out.write(data)
    with open(folder + "/theirs.zlib.tfrecord", "wb") as out:
        out.write(zlib.compress(data))


def dali(path, index):
    from nvidia.dali import fn, pipeline_def
    import nvidia.dali.tfrecord as tfrec

    @pipeline_def(batch_size=4, num_threads=1, device_id=None)
    def pipeline():
        inputs = fn.readers.tfrecord(
            path=path,
            index_path=index,
            features={
                "jpg": tfrec.FixedLenFeature((), tfrec.string, ""),
                "cls": tfrec.FixedLenFeature([1], tfrec.int64, -1),
            },
        )
        return inputs["jpg"], inputs["cls"]

    pipe = pipeline()
    pipe.build()
    seen = []
    size = pipe.epoch_size()
    size = list(size.values())[0] if isinstance(size, dict) else size
    while len(seen) < size:
        jpg, cls = pipe.run()
        for i in range(4):
            seen.append([int(cls.at(i)[0]), len(jpg.at(i))])
    print(json.dumps(seen[:size]))


if __name__ == "__main__":
    {"read": read, "write": write, "dali": dali}[sys.argv[1]](*sys.argv[2:])
