"""Reads and writes files with pyarrow, DuckDB, polars and Hugging Face's datasets, for the tests in Rust.

names FILE...              a JSON object: for each file the names of its columns, or null where pyarrow refuses it
compare JSON               of each [file, ours, columns] compares the columns of a Parquet file with those of an Arrow file
foreign FOLDER             writes a table of every type there, in many ways
loads FILE...              loads them with Hugging Face's datasets
written PARQUET ARROW STREAM  checks files that packhorse wrote against the samples of `interop.rs`
"""

import datetime
import json
import math
import sys

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc
import pyarrow.parquet as pq


def read(path):
    return pq.read_table(path, coerce_int96_timestamp_unit="us", use_threads=False)


def names(paths):
    found = {}
    for path in paths:
        try:
            found[path] = [[f.name, str(f.type)] for f in pq.ParquetFile(path).schema_arrow]
        except Exception:
            found[path] = None
    print(json.dumps(found))


def column(table, name):
    """The column a.b.c, null where a struct around it is."""
    for i, field in enumerate(table.schema):
        if field.name == name:
            return table.column(i).combine_chunks()
        if name.startswith(field.name + ".") and pa.types.is_nested(field.type):
            return inner(table.column(i).combine_chunks(), name[len(field.name) + 1 :])
    raise KeyError(name)


def inner(array, name):
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks)
    if pa.types.is_map(array.type):
        first, _, rest = name.partition(".")
        values = {"key": array.keys, "value": array.items}[first]
        return lists(array, inner(values, rest) if rest else values)
    if pa.types.is_fixed_size_list(array.type):
        return pa.FixedSizeListArray.from_arrays(inner(array.flatten(), name), array.type.list_size)
    if pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
        return lists(array, inner(array.values, name))
    for part, values in zip(array.type, array.flatten()):
        if part.name == name:
            return values
        if name.startswith(part.name + "."):
            return inner(values, name[len(part.name) + 1 :])
    raise KeyError(name)


def lists(array, values):
    """Lists of `values` where `array` has lists or maps."""
    kind = pa.LargeListArray if pa.types.is_large_list(array.type) else pa.ListArray
    return kind.from_arrays(array.offsets, values, mask=array.is_null())


def plain(array):
    """Python values in which times are integers and decimals text."""
    kind = array.type
    if pa.types.is_timestamp(kind) or pa.types.is_time64(kind) or pa.types.is_duration(kind) or pa.types.is_date64(kind):
        return array.view(pa.int64()).to_pylist()
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        return array.view(pa.int32()).to_pylist()
    if pa.types.is_decimal(kind):
        return [None if v is None else format(v, "f") for v in array.to_pylist()]
    return array.to_pylist()


def is_time(kind):
    return any(f(kind) for f in (pa.types.is_timestamp, pa.types.is_time, pa.types.is_date, pa.types.is_duration))


def equal(a, b):
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(equal, a, b))
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or (a == b and math.copysign(1, a) == math.copysign(1, b))
    return a == b


def compare(jobs):
    print(json.dumps({path: compared(path, made, columns) for path, made, columns in jobs}))


def compared(path, file, columns):
    mine = pa.ipc.open_file(file).read_all()
    found = {}
    for name in columns:
        try:
            theirs = column(read(path), name)
        except Exception as error:
            found[name] = "pyarrow fails: " + str(error).split("\n")[0][:70]
            continue
        made = mine.column(name).combine_chunks()
        same = equal(plain(made), plain(theirs)) and (not is_time(theirs.type) or made.type == theirs.type)
        found[name] = "equal" if same else f"DIFFERS from {theirs.type}"
    return found


def written(parquet, arrow, stream):
    import tempfile

    import datasets
    import duckdb
    import polars

    datasets.disable_progress_bars()
    table = pq.read_table(parquet)
    n = table.num_rows
    assert n == 250, n
    expected = {
        "__key__": [f"a/{i:04}" for i in range(n)],
        "cls": [i % 3 for i in range(n)],
        "txt": ["ä" * (i % 7) for i in range(n)],
        "v": [[i + j * 0.5 for j in range(3)] for i in range(n)],
        "m": [[[(i + j) % 256 for j in range(2 * r, 2 * r + 2)] for r in range(2)] for i in range(n)],
        "l": [list(range(i % 4)) for i in range(n)],
        "bin": [bytes([i % 256]) * (i % 9) for i in range(n)],
        "h": [i / 2 for i in range(n)],
        "r": [None if i % 3 == 1 else {"data": [float(i)] * (i % 5), "shape": [i % 5]} for i in range(n)],
        "when": [datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=i * 10**12 + 7) for i in range(n)],
        "second": [datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=i * 10**6) for i in range(n)],
    }
    tables = {
        "pyarrow": table,
        "pyarrow ipc file": pa.ipc.open_file(arrow).read_all(),
        "pyarrow ipc stream": pa.ipc.open_stream(stream).read_all(),
        "polars": polars.read_parquet(parquet).to_arrow(),
        "polars ipc": polars.read_ipc(arrow).to_arrow(),
        "duckdb": duckdb.sql(f"select * from '{parquet}'").to_arrow_table(),
    }
    for who, table in tables.items():
        assert set(expected) < set(table.column_names), (who, table.column_names)
        for name, values in expected.items():
            assert table.column(name).to_pylist() == values, (who, name)
        images = table.column("img.png").to_pylist()
        assert [i["path"] for i in images] == [f"a/{i:04}.img.png" for i in range(n)], who
        assert all(i["bytes"][:4] == b"\x89PNG" for i in images), who

    where = duckdb.sql(f"select count(*) from '{parquet}' where __key__ = 'a/0123'").fetchall()
    assert where == [(1,)], where
    meta = pq.ParquetFile(parquet).metadata
    assert meta.num_row_groups == 3 and meta.created_by.startswith("packhorse-parquet version"), meta
    group = meta.row_group(0)
    by_path = {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}
    image = by_path["img.png.bytes"]
    assert image.compression == "UNCOMPRESSED" and not image.has_dictionary_page and image.statistics is None, image
    assert image.has_offset_index, image
    key = by_path["__key__"]
    assert 0 < key.bloom_filter_length < 1000, key.bloom_filter_length
    vector = by_path["v.list.item"]
    assert "BYTE_STREAM_SPLIT" in vector.encodings and vector.compression == "ZSTD", vector

    with tempfile.TemporaryDirectory() as cache:
        for kind, path in [("parquet", parquet), ("arrow", arrow), ("arrow", stream)]:
            loaded = datasets.load_dataset(kind, data_files=path, split="train", cache_dir=f"{cache}/{path[-6:]}")
            features = loaded.features
            assert features["img.png"] == datasets.Image(), (path, features)
            assert features["cls"] == datasets.ClassLabel(names=["cat", "dog", "cow"]), features
            assert features["cls"].int2str(loaded[4]["cls"]) == "dog"
            assert features["v"] == datasets.List(datasets.Value("float32"), length=3), features
            assert loaded[7]["img.png"].size == (2, 1), loaded[7]
            for name, values in expected.items():
                assert loaded.select_columns([name])[:][name] == values, (path, name)
            assert loaded.with_format("numpy")[3]["m"].shape == (2, 2)
        stream_of = datasets.load_dataset("parquet", data_files=parquet, split="train", streaming=True)
        assert next(iter(stream_of))["img.png"].size == (2, 1)
    print("ok")


def foreign(folder):
    """A table of every supported type, as others write it: x.parquet, and Arrow files and streams."""
    import decimal

    import pyarrow.feather

    n = 1000
    missing = [None if i % 7 == 3 else i for i in range(n)]
    day = datetime.datetime(2020, 1, 2, 3, 4, 5, 678901)
    table = pa.table(
        {
            "i8": pa.array([None if v is None else v % 100 for v in missing], pa.int8()),
            "u64": pa.array([2**64 - 1 - i for i in range(n)], pa.uint64()),
            "f16": pa.array([i / 4 for i in range(n)], pa.float16()),
            "bool": pa.array([None if v is None else v % 2 == 0 for v in missing]),
            "text": pa.array([None if v is None else "ä" * (v % 30) for v in missing]),
            "large": pa.array([f"a longer text of row {i}" for i in range(n)], pa.large_string()),
            "view": pa.array([f"a longer text of row {i}" for i in range(n)], pa.string_view()),
            "blob": pa.array([bytes([i % 256]) * (i % 40) for i in range(n)], pa.large_binary()),
            "fixed": pa.array([None if v is None else f"{v:04}".encode() for v in missing], pa.binary(4)),
            "category": pa.array([None if v is None else f"class {v % 5}" for v in missing]).dictionary_encode(),
            "day": pa.array([None if v is None else v for v in missing], pa.int32()).cast(pa.date32()),
            "zoned": pa.array([day + datetime.timedelta(hours=i) for i in range(n)], pa.timestamp("us", "Europe/Paris")),
            "ns": pa.array(missing, pa.int64()).cast(pa.timestamp("ns")),
            "time": pa.array([i * 1000 for i in range(n)], pa.int64()).cast(pa.time64("us")),
            "span": pa.array(missing, pa.int64()).cast(pa.duration("ms")),
            "money": pa.array([decimal.Decimal(i) / 100 for i in range(n)], pa.decimal128(12, 2)),
            "list": pa.array([None if v is None else list(range(v % 5)) for v in missing], pa.list_(pa.int32())),
            "lists": pa.array([[["x"] * (j + 1) for j in range(i % 3)] for i in range(n)], pa.large_list(pa.list_(pa.string()))),
            "vector": pa.array([None if v is None else [v, 1.5] for v in missing], pa.list_(pa.float64(), 2)),
            "matrix": pa.array([[[i, 1], [2, 3], [4, 5]] for i in range(n)], pa.list_(pa.list_(pa.int16(), 2), 3)),
            "vectors": pa.array([[[float(i), 1.0]] * (i % 3) for i in range(n)], pa.list_(pa.list_(pa.float32(), 2))),
            "part": pa.array([{"a": i, "b": {"c": str(i)}} for i in range(n)]),
            "objects": pa.array(
                [None if v is None else [{"id": v + j, "box": [v, j, 1.5, 2.0], "tags": ["a"] * j} for j in range(v % 4)] for v in missing],
                pa.list_(pa.struct({"id": pa.int64(), "box": pa.list_(pa.float32(), 4), "tags": pa.list_(pa.string())})),
            ),
            "pair": pa.array([[{"x": i, "y": {"z": str(j)}} for j in range(2)] for i in range(n)], pa.list_(pa.struct({"x": pa.int16(), "y": pa.struct({"z": pa.string()})}), 2)),
            "counts": pa.array([None if v is None else [(f"k{j}", v + j) for j in range(v % 3)] for v in missing], pa.map_(pa.string(), pa.int32())),
            "groups": pa.array([[[{"n": i + j}] * j for j in range(i % 3)] for i in range(n)], pa.large_list(pa.list_(pa.struct({"n": pa.int32()})))),
            "days": pa.array([[i, i + 1] for i in range(n)], pa.list_(pa.date32())),
        }
    )
    pq.write_table(table, f"{folder}/x.parquet", row_group_size=300)
    pq.write_table(table, f"{folder}/indexed.parquet", row_group_size=300, write_page_index=True, data_page_size=200)
    for name, options in [("plain", {}), ("lz4", {"compression": "lz4"}), ("zstd", {"compression": "zstd"})]:
        options = pa.ipc.IpcWriteOptions(**options)
        with pa.ipc.new_file(f"{folder}/{name}.arrow", table.schema, options=options) as out:
            out.write_table(table, 300)
        with pa.ipc.new_stream(f"{folder}/{name}.stream", table.schema, options=options) as out:
            out.write_table(table, 300)
    pa.feather.write_feather(table, f"{folder}/x.feather")
    print(json.dumps(table.column_names))


def loads(paths):
    """Checks that every file loads in Hugging Face's datasets with readable rows."""
    import tempfile

    import datasets

    datasets.disable_progress_bars()
    with tempfile.TemporaryDirectory() as cache:
        for i, path in enumerate(paths):
            kind = "parquet" if path.endswith(".parquet") else "arrow"
            loaded = datasets.load_dataset(kind, data_files=path, split="train", cache_dir=f"{cache}/{i}")
            # The blobs named jpg are not images, so they can't be decoded.
            shown = [name for name in loaded.column_names if name != "jpg"]
            assert len(loaded.select_columns(shown)[:]["__key__"]) == 23, path
    print("ok")


def main():
    command, *rest = sys.argv[1:]
    if command == "names":
        names(rest)
    elif command == "compare":
        compare(json.loads(rest[0]))
    elif command == "written":
        written(*rest)
    elif command == "foreign":
        foreign(rest[0])
    elif command == "loads":
        loads(rest)
    else:
        raise SystemExit(f"no command {command}")


main()
