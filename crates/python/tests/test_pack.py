"""Packing, writing, converting, checking, and the errors of all that."""

import datetime
import decimal
import io
import json
import pickle
import struct
import tarfile
import time
import warnings

import numpy as np
import packhorse
import pytest
from conftest import labels, mixed, numbered, picture, run_well, write
from PIL import Image


@pytest.fixture
def files(tmp_path):
    """A folder of 20 texts in two folders, which name their classes."""
    for number in range(20):
        folder = tmp_path / "in" / ("cat" if number % 2 else "dog")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"i{number:02}.txt").write_text(f"text {number} " * 50)
    return tmp_path / "in"


SETTINGS = {"to": "webdataset", "labels": "folders", "shuffle": 3, "samples_per_shard": 6}


def test_a_dataset_takes_more(files, tmp_path):
    """Old samples come first; the same call again changes nothing."""
    out = tmp_path / "out"
    first = packhorse.pack(files, out, **SETTINGS)
    files.rename(tmp_path / "may")
    more = tmp_path / "more"
    more.mkdir()
    (tmp_path / "may").rename(more / "may")
    old = packhorse.open(out)
    packed = packhorse.append(out, more, labels="parent")
    assert packed.samples == 20 and packed.shards == 4 and packed.root != first.root
    assert packhorse.append(out, [more], labels="parent").root == packed.root
    grown = packhorse.open(out)
    assert len(grown) == 40 and grown[0]["__key__"] == old[0]["__key__"]
    with pytest.raises(packhorse.ConfigError, match="the dataset has a sample with this key"):
        packhorse.append(out, more, labels="parent", limit=3)
    with pytest.raises(TypeError, match="append takes paths"):
        packhorse.append(out, iter([]))


# --- Writer -----------------------------------------------------------------------------------------------------------


def test_webdataset_reads_what_was_written(tmp_path):
    """WebDataset: text and numbers as text, JSON as JSON, arrays as .npy, bytes as they are."""
    wds = pytest.importorskip("webdataset")
    pixels = picture(3)
    png = io.BytesIO()
    Image.fromarray(pixels).save(png, "PNG")
    with packhorse.Writer(tmp_path / "out", to="webdataset", samples_per_shard=2) as writer:
        for number in range(5):
            writer.write(
                {
                    "__key__": f"a/k{number}",
                    "cls": number,
                    "txt": f"é {number}",
                    "json": {"n": [number, None]},
                    "npy": np.arange(4, dtype=np.int16).reshape(2, 2) * number,
                    "png": png.getvalue(),
                    "bin": bytearray([number]),
                    "score.txt": number / 8,
                }
            )
        assert writer.samples == 5
        assert writer.packed is None
    assert writer.packed.samples == 5
    assert writer.packed.shards == 3
    tars = sorted(map(str, (tmp_path / "out").glob("*.tar")))
    assert len(tars) == 3
    samples = list(wds.WebDataset(tars, shardshuffle=False).decode("rgb8"))
    for number, sample in enumerate(samples):
        assert sample["__key__"] == f"a/k{number}"
        assert sample["cls"] == number
        assert sample["txt"] == f"é {number}"
        assert sample["json"] == {"n": [number, None]}
        assert sample["npy"].dtype == np.int16
        assert sample["npy"].tolist() == [[0, number], [2 * number, 3 * number]]
        np.testing.assert_array_equal(sample["png"], pixels)
        assert sample["bin"] == bytes([number])
        assert float(sample["score.txt"]) == number / 8
    assert len(samples) == 5


def test_samples_without_keys(tmp_path):
    """A sample without a key has its number."""
    dataset = write(tmp_path / "out", ({"cls": n} for n in range(3)))
    assert dataset.keys == ["000000000", "000000001", "000000002"]


def test_a_row_of_what_is_not_supported_costs_itself(tmp_path):
    """A null inside a list, and a null struct, cost their rows with `on_error="skip"`, not those behind them."""
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    rows = 2000
    lists = pa.array([[1, None] if n in (700, 1500) else [n] for n in range(rows)])
    structs = pa.array([None if n == 900 else {"a": n, "b": str(n)} for n in range(rows)])
    for name, values, bad in (("lists", lists, {700, 1500}), ("structs", structs, {900})):
        for groups in (300, rows):
            table = pa.table({"x": values, "v": range(rows)})
            pyarrow.parquet.write_table(table, tmp_path / f"{name}.parquet", row_group_size=groups)
            out = tmp_path / f"{name}-{groups}"
            packed = packhorse.pack(tmp_path / f"{name}.parquet", out, to="parquet", on_error="skip")
            assert packed.skipped == len(bad)
            found = packhorse.open(out).batch(range(rows - len(bad)), {"v": "v"})["v"].tolist()
            assert sorted(found) == [n for n in range(rows) if n not in bad]


def test_columns_of_one_unit_are_one(tmp_path):
    """Files whose times count other units, or are of another kind, are not opened together: their values would be others."""
    pa = pytest.importorskip("pyarrow")
    import datetime

    import pyarrow.parquet

    noon, day = datetime.datetime(2024, 5, 1, 12), datetime.date(2024, 5, 1)
    kinds = [
        pa.array([noon], pa.timestamp("ms")), pa.array([noon], pa.timestamp("us")), pa.array([noon], pa.timestamp("us", "Asia/Tokyo")),
        pa.array([day], pa.date32()), pa.array([5], pa.duration("us")), pa.array([5], pa.time64("us")), pa.array([b"12345678"], pa.binary(8)),
    ]
    for number, values in enumerate(kinds):
        pyarrow.parquet.write_table(pa.table({"t": values}), tmp_path / f"{number}.parquet")
    opened = [packhorse.open(tmp_path / f"{number}.parquet") for number in range(len(kinds))]
    for first in range(len(kinds)):
        for second in range(len(kinds)):
            if first == second:
                assert len(packhorse.concat([opened[first], opened[second]])) == 2
                continue
            with pytest.raises(packhorse.ConfigError, match="field t is"):
                packhorse.concat([opened[first], opened[second]])
    with pytest.raises(packhorse.ConfigError, match="field t is"):
        packhorse.open(tmp_path / "[01].parquet")


@pytest.mark.parametrize("to", ["parquet", "arrow", "hdf5", "tfrecord", "webdataset"])
def test_lists_of_text(tmp_path, to):
    """Lists of text are stored as such, empty and missing ones too; a tar has arrays of text."""
    samples = [{"x": 1, "tags": ["a", "bé"]}, {"x": 2, "tags": []}, {"x": 3, "tags": ("c",)}, {"x": 4}]
    packhorse.pack(iter(samples), tmp_path / "out", to=to, columns={"more": "str[]"})
    ds = packhorse.open(tmp_path / "out")
    if to == "webdataset":
        found = [list(np.load(io.BytesIO(ds[n]["tags.npy"]))) for n in range(3)]
    else:
        found = [ds[n]["tags"] for n in range(3)]
    assert found == [["a", "bé"], [], ["c"]]
    assert not any(name.startswith("tags") for name in ds[3])
    for odd, named in [([{"t": ["a"]}, {"t": [1]}], "list of text"), ([{"t": ["a"]}, {"t": "b"}], "list of text")]:
        with pytest.raises(packhorse.ContentError, match=named):
            packhorse.pack(iter(odd), tmp_path / "odd", to="parquet")
    with pytest.raises(packhorse.ContentError, match="empty array"):
        packhorse.pack(iter([{"x": 1, "i": [1]}, {"x": 2}]), tmp_path / "odd", to="parquet", columns={"i": "int64[]"})


@pytest.mark.parametrize("to", ["parquet", "arrow"])
def test_pyarrow_reads_what_was_written(tmp_path, to):
    """Parquet and Arrow files have columns of the values' own types."""
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    write(tmp_path / "out", mixed(10), to=to, samples_per_shard=4)
    shards = sorted((tmp_path / "out").glob(f"*.{to}"))
    assert len(shards) == 3
    if to == "parquet":
        tables = [pyarrow.parquet.read_table(shard) for shard in shards]
    else:
        tables = [pa.ipc.open_file(shard).read_all() for shard in shards]
    rows = [row for table in tables for row in table.to_pylist()]
    for row, sample in zip(rows, mixed(10), strict=True):
        assert {name: row[name] for name in sample if name != "grid"} == {
            name: sample[name] for name in sample if name != "grid"
        }
        assert np.array(row["grid"]).ravel().tolist() == sample["grid"].ravel().tolist()
    assert tables[0].schema.field("x").type == pa.int64()
    assert tables[0].schema.field("y").type == pa.float64()
    assert tables[0].schema.field("flag").type == pa.bool_()


def test_h5py_reads_what_was_written(tmp_path):
    """HDF5 files have datasets of the values' own types."""
    h5py = pytest.importorskip("h5py")
    samples = ({name: s[name] for name in ("__key__", "x", "y", "grid", "text")} for s in mixed(10))
    write(tmp_path / "out", samples, to="hdf5")
    (shard,) = (tmp_path / "out").glob("shard-000000.h*5")
    with h5py.File(shard) as file:
        assert file["data/x"].dtype == np.int64
        assert file["data/x"][:].tolist() == list(range(10))
        assert file["data/y"][:].tolist() == [n / 4 for n in range(10)]
        np.testing.assert_array_equal(file["data/grid"][:], np.stack([s["grid"] for s in mixed(10)]))
        assert file["data/grid"].dtype == np.float32


def test_an_exception_leaves_nothing(tmp_path):
    """A `with` that ends by an exception leaves no dataset, and the place can be used again."""
    out = tmp_path / "out"
    with pytest.raises(LookupError, match="mine"):
        with packhorse.Writer(out, samples_per_shard=100) as writer:
            for sample in numbered(1000):
                writer.write(sample)
            raise LookupError("mine")
    assert writer.packed is None
    assert not out.exists() or not any(path.suffix in (".tar", ".json") for path in out.rglob("*"))
    with pytest.raises(packhorse.ConfigError):
        writer.write({"cls": 1})
    assert sorted(labels(write(out, numbered(10)).loader(5))) == list(range(10))


def test_a_generator_that_raises_leaves_nothing(tmp_path):
    """An exception of a generator ends the packing and leaves no dataset."""

    def samples():
        yield from numbered(700)
        raise LookupError("mine")

    with pytest.raises(LookupError):
        packhorse.pack(samples(), tmp_path / "out")
    assert not list(tmp_path.rglob("*.tar"))


@pytest.mark.parametrize("to", ["webdataset", "arrow", "parquet", "hdf5", "tfrecord"])
def test_a_sample_that_does_not_fit_is_left_out(tmp_path, to):
    """A sample with another type, shape or field is refused by its name, whole; the others go on."""
    good = [{"__key__": f"k{n}", "a": np.full(3, n, np.float32), "b": n} for n in range(4)]
    wrong = [
        {"__key__": "w0", "b": 9, "a": np.zeros(4, np.float32)},
        {"__key__": "w1", "a": np.zeros(3, np.float64), "b": 9},
        {"__key__": "w2", "a": np.zeros(3, np.float32), "b": 9, "c": 1},
    ]
    if to != "webdataset":
        wrong += [
            {"__key__": "w3", "a": np.zeros(3, np.float32), "b": "nine"},
            {"__key__": "w4", "a": np.zeros(3, np.float32)},
        ]
    with packhorse.Writer(tmp_path / "out", to=to) as writer:
        writer.write(good[0])
        for bad in wrong:
            with pytest.raises((packhorse.ContentError, TypeError, ValueError)) as raised:
                writer.write(bad)
            if isinstance(raised.value, packhorse.Error):
                assert raised.value.sample == bad["__key__"]
            assert writer.samples == 1
        for sample in good[1:]:
            writer.write(sample)
    dataset = packhorse.open(tmp_path / "out")
    assert dataset.keys == [sample["__key__"] for sample in good]
    name = "a.npy" if to == "webdataset" else "a"
    np.testing.assert_array_equal(dataset.batch(range(4))[name], np.stack([sample["a"] for sample in good]))


def test_columns_that_the_first_sample_lacks(tmp_path):
    """`columns` names fields that samples may have beyond those of the first."""
    samples = [{"a": b"1"}, {"a": b"2", "t": "two"}, {"a": None, "t": None}]
    dataset = write(tmp_path / "out", samples, to="parquet", columns={"t": "str"})
    assert [sample.get("t") for sample in dataset] == [None, "two", None]
    with pytest.raises(packhorse.ConfigError):
        packhorse.Writer(tmp_path / "other", columns={"t": "string of text"})


@pytest.mark.parametrize("to", ["parquet", "arrow"])
def test_numbers_that_samples_lack(tmp_path, to):
    """`columns` says the type of numbers, which may be missing, and whole numbers become floats there."""
    samples = [{"a": 1}, {"a": None, "b": 2, "c": True}, {"b": None}, {"a": 0.5, "c": False}]
    columns = {"a": "float32", "b": "uint8", "c": "bool"}
    dataset = write(tmp_path / "out", samples, to=to, columns=columns)
    assert [sample.get("a") for sample in dataset] == [1, None, None, 0.5]
    assert [sample.get("b") for sample in dataset] == [None, 2, None, None]
    assert [sample.get("c") for sample in dataset] == [None, True, None, False]
    with pytest.raises(packhorse.ContentError, match="field b .*256"):
        write(tmp_path / "large", [{"b": 256}], to=to, columns=columns)
    with pytest.raises(packhorse.ContentError, match="was UInt8 before"):
        write(tmp_path / "half", [{"b": 0.5}], to=to, columns=columns)


def test_plain_numbers_need_no_numpy(tmp_path):
    """Numbers of Python are written without NumPy, which would be slower and may not be there."""
    code = """
        import sys, packhorse
        packhorse.pack([{"a": 1, "b": 0.5, "c": True}, {"a": 2**62, "b": -1.0, "c": False}], sys.argv[1], to="parquet")
        assert "numpy" not in sys.modules
        assert [list(sample.values())[1:] for sample in packhorse.open(sys.argv[1])] == [[1, 0.5, True], [2**62, -1.0, False]]
    """
    run_well(code, tmp_path / "out")


def test_numbers_are_text_in_webdataset(tmp_path):
    """With and without a declared type."""
    dataset = write(tmp_path / "out", [{"cls": 1}, {"cls": 2, "w": 3, "t": "x"}], columns={"w": "int64", "t": "str"})
    assert [sample.get("w") for sample in dataset] == [None, b"3"]
    assert dataset.batch([1], {"w": packhorse.Number()})["w"].tolist() == [3]
    # Numbers of NumPy are numbers too.
    numbers = {"cls": np.int64(7), "score": np.float32(0.1), "flag": np.bool_(True), "n": np.array(5), "x": np.float64(0.5)}
    dataset = write(tmp_path / "numpy", [numbers, {"cls": 8, "score": 0.25, "flag": False, "n": 6, "x": 1}])
    score = str(float(np.float32(0.1))).encode()
    # Times and masked values are not numbers: they become arrays of their types, or are refused.
    for odd in (np.datetime64("2024-01-01", "ns"), np.longdouble(1)):
        try:
            stored = write(tmp_path / f"odd-{type(odd).__name__}", [{"x": odd}])[0]
            assert "x.npy" in stored, stored
        except packhorse.Error:
            pass
    with pytest.raises(packhorse.Error):
        write(tmp_path / "masked", [{"x": np.ma.masked}])
    assert dataset[0] | {"__key__": ""} == {"__key__": "", "cls": b"7", "score": score, "flag": b"1", "n": b"5", "x": b"0.5"}
    assert dataset.batch([0, 1], {"s": packhorse.Number("score", "float32")})["s"].tolist() == [np.float32(0.1), 0.25]


@pytest.mark.parametrize("to", ["parquet", "hdf5", "webdataset"])
def test_lists_may_be_empty(tmp_path, to):
    lists = [[1, 2], [], [3], []]
    packhorse.pack(iter([{"h": h} for h in lists]), tmp_path / "some", to=to, ragged=True)
    packhorse.pack(iter([{"h": h} for h in lists[1:]]), tmp_path / "none", to=to, columns={"h": "int64[]"})
    for out, wanted in [("some", lists), ("none", lists[1:])]:
        dataset = packhorse.open(tmp_path / out)
        name = "h.npy" if to == "webdataset" else "h"
        assert dataset.batch(range(len(wanted)), {"h": packhorse.Ragged(name)})["h"].tolist() == wanted
    out = tmp_path / "narrow"
    samples = [{"f": [0.5, 1], "i": [1, 2], "d": [1]}, {"f": [2], "i": [], "d": [0.1]}]
    packhorse.pack(iter(samples), out, to=to, columns={"f": "float32[]", "i": "int8[]", "d": "float64[]"})
    if to == "parquet":
        batch = packhorse.open(out).batch([0, 1], {name: packhorse.Ragged(name) for name in "fid"})
        assert [str(batch[name].values.dtype) for name in "fid"] == ["float32", "int8", "float64"]
        assert (batch["f"].tolist(), batch["i"].tolist(), batch["d"].tolist()) == ([[0.5, 1], [2]], [[1, 2], []], [[1], [0.1]])
    for lost in ([300], [0.5]):
        with pytest.raises(packhorse.ContentError, match="field i"):
            packhorse.pack(iter([{"i": lost}]), tmp_path / "lost", to=to, columns={"i": "int8[]"})
    with pytest.raises(packhorse.Error, match=r"lists of one, such as int64\[\]"):
        packhorse.pack(iter([{"h": [1]}]), tmp_path / "other", to=to, columns={"h": "int[]"})


@pytest.mark.parametrize("empty", [[], np.array([], "f8"), np.zeros((0, 4))])
def test_pictures_without_boxes(tmp_path, empty):
    """Without elements a list does not tell how deep it is: its other dimensions are those of the arrays with elements."""
    samples = [{"boxes": [[1.0, 2, 3, 4]]}, {"boxes": empty}, {"boxes": [[5.0, 6, 7, 8]] * 2}]
    packhorse.pack(iter(samples), tmp_path / "out", to="parquet", ragged=True)
    boxes = packhorse.open(tmp_path / "out").batch([0, 1, 2], {"boxes": packhorse.Ragged("boxes")})["boxes"]
    assert [boxes[row].shape for row in range(3)] == [(1, 4), (0, 4), (2, 4)]
    packhorse.pack(iter(samples[1:]), tmp_path / "typed", to="parquet", columns={"boxes": "float64[][]"})
    with pytest.raises(packhorse.ContentError, match="same number of dimensions"):
        packhorse.pack(iter([samples[0], {"boxes": [1.0, 2]}]), tmp_path / "flat", to="parquet", ragged=True)


def test_an_empty_list_says_no_type(tmp_path):
    with pytest.raises(packhorse.ContentError, match="empty list in the first sample") as error:
        packhorse.pack(iter([{"tags": []}, {"tags": ["x"]}]), tmp_path / "out", to="parquet", ragged=True)
    assert '{"tags": "float32[]"}' in error.value.hint and '"str[]"' in error.value.hint
    packhorse.pack(iter([{"tags": []}, {"tags": ["x"]}]), tmp_path / "out", to="parquet", columns={"tags": "str[]"})


def test_false_is_an_answer():
    """Settings that are on by default are off where they are False."""
    from packhorse._pack import split_settings

    asked = {"parse_special": False, "byte_shuffle": False, "orient": False, "fill_missing": True}
    wanted = [("parse-special", ["no"]), ("byte-shuffle", ["off"]), ("fill-missing", ["true"])]
    assert split_settings(asked)[0] == wanted
    assert split_settings({"parse_special": True})[0] == [("parse-special", ["yes"])]


def test_what_open_can_not_read_is_said(tmp_path):
    """Fields of other programs' files that can't be read are left out with a warning, and errors name the settings of `open`."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "in.h5", "w") as file:
        file["x"] = np.arange(3)
        file["link"] = np.array([file["x"].ref] * 3, dtype=h5py.ref_dtype)
    with pytest.warns(UserWarning, match="can't be read are left out: link"):
        dataset = packhorse.open(tmp_path / "in.h5")
    assert list(dataset.omitted) == ["link"] and list(dataset.fields) == ["x"]
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"x": [1], "s": [[{"a": b"1"}]], "d": [[[None, 1]]]}), tmp_path / "in.parquet")
    with pytest.raises(packhorse.Error, match=r'read=\{"unsupported": "skip"\}') as error:
        len(packhorse.open(tmp_path / "in.parquet")[0])
    assert "pack(…, drop=" in str(error.value)
    pq.write_table(pa.table({"x": [1], "v": [[None, 1.0]]}), tmp_path / "nulls.parquet")
    for read in (lambda dataset: dataset[0], lambda dataset: next(iter(dataset.loader(1)))):
        with pytest.raises(packhorse.Error, match=r'`packhorse.pack\(…, drop=…\)`, .* `read=\{"unsupported": "skip"\}`'):
            read(packhorse.open(tmp_path / "nulls.parquet"))


def test_strings_of_hdf5_that_are_bytes(tmp_path):
    """h5py writes NumPy's bytes as strings of fixed length, whatever they are."""
    h5py = pytest.importorskip("h5py")
    digests = np.array([bytes([n, 0xFF, 7]) for n in range(1, 4)], "S3")
    pairs = np.array([[b"\xe9", b"ab"], [b"", b"c"], [b"d", b""]], "S2")
    with h5py.File(tmp_path / "in.h5", "w") as file:
        file["digest"], file["pair"], file["n"] = digests, pairs, np.arange(3)
        file["row"] = np.array([(b"\xe9", 1), (b"b", 2), (b"", 3)], [("name", "S3"), ("v", "i4")])
    with pytest.raises(packhorse.ContentError, match="text=bytes"):
        packhorse.pack(tmp_path / "in.h5", tmp_path / "text", to="parquet", progress=False)
    for to in ("parquet", "hdf5", "arrow"):
        packhorse.pack(tmp_path / "in.h5", tmp_path / to, to=to, from_="hdf5", read="text=bytes", progress=False)
        samples = [packhorse.open(tmp_path / to)[n] for n in range(3)]
        assert [sample["digest"] for sample in samples] == list(digests)
        assert [sample["pair"].tolist() for sample in samples] == pairs.tolist()
        assert [(sample["row.name"], sample["row.v"]) for sample in samples] == [(b"\xe9", 1), (b"b", 2), (b"", 3)]


def test_lists_of_large_whole_numbers_stay_as_they_are(tmp_path):
    """NumPy takes whole numbers beyond int64 beside others for floats; hashes and ids are such."""
    for large in ([2**63 + 1, 1], [2**63, 1]):  # of the second NumPy's floats are exact
        for name, columns in (("plain", None), ("named", {"ids": "uint64[]"})):
            samples = iter([{"ids": large, "one": 2**64 - 1}])
            packhorse.pack(samples, tmp_path / f"{name}{large[0]}", to="parquet", columns=columns)
            sample = packhorse.open(tmp_path / f"{name}{large[0]}")[0]
            assert (sample["ids"].tolist(), sample["one"]) == (large, 2**64 - 1)
    packhorse.pack(iter([{"x": [2**53, 2**60]}]), tmp_path / "float", to="parquet", columns={"x": "float64[]"})
    assert packhorse.open(tmp_path / "float")[0]["x"].tolist() == [2.0**53, 2.0**60]
    packhorse.pack(iter([{"x": [float("nan"), float("inf"), 1e300, 5]}]), tmp_path / "odd", to="parquet")
    assert packhorse.open(tmp_path / "odd")[0]["x"].tolist()[1:] == [float("inf"), 1e300, 5]
    for lost in ([2**63 + 1, -1], [2**63 + 1, 0.5], [2**53 + 1, 0.5]):
        with pytest.raises(packhorse.ContentError, match="field x has whole numbers that would be rounded"):
            packhorse.pack(iter([{"x": lost}]), tmp_path / "lost", to="parquet")
    for lost in (2**53 + 1, 2**63 - 1):
        with pytest.raises(packhorse.ContentError, match="field x has a number that does not fit float64"):
            packhorse.pack(iter([{"x": [lost]}]), tmp_path / "lost", to="parquet", columns={"x": "float64[]"})


@pytest.mark.parametrize(
    ("samples", "to", "says"),
    [
        ([{"a": 1}, {"a": "x"}], "parquet", "field a is of type str, and a number, Int64, is wanted"),
        ([{"a": 1}, {"a": 0.5}], "parquet", "field a is Float64, and was Int64 before; convert it, or name its type"),
        ([{"a": 1}, {}], "parquet", "lacks the field a; numbers may be missing where `columns` names their type"),
        ([{"a": None}], "parquet", "field a is None in the first sample"),
        ([{"a": {"b": 1}}], "parquet", "field a is of type dict, which no column holds; .* json.dumps"),
        ([{"a": 2**70}], "parquet", "field a is of type int, which"),
        ([{"a": 1.0}, {"a": 2**53 + 1}], "parquet", "field a is 9007199254740993, which does not fit float64"),
        ([{"a": np.float16(1)}, {"a": 70000.0}], "parquet", "field a is 70000.0, which does not fit float16"),
        ([{"a": np.zeros(3)}, {"a": np.zeros(4)}], "parquet", "give `ragged=True` where shapes differ"),
        ([{"jpg": np.zeros((4, 4, 3), np.uint8)}], "webdataset", "field jpg is named as a picture's file, .* encode it first"),
        ([{"__key__": 5, "a": 1}], "parquet", "the key of sample 0 is of type int, and text is wanted"),
    ],
)
def test_what_a_sample_can_not_hold(tmp_path, samples, to, says):
    """The error names the field and says what to do, and nothing is left."""
    with pytest.raises(packhorse.ContentError, match=says):
        packhorse.pack(samples, tmp_path / "out", to=to)
    assert not (tmp_path / "out").exists()


def test_what_is_no_sample(tmp_path):
    """Sources that are not samples, and samples that are not dictionaries."""
    for source in (5, [("a", 1)], [1, 2], []):
        with pytest.raises((TypeError, ValueError), match="dictionar|nothing to pack"):
            packhorse.pack(source, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_name_says_the_format(tmp_path):
    """As for files; other names mean WebDataset."""
    for name, found in (("x.parquet", "*.parquet"), ("x", "*.tar")):
        packhorse.pack([{"a": 1}], tmp_path / name)
        assert list((tmp_path / name).glob(found))


def test_a_folder_that_was_not_sealed(tmp_path):
    """Is not a dataset; a pattern takes the shards that are there."""
    write(tmp_path / "out", numbered(10))
    (tmp_path / "out" / "dataset.json").unlink()
    with pytest.raises(packhorse.IncompleteError, match="not sealed") as raised:
        packhorse.open(tmp_path / "out")
    assert raised.value.code == "not-sealed" and "status" in raised.value.hint
    assert len(packhorse.open(f"{tmp_path}/out/*.tar")) == 10


def test_class_names(tmp_path):
    """A class list of a writer is that of the dataset."""
    dataset = write(tmp_path / "out", numbered(3), class_names=["zero", "one", "two"])
    assert dataset.classes == ["zero", "one", "two"]


def test_nothing_written(tmp_path):
    """A writer without samples can't know its fields: an error."""
    with pytest.raises(packhorse.ConfigError):
        packhorse.Writer(tmp_path / "out").close()


def test_a_place_in_use(tmp_path):
    """A dataset is not overwritten, unless `replace` is given."""
    write(tmp_path / "out", numbered(10))
    with pytest.raises(packhorse.Error):
        write(tmp_path / "out", numbered(5))
    assert len(packhorse.open(tmp_path / "out")) == 10
    assert len(write(tmp_path / "out", numbered(5), replace=True)) == 5


@pytest.mark.parametrize("place", ["full", "file", "file/below"])
def test_a_place_that_can_not_be_written_is_told_at_once(tmp_path, place):
    """Samples may take long to make: the place is looked at before the first one."""
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("x")
    (tmp_path / "file").write_text("x")
    with pytest.raises(packhorse.Error):
        packhorse.Writer(tmp_path / place, to="parquet")
    packhorse.Writer(tmp_path / "new" / "below", to="parquet")
    assert not (tmp_path / "new").exists()


def test_a_dataset_is_packed_as_it_is(tmp_path):
    """Types, classes and splits stay, which dictionaries of its samples do not have."""
    samples = [{"__key__": f"k{i}", "i8": np.int8(i), "f4": np.float32(i) / 3, "u": np.uint64(i), "cls": i % 2} for i in range(10)]
    packhorse.pack(samples, tmp_path / "a", to="parquet", class_names=["cat", "dog"])
    packhorse.pack(packhorse.open(tmp_path / "a"), tmp_path / "b", to="arrow")
    first, second = packhorse.open(tmp_path / "a"), packhorse.open(tmp_path / "b")
    assert (first.fields, first.classes) == (second.fields, second.classes) == (second.fields, ["cat", "dog"])
    for part in (first.take(3), packhorse.concat([first, second])):
        with pytest.raises(TypeError, match="write_view"):
            packhorse.pack(part, tmp_path / "c", to="parquet")
    with pytest.raises(TypeError, match="batches"):
        packhorse.pack(first.loader(2), tmp_path / "c", to="parquet")


# --- settings ---------------------------------------------------------------------------------------------------------


def test_a_setting_that_is_none(tmp_path):
    """An unknown setting is a TypeError that suggests another."""
    for call in (
        lambda: packhorse.pack(tmp_path, tmp_path / "out", to="webdataset", shufle=3),
        lambda: packhorse.Writer(tmp_path / "out", shard_sise="5MB"),
    ):
        with pytest.raises(TypeError, match=r"did you mean '(shuffle|shard_size)'"):
            call()


def test_values_of_settings_are_checked(files, tmp_path):
    """A value that makes no sense is a ConfigError that names the setting as Python writes it."""
    for name, value in (("shard_size", "5XB"), ("samples_per_shard", 0), ("shuffle", "often"), ("key_ends", "never")):
        with pytest.raises(packhorse.ConfigError) as raised:
            packhorse.pack(files, tmp_path / "out", to="webdataset", **{name: value})
        assert raised.value.kind == "config"
        assert name in str(raised.value)
    with pytest.raises(packhorse.ConfigError, match="nowhere"):
        packhorse.pack(files, tmp_path / "out", to="nowhere")
    assert not list((tmp_path).glob("out/*.tar"))


def test_columns_of_metadata(files, tmp_path):
    """`columns` chooses the columns of a table of metadata."""
    table = tmp_path / "table.csv"
    rows = (f"{path.parent.name}/{path.stem},{n},{n * 2}\n" for n, path in enumerate(sorted(files.rglob("*.txt"))))
    table.write_text("name,a,b\n" + "".join(rows))
    packhorse.pack(files, tmp_path / "out", to="webdataset", metadata=table, key="name", columns=["a"])
    assert json.loads(packhorse.open(tmp_path / "out")[3]["json"]).keys() <= {"name", "a"}


# --- packing paths ----------------------------------------------------------------------------------------------------


def test_packing_files(files, tmp_path):
    """Files become samples: their keys, classes from folders, all of them once."""
    packed = packhorse.pack(files, tmp_path / "out", **SETTINGS)
    assert (packed.samples, packed.shards, packed.skipped) == (20, 4, 0)
    assert packed.classes == ["cat", "dog"]
    assert packed.out == str(tmp_path / "out")
    assert len(packed.root) == 64
    dataset = packhorse.open(tmp_path / "out")
    assert dataset.classes == ["cat", "dog"]
    for sample in dataset:
        folder, name = sample["__key__"].split("/")
        assert dataset.classes[int(sample["cls"])] == folder
        assert sample["txt"].decode() == f"text {int(name[1:])} " * 50
    assert sorted(dataset.keys) == sorted(f"{path.parent.name}/{path.stem}" for path in files.rglob("*.txt"))


def test_equal_packs_are_equal(files, tmp_path):
    """Two packs with equal settings have equal bytes; with another seed others."""
    one = packhorse.pack(files, tmp_path / "one", **SETTINGS)
    two = packhorse.pack(files, tmp_path / "two", jobs=1, **SETTINGS)
    three = packhorse.pack(files, tmp_path / "three", **{**SETTINGS, "shuffle": 4})
    assert one.root == two.root != three.root
    for shard in (tmp_path / "one").glob("*.tar"):
        assert shard.read_bytes() == (tmp_path / "two" / shard.name).read_bytes()


def test_packing_again_goes_on(files, tmp_path):
    """The same call again keeps complete shards, and packs the others; other settings are refused."""
    out = tmp_path / "out"
    first = packhorse.pack(files, out, **SETTINGS)
    shards = sorted(out.glob("*.tar"))
    before = {shard: (shard.stat().st_mtime_ns, shard.stat().st_ino) for shard in shards}
    again = packhorse.pack(files, out, **SETTINGS)
    assert again.root == first.root
    assert {shard: (shard.stat().st_mtime_ns, shard.stat().st_ino) for shard in shards} == before
    with pytest.raises(packhorse.ConfigError) as raised:
        packhorse.pack(files, out, **{**SETTINGS, "shuffle": 4})
    assert raised.value.hint
    assert packhorse.pack(files, out, replace=True, **{**SETTINGS, "shuffle": 4}).root != first.root


def test_an_interrupted_pack_goes_on(files, tmp_path):
    """After an exception of the progress function the same call completes the dataset."""

    def stop(_):
        raise LookupError("mine")

    out = tmp_path / "out"
    with pytest.raises(LookupError, match="mine"):
        packhorse.pack(files, out, progress=stop, **SETTINGS)
    assert packhorse.pack(files, out, **SETTINGS).samples == 20
    assert packhorse.verify(out, full=True)


def test_progress(files, tmp_path):
    """A progress function gets totals that never fall, and at last all samples."""
    told = []
    packhorse.pack(files, tmp_path / "out", progress=told.append, **SETTINGS)
    assert told
    last = told[-1]
    assert last["samples"] == last["all_samples"] == 20
    assert last["shards"] == last["all_shards"] == 4
    assert last["skipped"] == 0
    assert last["bytes"] == last["all_bytes"] == sum(path.stat().st_size for path in files.rglob("*.txt"))
    for before, after in zip(told, told[1:]):
        assert before["samples"] <= after["samples"]
    assert packhorse.pack(files, tmp_path / "bar", progress=True, **SETTINGS).samples == 20


def test_progress_of_samples(tmp_path):
    """The same for samples of a program, which says how many there are at the end only."""

    def slow():
        for number in range(5):
            time.sleep(0.06)
            yield {"x": number}

    told = []
    packhorse.pack(slow(), tmp_path / "out", to="parquet", progress=told.append)
    assert len(told) > 1 and told[-1]["samples"] == 5
    with pytest.raises(ZeroDivisionError):
        packhorse.pack(slow(), tmp_path / "stopped", to="parquet", progress=lambda totals: 1 / 0)
    assert not (tmp_path / "stopped").exists()
    with pytest.raises(TypeError, match="progress is 3"):
        packhorse.pack(slow(), tmp_path / "wrong", to="parquet", progress=3)


def test_an_exception_of_progress_comes_once(files, tmp_path):
    """An exception of the progress function is raised once, and the function is not called again."""
    calls = []

    def stop(totals):
        calls.append(totals)
        raise LookupError("mine")

    with pytest.raises(LookupError):
        packhorse.pack(files, tmp_path / "out", progress=stop, **SETTINGS)
    assert len(calls) == 1


def test_bad_inputs(tmp_path):
    """A bad input fails and is named; with `on_error="skip"` it is left out and counted."""
    (tmp_path / "in").mkdir()
    for number in range(4):
        Image.fromarray(picture(number)).save(tmp_path / "in" / f"p{number}.png")
    whole = (tmp_path / "in" / "p2.png").read_bytes()
    (tmp_path / "in" / "p2.png").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(packhorse.ContentError) as raised:
        packhorse.pack(tmp_path / "in", tmp_path / "one", to="webdataset", image="check")
    assert "p2" in str(raised.value)
    packed = packhorse.pack(tmp_path / "in", tmp_path / "two", to="webdataset", image="check", on_error="skip")
    assert (packed.samples, packed.skipped) == (3, 1)
    assert packhorse.open(tmp_path / "two").keys == ["p0", "p1", "p3"]


@pytest.mark.parametrize("to", ["webdataset", "parquet", "hdf5"])
def test_pngs_become_jpegs(tmp_path, to):
    """`image="jpeg=png"`: one field of JPEGs, also of samples that are appended."""
    shown = {}

    def photo(folder, number, ending):
        pixels = np.zeros((48, 64, 3), np.uint8)
        pixels[..., 0], pixels[..., 1] = np.arange(64) * 3, np.arange(48)[:, None] * 4
        pixels[..., 2] = number * 20
        (tmp_path / folder).mkdir(exist_ok=True)
        Image.fromarray(pixels).save(tmp_path / folder / f"{number}.{ending}")
        shown[str(number)] = pixels

    for number in range(8):
        photo("in", number, "jpg" if number % 4 == 0 else "png")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        packed = packhorse.pack(tmp_path / "in", tmp_path / "out", to=to, image="jpeg=png", quality=95)
    assert packed.samples == 8
    photo("more", 8, "png")
    packhorse.append(tmp_path / "out", tmp_path / "more")
    photo("last", 9, "jpg")
    packhorse.append(tmp_path / "out", tmp_path / "last")
    dataset = packhorse.open(tmp_path / "out")
    seen = {key: bytes(sample["jpg"]) for key, sample in zip(dataset.keys, dataset, strict=True)}
    assert sorted(seen) == sorted(shown)
    assert seen["4"] == (tmp_path / "in/4.jpg").read_bytes()
    for key, blob in seen.items():
        found = Image.open(io.BytesIO(blob))
        assert found.format == "JPEG"
        assert np.abs(np.asarray(found).astype(int) - shown[key]).mean() < 3, key


@pytest.mark.parametrize("to", ["parquet", "hdf5", "arrow", "tfrecord"])
def test_convert(tmp_path, to):
    """A dataset in another format has the same samples in the same order."""
    source = write(tmp_path / "source", mixed(20), to="arrow" if to != "arrow" else "parquet", samples_per_shard=8)
    packed = packhorse.convert(source._place, tmp_path / "out", to)
    assert packed.samples == 20
    dataset = packhorse.open(tmp_path / "out")
    assert dataset.keys == source.keys
    for ours, sample in zip(dataset, mixed(20), strict=True):
        assert ours["grid"].tolist() == sample["grid"].tolist()
        assert all(ours[name] == sample[name] for name in ("x", "y", "text", "data", "flag"))


def test_pack_of_samples(tmp_path):
    """`pack` of a generator writes its samples in their order."""
    packed = packhorse.pack(mixed(20), tmp_path / "out", "parquet", samples_per_shard=6)
    assert (packed.samples, packed.shards) == (20, 4)
    assert [sample["x"] for sample in packhorse.open(tmp_path / "out")] == list(range(20))


# --- checks -----------------------------------------------------------------------------------------------------------


def test_verify_and_repair(files, tmp_path):
    """`verify` finds a flipped byte, `repair` packs that shard again, and all is whole."""
    out = tmp_path / "out"
    packed = packhorse.pack(files, out, **SETTINGS)
    found = packhorse.verify(out)
    assert found.whole
    assert bool(packhorse.verify(out, full=True))
    assert (found.samples, found.shards, found.damages) == (20, 4, [])
    shard = sorted(out.glob("*.tar"))[1]
    data = bytearray(shard.read_bytes())
    data[520] ^= 1
    shard.write_bytes(data)
    found = packhorse.verify(out, full=True)
    assert not found
    assert not found.whole
    assert [damage[0] for damage in found.damages] == [shard.name]
    repaired = packhorse.repair(out)
    assert (repaired, repaired.quarantined) == (1, [f".quarantine/1/{shard.name}"])
    assert (out / repaired.quarantined[0]).read_bytes() == bytes(data)
    assert packhorse.verify(out).quarantined == 1
    assert packhorse.verify(out, full=True).whole
    assert packhorse.pack(files, out, **SETTINGS).root == packed.root


def test_repair_finds_moved_inputs(files, tmp_path):
    """`repair` reads the inputs from where they are now."""
    out = tmp_path / "out"
    packhorse.pack(files, out, **SETTINGS)
    sorted(out.glob("*.tar"))[0].unlink()
    moved = files.rename(files.with_name("moved"))
    with pytest.raises(packhorse.ChangedError, match="vanished"):
        packhorse.repair(out)
    assert packhorse.repair(out, moved={files: moved}) == 1
    assert packhorse.verify(out, full=True)


def test_verify_finds_a_missing_shard(files, tmp_path):
    """A shard that is gone is damage, and can be packed again."""
    out = tmp_path / "out"
    packhorse.pack(files, out, **SETTINGS)
    sorted(out.glob("*.tar"))[2].unlink()
    assert not packhorse.verify(out)
    with pytest.raises(packhorse.IncompleteError, match="is missing") as raised:
        list(packhorse.open(out))
    assert raised.value.code == "shard-missing" and "repair" in raised.value.hint
    packhorse.repair(out)
    assert packhorse.verify(out, full=True)


def test_a_checksum_of_a_field(tmp_path):
    """A loader with `verify` finds a changed byte in a sample."""
    dataset = write(tmp_path / "out", ({"data": bytes(1000)} for _ in range(10)))
    (shard,) = (tmp_path / "out").glob("*.tar")
    with tarfile.open(shard) as tar:
        place = tar.getmembers()[4].offset_data + 500
    data = bytearray(shard.read_bytes())
    data[place] ^= 1
    shard.write_bytes(data)
    with pytest.raises(packhorse.Error) as raised:
        for _ in packhorse.open(tmp_path / "out").loader(5, verify=True):
            pass
    assert dataset.keys[4] in str(raised.value)


def test_stat(tmp_path):
    """`stat` counts the samples and fields of a file."""
    write(tmp_path / "out", ({"cls": n, "data": bytes(10)} for n in range(7)))
    (shard,) = (tmp_path / "out").glob("*.tar")
    assert packhorse.stat(shard) == {"samples": 7, "fields": {"cls": (7, 7), "data": (7, 70)}}
    with pytest.raises(packhorse.ConfigError):
        packhorse.stat(tmp_path / "out")


# --- errors -----------------------------------------------------------------------------------------------------------


def test_a_name_that_is_almost_right(tmp_path):
    """Opening suggests what lies beside."""
    write(tmp_path / "my-shards", numbered(3))
    with pytest.raises(packhorse.MissingFileError, match="did you mean .*my-shards"):
        packhorse.open(tmp_path / "my-shard")
    (tmp_path / "loose").mkdir()
    (tmp_path / "loose" / "a.jpg").write_bytes(b"x")
    with pytest.raises(packhorse.ConfigError, match="packhorse pack"):
        packhorse.open(tmp_path / "loose")


def test_what_does_not_exist(tmp_path):
    """A missing input is a FileNotFoundError that names it."""
    for call in (
        lambda: packhorse.open(tmp_path / "gone"),
        lambda: packhorse.pack(tmp_path / "gone", tmp_path / "out", to="webdataset"),
        lambda: packhorse.stat(tmp_path / "gone.tar"),
    ):
        with pytest.raises(FileNotFoundError) as raised:
            call()
        assert isinstance(raised.value, packhorse.MissingFileError)
        assert isinstance(raised.value, packhorse.ConfigError)
        assert "gone" in str(raised.value)
        assert raised.value.kind == "config"


def test_classes_of_errors():
    """Errors are also the exceptions of Python that they resemble."""
    for ours, pythons in (
        (packhorse.ContentError, ValueError),
        (packhorse.StorageError, OSError),
        (packhorse.ConfigError, ValueError),
        (packhorse.MissingFileError, FileNotFoundError),
        (packhorse.StateError, packhorse.ConfigError),
        (packhorse.UnsupportedError, NotImplementedError),
        (packhorse.InternalError, RuntimeError),
    ):
        assert issubclass(ours, packhorse.Error)
        assert issubclass(ours, pythons)


def test_errors_can_be_pickled(tmp_path, numbers):
    """A pickled error has its class, text and facts."""
    raised = []
    for call in (
        lambda: packhorse.open(tmp_path / "gone"),
        lambda: numbers.loader(10).load_state_dict(numbers.loader(10, seed=2).state_dict()),
        lambda: numbers.batch([0], ["nothing"]),
    ):
        with pytest.raises(packhorse.Error) as caught:
            call()
        raised.append(caught.value)
    raised += [packhorse.StorageError("full", kind="io", code="full"), packhorse.Error("text")]
    for error in raised:
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is type(error)
        assert str(again) == str(error)
        for name in ("kind", "code", "message", "hint", "input", "sample", "field", "row"):
            assert getattr(again, name) == getattr(error, name)


def test_not_a_dataset(tmp_path):
    """A file that is not a dataset is an error of packhorse."""
    (tmp_path / "notes.txt").write_text("nothing")
    (tmp_path / "short.tar").write_bytes(b"not a tar at all" * 100)
    (tmp_path / "short.parquet").write_bytes(b"PAR1 but no more")
    for name in ("short.tar", "short.parquet", "notes.txt"):
        with pytest.raises(packhorse.Error):
            packhorse.open(tmp_path / name)


# --- the module -------------------------------------------------------------------------------------------------------


def test_the_import_is_small(tmp_path):
    """`import packhorse` brings neither NumPy nor torch, and needs no NumPy to pack and load."""
    code = """
        import sys
        import packhorse

        with packhorse.Writer(sys.argv[1]) as writer:
            for number in range(20):
                writer.write({"cls": number})
        dataset = packhorse.open(sys.argv[1])
        assert sum(n for batch in dataset.loader(4) for n in batch["cls"].tolist()) == 190
        brought = {"numpy", "torch", "jax", "pyarrow", "awkward", "tqdm"} & set(sys.modules)
        print(sorted(brought))
    """
    assert run_well(code, tmp_path / "shards") == "[]\n"


def test_what_the_package_offers():
    """Every name of `__all__` is there, and the version is a version."""
    assert all(hasattr(packhorse, name) for name in packhorse.__all__)
    assert packhorse.__version__.split(".")[0].isdigit()
    assert "parquet" in packhorse.features()


def test_features_of_hugging_face_stay(tmp_path, monkeypatch):
    """Class names and pictures of their datasets, in Parquet and in folders of save_to_disk, whose caches are not data."""
    monkeypatch.setenv("HF_DATASETS_OFFLINE", "1")
    hf = pytest.importorskip("datasets")
    image = pytest.importorskip("PIL.Image")
    features = hf.Features(
        {"image": hf.Image(), "label": hf.ClassLabel(names=["cat", "dog"]), "n": hf.Value("int64")}
    )
    pictures = [image.new("RGB", (8, 8), (shade, 0, 0)) for shade in range(4)]
    rows = {"image": pictures, "label": [0, 1, 0, 1], "n": [3, 4, 5, 6]}
    given = hf.Dataset.from_dict(rows, features=features)
    given.to_parquet(tmp_path / "hf.parquet")
    given.save_to_disk(tmp_path / "disk")
    hf.load_from_disk(tmp_path / "disk").map(lambda row: {"n": row["n"] + 1})
    assert list((tmp_path / "disk").glob("cache-*.arrow"))
    packhorse.pack(tmp_path / "hf.parquet", tmp_path / "a", to="parquet")
    packhorse.pack(tmp_path / "disk", tmp_path / "b", to="arrow")
    packhorse.pack(tmp_path / "b", tmp_path / "c", to="parquet")
    for name in "abc":
        again = hf.load_dataset(str(tmp_path / name), split="train", cache_dir=tmp_path / "cache")
        found = {column: again.features[column] for column in features}
        assert found == dict(features), name
        assert [picture.getpixel((0, 0))[0] for picture in again["image"]] == [0, 1, 2, 3]
        assert again["n"] == [3, 4, 5, 6] and again["label"] == [0, 1, 0, 1]
        assert packhorse.open(tmp_path / name).classes == ["cat", "dog"]
    packhorse.pack(tmp_path / "hf.parquet", tmp_path / "e", to="parquet", image="resize=4")
    small = hf.load_dataset(str(tmp_path / "e"), split="train", cache_dir=tmp_path / "cache")
    assert small.features["image"] == hf.Image() and small[0]["image"].size == (4, 4)
    packhorse.pack(tmp_path / "c", tmp_path / "d", to="webdataset", field={"image": "png", "label": "cls"})
    assert packhorse.open(tmp_path / "d").classes == ["cat", "dog"]


@pytest.mark.parametrize("to", ["parquet", "hdf5", "arrow", "tfrecord", "webdataset"])
def test_arrays_without_elements(tmp_path, to):
    """Their samples count, and so do the rows of batches."""
    empty = np.zeros((0, 3))
    packhorse.pack(iter([{"x": empty, "y": 1}, {"x": empty, "y": 2}]), tmp_path / "out", to=to)
    batch = packhorse.open(tmp_path / "out").batch([1, 0], {"x": "x" if to != "webdataset" else "x.npy"})
    assert batch["x"].shape == (2, 0, 3) and batch["x"][1].shape == (0, 3) and np.asarray(batch["x"]).shape == (2, 0, 3)


def test_masks_choose_samples(tmp_path):
    data = write(tmp_path / "d", numbered(5))
    mask = np.array([True, False, False, True, True])
    for flags in (mask, mask.tolist(), list(mask)):
        assert [sample["cls"] for sample in data[flags]] == [b"0", b"3", b"4"]
    with pytest.raises(IndexError, match="a mask of 2 bools for 5 samples"):
        data.subset([True, False])
    assert len(data.subset([])) == 0


def test_nothing_of_a_refused_first_sample_is_kept(tmp_path):
    """Neither its fields nor their types."""
    with packhorse.Writer(tmp_path / "out", to="parquet") as writer:
        for refused in ({"id": 1, "debug": "text", "extra": None}, {"id": 1, "debug": "text", "bad": object()}):
            with pytest.raises(packhorse.ContentError):
                writer.write(refused)
        writer.write({"id": "a7"})
        writer.write({"id": "a8"})
    dataset = packhorse.open(tmp_path / "out")
    assert [(sample["__key__"], sample["id"]) for sample in dataset] == [("000000000", "a7"), ("000000001", "a8")]
    assert list(dataset.fields) == ["id"]


def test_what_would_be_lost_is_refused_when_it_is_written(tmp_path):
    """A sample that no reader would get costs itself, not the dataset."""
    with packhorse.Writer(tmp_path / "d", to="webdataset") as writer:
        writer.write({"__key__": "a", "x": 1, "json": {"v": 1.5}})
        for empty in ({"__key__": "b"}, {"__key__": "c", "x": None, "json": None}):
            with pytest.raises(packhorse.ContentError, match="a tar can't hold a sample without a member"):
                writer.write(empty)
        with pytest.raises(packhorse.ContentError, match="can't be JSON"):
            writer.write({"__key__": "d", "x": 2, "json": {"v": float("nan")}})
        writer.write({"__key__": "e", "x": 3, "json": {"v": 2}})
    assert packhorse.open(tmp_path / "d").keys == ["a", "e"]


def test_arrays_may_be_named_as_webdataset_names_them(tmp_path):
    data = write(tmp_path / "d", [{"__key__": "a", "emb.npy": np.arange(3.0), "cls": 1}])
    assert data.fields.keys() == {"emb.npy", "cls"}
    assert data.batch([0])["emb.npy"].tolist() == [[0.0, 1.0, 2.0]]


def test_concat_and_select_say_what_they_take(tmp_path):
    data = write(tmp_path / "d", numbered(3))
    assert len(packhorse.concat([data, data])) == 6 and len(packhorse.concat(data)) == 3
    with pytest.raises(TypeError, match="concat takes opened datasets"):
        packhorse.concat(["a", "b"])
    with pytest.raises(TypeError, match="select takes several names"):
        data.select("cls")


def test_a_dataset_of_hdf5_is_selected_by_any_of_its_links(tmp_path):
    import h5py

    with h5py.File(tmp_path / "n.h5", "w") as file:
        file["entry/instrument/data"] = np.ones((10, 3))
        file["entry/data"] = file["entry/instrument/data"]
        file["scalar"] = 3

    def fields(out, name):
        packhorse.pack(tmp_path / "n.h5", tmp_path / out, to="parquet", datasets=name)
        return set(packhorse.open(tmp_path / out).fields)

    assert fields("a", "/entry/instrument/data") == {"entry.instrument.data"}
    assert fields("b", "/entry/data,/entry/instrument/data") == {"entry.data"}
    with pytest.raises(packhorse.Error, match="dataset /scalar can't be read: a scalar dataset"):
        fields("c", "/scalar")
    with pytest.raises(packhorse.Error, match="there are /entry/data"):
        fields("d", "/entry/dat")


def test_samples_without_a_field_that_some_lack_are_appended(tmp_path):
    for name in ("a/1.jpg", "a/2.png", "b/3.jpg", "c/4.png", "c/4.jpg"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(name.encode())
    for to in ("webdataset", "parquet"):
        out = tmp_path / to
        with pytest.warns(UserWarning, match="only 1 of 2 samples has the field"):
            packhorse.pack(tmp_path / "a", out, to=to)
        assert packhorse.append(out, tmp_path / "b").samples == 1
        data = packhorse.open(out)
        assert [sample.get("jpg") for sample in data] == [b"a/1.jpg", None, b"b/3.jpg"]
        packhorse.verify(out, full=True)
        only = tmp_path / f"{to}-jpg"
        packhorse.pack(tmp_path / "b", only, to=to)
        with pytest.raises(packhorse.ConfigError, match="the new samples have the field png"):
            packhorse.append(only, tmp_path / "c")


def test_places_are_shown_without_secrets():
    from packhorse._dataset import Dataset

    shown = object.__new__(Dataset)
    for place, there in [
        ("https://me:secret@host/a/b?sig=secret", "https://host/a/b"),
        ("http://host/a", "http://host/a"),
        ("/a/b?c", "/a/b?c"),
        ("s3://bucket/a", "s3://bucket/a"),
    ]:
        shown._place = place
        assert shown._shown == there


@pytest.mark.parametrize("to", ["webdataset", "hdf5", "parquet", "arrow", "tfrecord"])
def test_times_and_complex_numbers_are_written(to, tmp_path):
    samples = [
        {
            "__key__": f"k{number}",
            "t": np.datetime64("2024-05-06T07:08:09.123456") + number,
            "d": np.array([number, -1], "m8[ms]"),
            "c": np.complex64(1 + number * 1j),
            "z": np.full((2, 3), number - 0.5j),
        }
        for number in range(3)
    ]
    data = write(tmp_path / "d", samples, to=to)
    for sample, found in zip(samples, data):
        for name in ("t", "d", "c", "z"):
            value = np.load(io.BytesIO(found[f"{name}.npy"])) if to == "webdataset" else np.asarray(found[name])
            assert value.dtype == np.asarray(sample[name]).dtype and (value == sample[name]).all(), name
    with packhorse.Writer(tmp_path / "e", to=to) as writer:
        writer.write({"t": np.datetime64("2024", "s")})
        with pytest.raises(packhorse.ContentError, match=r"<M8\[us\].*was <M8\[s\] before"):
            writer.write({"t": np.datetime64("2024", "us")})


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_columns_without_a_type_are_null(tmp_path, kind):
    """pandas writes a column of None without a type: where other files have values of it, these are null."""
    pa = pytest.importorskip("pyarrow")
    (tmp_path / "in").mkdir()

    def store(name, notes, type):
        table = pa.table({"n": pa.array([1, 2]), "note": pa.array(notes, type), "gone": pa.nulls(2)})
        if kind == "parquet":
            import pyarrow.parquet

            pyarrow.parquet.write_table(table, tmp_path / "in" / f"{name}.parquet")
        else:
            with pa.ipc.new_file(tmp_path / "in" / f"{name}.arrow", table.schema) as file:
                file.write_table(table)

    store("a", [None, None], pa.null())
    store("b", ["x", None], pa.string())
    with pytest.warns(UserWarning, match=r"left out 1 field, such as in a\..*: gone \(has no value\)"):
        packhorse.pack(tmp_path / "in", tmp_path / "out", to="parquet", shuffle=False, progress=False)
    dataset = packhorse.open(tmp_path / "out")
    assert list(dataset.fields) == ["n", "note"]
    assert [sample.get("note") for sample in dataset] == [None, None, "x", None]
    # A file that lacks the column altogether is still refused.
    lacking = pa.table({"n": pa.array([1, 2]), "gone": pa.nulls(2)})
    with pa.ipc.new_file(tmp_path / "in" / "c.arrow", lacking.schema) as file:
        file.write_table(lacking)
    with pytest.raises(packhorse.ConfigError, match="other columns"):
        packhorse.pack(tmp_path / "in", tmp_path / "other", to="parquet", progress=False)


def test_a_column_that_two_kinds_of_files_deliver_is_refused(tmp_path):
    """An array `npy` of an `.npz` file and a file `.npy` are one column by name: neither takes the other's place."""
    (tmp_path / "in").mkdir()
    np.save(tmp_path / "in" / "a.npy", np.arange(3))
    np.savez(tmp_path / "in" / "b.npz", npy=np.arange(3))
    with pytest.raises(packhorse.ConfigError, match="samples have npy twice: decoded from their npy and from their npz"):
        packhorse.pack(tmp_path / "in", tmp_path / "out", to="hdf5", progress=False)


def test_netcdf_of_h5py(tmp_path):
    """Dimension scales of h5py are axes in a file called `.nc`, or where an option is about them; elsewhere it has no effect, and is refused."""
    h5py = pytest.importorskip("h5py")

    def store(name, scale):
        with h5py.File(tmp_path / name, "w") as file:
            tas = file.create_dataset("tas", data=np.array([-1, 1, 2], "i2"))
            tas.attrs["_FillValue"], tas.attrs["scale_factor"] = np.int16(-1), 0.5
            if scale:
                file.create_dataset("time", data=np.arange(3.0)).make_scale("time")
                tas.dims[0].attach_scale(file["time"])

    store("a.nc", True)
    store("b.h5", True)
    store("c.h5", False)
    for name in ["a.nc", "b.h5"]:
        packhorse.pack(tmp_path / name, tmp_path / f"{name}.out", to="parquet", from_="hdf5", read="scale=apply", shuffle=False, progress=False)
        np.testing.assert_array_equal(packhorse.open(tmp_path / f"{name}.out").batch([0, 1, 2])["tas"].numpy(), [np.nan, 0.5, 1.0])
    for option in ["scale=apply", "dimension=time"]:
        with pytest.raises(packhorse.ConfigError, match="no dimension scales"):
            packhorse.pack(tmp_path / "c.h5", tmp_path / "out", to="parquet", from_="hdf5", read=option, progress=False)
    with pytest.raises(packhorse.ConfigError, match="there is no dimension bogus"):
        packhorse.pack(tmp_path / "b.h5", tmp_path / "out", to="parquet", from_="hdf5", read="dimension=bogus", progress=False)


def test_scales_of_a_sealed_tar_dataset_stay(tmp_path):
    """Members of tars do not hold them, `dataset.json` does."""
    h5py = pytest.importorskip("h5py")
    for scale in [0.5, 2.0]:
        with h5py.File(tmp_path / f"{scale}.nc", "w") as file:
            tas = file.create_dataset("tas", data=np.arange(6, dtype="i2").reshape(3, 2))
            tas.attrs["scale_factor"] = scale
            file.create_dataset("time", data=np.arange(3.0)).make_scale("time")
            tas.dims[0].attach_scale(file["time"])
        packhorse.pack(tmp_path / f"{scale}.nc", tmp_path / str(scale), to="webdataset", progress=False)
    for to in ["webdataset", "parquet"]:
        packhorse.pack(tmp_path / "0.5", tmp_path / f"again-{to}", to=to, progress=False)
        assert "scale_factor" in (tmp_path / f"again-{to}" / "dataset.json").read_text()
        with pytest.raises(packhorse.ContentError, match="field tas has units, scale or fill values"):
            packhorse.pack([tmp_path / "0.5", tmp_path / "2.0"], tmp_path / "both", to=to, progress=False)
    with pytest.raises(packhorse.ConfigError, match="other units, scales or fill values"):
        packhorse.concat([packhorse.open(tmp_path / "0.5"), packhorse.open(tmp_path / "2.0")])


def test_what_a_writer_is_given(tmp_path):
    """Masked values are refused, a memoryview is bytes, and what webdataset adds to its samples is left out."""
    masked = np.ma.masked_greater(np.array([1.0, 1e20]), 1e10)
    for value in [masked, masked[1]]:
        with pytest.raises(packhorse.ContentError, match="masked values"):
            packhorse.pack([{"a": value}], tmp_path / "masked", to="hdf5")
    packhorse.pack([{"a": masked[:1]}], tmp_path / "whole", to="hdf5")
    sample = {"__key__": "k", "__url__": "x", "__local_path__": "y", "bin": io.BytesIO(b"abc").getbuffer()}
    packhorse.pack([sample], tmp_path / "out", to="webdataset")
    assert packhorse.open(tmp_path / "out")[0] == {"__key__": "k", "bin": b"abc"}
    # The first sample says the type: a number of NumPy of another type is not rounded, one of Python is.
    with pytest.raises(packhorse.ContentError, match="Float64"):
        packhorse.pack([{"a": np.float32(1)}, {"a": np.float64(1.1)}], tmp_path / "rounded", to="parquet")
    packhorse.pack([{"a": np.float32(1)}, {"a": 1.1}], tmp_path / "python", to="parquet")
    packhorse.pack([{"a": np.float64(1.1)}], tmp_path / "declared", to="parquet", columns={"a": "float32"})


def test_memory_changes_no_fields(tmp_path):
    """Archives whose arrays are over the limit are refused, and archives that can't be read stay, with a warning."""
    (tmp_path / "in").mkdir()
    np.savez_compressed(tmp_path / "in" / "a.npz", x=np.zeros((2500, 2500), np.float32), y=np.int64(3))
    packhorse.pack(tmp_path / "in", tmp_path / "whole", to="webdataset")
    assert [field for field in packhorse.open(tmp_path / "whole")[0] if field != "__key__"] == ["x.npy", "y.npy"]
    with pytest.raises(packhorse.LimitError, match="array x has 25000128 bytes"):
        packhorse.pack(tmp_path / "in", tmp_path / "small", to="webdataset", memory="64MiB")
    (tmp_path / "cut").mkdir()
    (tmp_path / "cut" / "a.npz").write_bytes((tmp_path / "in" / "a.npz").read_bytes()[:-30])
    with pytest.warns(UserWarning, match="the fields npz stay as they are, since none of them can be decoded"):
        packhorse.pack(tmp_path / "cut", tmp_path / "kept", to="webdataset")
    assert "npz" in packhorse.open(tmp_path / "kept")[0]


def test_a_second_channel_that_is_not_alpha(tmp_path):
    """Two bands, such as those of radar: the first one is gray, the second one does not hide it, and none of them is lost."""
    gray = np.arange(256, dtype="u1").reshape(16, 16)
    file = io.BytesIO()
    Image.fromarray(np.dstack([gray, np.zeros_like(gray)]), "LA").save(file, "TIFF")
    data = bytearray(file.getvalue())
    at = data.index(struct.pack("<HHI", 338, 3, 1)) + 8
    assert data[at] == 2
    data[at] = 0  # extra samples of no known meaning
    write(tmp_path / "out", [{"tif": bytes(data)}])
    opened = packhorse.open(tmp_path / "out")
    picture = next(iter(opened.loader(1, fields=[packhorse.Image("tif", 16, crop="exact")])))["tif"].numpy()[0]
    assert (picture == gray[:, :, None]).all()
    with pytest.raises(packhorse.Error, match="has 2 channels, and only 1 of a known meaning"):
        packhorse.pack(tmp_path / "out", tmp_path / "small", to="webdataset", image=["resize=8"])


def test_long_headers_and_large_arrays_of_npz(tmp_path):
    """Headers of compressed arrays may be longer than the first bytes that are read, and rows of large arrays are read in blocks."""
    np.savez_compressed(tmp_path / "s.npz", rec=np.zeros(3, [(f"column_{n:03}", "<f4") for n in range(200)]))
    packhorse.pack(tmp_path / "s.npz", tmp_path / "s", to="parquet", rows=True)
    opened = packhorse.open(tmp_path / "s")
    assert len(opened) == 3 and len(opened.fields) == 200
    large = np.arange(9 << 20, dtype="f8").reshape(9, -1)
    np.savez(tmp_path / "large.npz", x=large)
    packhorse.pack(tmp_path / "large.npz", tmp_path / "large", to="hdf5", rows=True, memory="256MiB")
    assert (packhorse.open(tmp_path / "large")[8]["x"] == large[8]).all()
    with pytest.raises(packhorse.LimitError):
        packhorse.pack(tmp_path / "large.npz", tmp_path / "whole", to="hdf5", memory="256MiB")


def test_hdf5_of_other_programs_is_told_and_named(tmp_path):
    """Members of compounds that can't be read are told, also of a dataset that is named; netCDF's variables have their own names."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        kind = np.dtype([("a", "i4"), ("ref", h5py.ref_dtype), ("b", "f4")])
        table = file.create_dataset("table", (4,), kind)
        table["a"] = np.arange(4, dtype="i4")
        file["other"] = np.zeros(7)
        file["_nc4_non_coord_depth"] = np.arange(8.0).reshape(4, 2)
    for chosen in ("/table", "/table*"):
        with pytest.warns(UserWarning, match="table.ref"):
            packhorse.pack(tmp_path / "a.h5", tmp_path / chosen.strip("/*"), to="parquet", datasets=[chosen], replace=True)
        opened = packhorse.open(tmp_path / "table")
        assert list(opened.fields) == ["table.a", "table.b"] and [sample["table.a"] for sample in opened] == [0, 1, 2, 3]
    packhorse.pack(tmp_path / "a.h5", tmp_path / "depth", to="parquet", datasets=["/depth"])
    assert packhorse.open(tmp_path / "depth")[1]["depth"].tolist() == [2.0, 3.0]


def test_rows_of_datasets_that_grew_by_many_chunks(tmp_path):
    """The index of very many chunks has pages, of which bits say whether they were written."""
    h5py = pytest.importorskip("h5py")
    count = 170_000
    with h5py.File(tmp_path / "a.h5", "w", libver="latest") as file:
        file.create_dataset("x", (count,), "i4", maxshape=(None,), chunks=(1,))[:] = np.arange(1, count + 1, dtype="i4")
    with h5py.File(tmp_path / "b.h5", "w", libver="latest") as file:
        sparse = file.create_dataset("x", (count,), "i4", maxshape=(None,), chunks=(1,), fillvalue=-1)
        sparse[::997] = np.arange(0, count, 997, dtype="i4")
    for name in ("a", "b"):
        with h5py.File(tmp_path / f"{name}.h5") as file:
            wanted = file["x"][:]
        packhorse.pack(tmp_path / f"{name}.h5", tmp_path / name, to="parquet")
        batch = next(iter(packhorse.open(tmp_path / name).loader(count, fields=["x"], shuffle="sequential")))
        assert (batch["x"].numpy() == wanted).all()


def test_columns_with_a_percent_sign_are_in_the_master_file(tmp_path):
    """HDF5 reads the names that the master file points to as patterns."""
    h5py = pytest.importorskip("h5py")
    write(tmp_path / "out", [{"a%%b": np.int64(n), "rate%base": np.float64(n)} for n in range(4)], to="hdf5", samples_per_shard=2)
    with h5py.File(tmp_path / "out" / "shard.h5") as file:
        assert file["data/a%%b"][:].tolist() == [0, 1, 2, 3] and file["data/rate%base"][:].tolist() == [0.0, 1.0, 2.0, 3.0]


def test_damaged_hdf5_is_refused(tmp_path):
    """Damage that libhdf5 finds, in one number, never gives other values."""
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "a.h5"

    def change(what, to):
        """The file with bytes of the first place of `what` as `to(bytearray, place)` makes them."""
        with h5py.File(path, "w") as file:
            file.create_dataset("x", data=np.arange(60, dtype="i4").reshape(20, 3), chunks=(7, 3), compression="gzip")
            file.create_dataset("s", data=[f"word{i}" for i in range(20)], dtype=h5py.string_dtype())
        data = bytearray(path.read_bytes())
        to(data, data.find(what))
        path.write_bytes(data)

    def refused(text):
        with pytest.raises(packhorse.ContentError, match=text):
            packhorse.pack(path, tmp_path / "o", to="parquet")

    # Of a leaf of a chunk index: a head of 24 bytes, then for each chunk size, mask, offsets of rows, columns and elements, and address.
    row, element = 24 + 40 + 8, 24 + 8 + 16
    change(b"TREE\1\0", lambda data, at: struct.pack_into("<Q", data, at + row, 6))
    refused("chunk between others")
    change(b"TREE\1\0", lambda data, at: struct.pack_into("<Q", data, at + row, 0))
    refused("two chunks in one place")
    change(b"TREE\1\0", lambda data, at: struct.pack_into("<Q", data, at + element, 4))
    refused("begins inside an element")
    # An object of the heap that is longer than the text that refers to it.
    change(b"GCOL\1", lambda data, at: struct.pack_into("<Q", data, at + 16 + 8, 8))
    refused("in the global heap")
    # A layout message of another type.
    change(struct.pack("<HH", 8, 24), lambda data, at: struct.pack_into("<H", data, at, 24))
    refused("dataset without a layout")
    change(b"TREE\1\0", lambda data, at: None)
    packhorse.pack(path, tmp_path / "o", to="parquet")
    assert len(packhorse.open(tmp_path / "o")) == 20


def test_arrow_streams_and_old_messages(tmp_path):
    """Streams that were joined lose nothing in silence, and files with messages of version 4 are read."""
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"x": [1, 2, 3], "s": pa.array(["a", "b", "a"]).dictionary_encode()})
    options = pa.ipc.IpcWriteOptions(metadata_version=pa.ipc.MetadataVersion.V4)
    with pa.ipc.new_file(tmp_path / "v4.arrow", table.schema, options=options) as file:
        file.write_table(table)
    packhorse.pack(tmp_path / "v4.arrow", tmp_path / "o", to="parquet")
    assert [sample["x"] for sample in packhorse.open(tmp_path / "o")] == [1, 2, 3]
    with pa.ipc.new_stream(tmp_path / "one.arrows", table.schema) as file:
        file.write_table(table)
    stream = (tmp_path / "one.arrows").read_bytes()
    (tmp_path / "two.arrows").write_bytes(stream + stream)
    with pytest.raises(packhorse.ContentError, match="joined with cat"):
        packhorse.pack(tmp_path / "two.arrows", tmp_path / "p", to="parquet")
    (tmp_path / "padded.arrows").write_bytes(stream + bytes(24))
    packhorse.pack(tmp_path / "padded.arrows", tmp_path / "q", to="parquet")
    assert len(packhorse.open(tmp_path / "q")) == 3


def test_a_schema_is_a_dictionary_too(tmp_path):
    """As `cast` and `split` are."""
    (tmp_path / "a.csv").write_text("v,w\n1,2\n")
    packhorse.pack(tmp_path / "a.csv", tmp_path / "o", to="parquet", schema={"v": "text"})
    dataset = packhorse.open(tmp_path / "o")
    assert dataset[0]["v"] == "1" and dataset[0]["w"] == 2


def test_settings_have_names_in_signatures():
    """`help()`, notebooks and type checkers know every setting."""
    import inspect

    from packhorse import _pack, _packhorse
    from packhorse._loader import LoaderSettings

    declared = {name for name, *_ in _packhorse.settings()} - {"input", "to", "out", "from"}
    assert declared | {"from_", *_pack._HOW} == set(_pack.PackSettings.__annotations__)
    for called in (packhorse.pack, packhorse.append, packhorse.convert, packhorse.tokenize, packhorse.Writer):
        assert declared <= set(inspect.signature(called).parameters), called
    of_loaders = set(inspect.signature(packhorse.Loader).parameters) - {"dataset"}
    assert of_loaders == set(inspect.signature(packhorse.Dataset.loader).parameters) - {"self"}
    assert of_loaders == {"batch", *LoaderSettings.__annotations__}


def test_settings_that_are_false_and_paths_that_are_bytes(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("a")
    source, out = str(tmp_path / "in"), str(tmp_path / "out")
    for name in ("on_error", "name", "key_ends"):
        with pytest.raises(TypeError, match=f"{name} can't be False"):
            packhorse.pack(source, out, to="webdataset", progress=False, **{name: False})
    packhorse.pack(source, tmp_path / "off", to="webdataset", progress=False, index=False, decode=False, symlinks=False, shuffle=False)
    assert not (tmp_path / "off" / "shardindex.json").exists()
    packhorse.pack(source, tmp_path / "plain", to="parquet", progress=False, compression=False)
    pq = pytest.importorskip("pyarrow.parquet")
    file = pq.ParquetFile(tmp_path / "plain" / "shard-000000.parquet")
    assert file.metadata.row_group(0).column(0).compression == "UNCOMPRESSED"
    for value in (False, None):
        with pytest.raises(TypeError, match="shuffle"):
            packhorse.pack(source, out, to="webdataset", progress=False, sufle=value)
    with pytest.raises(TypeError, match="verify is"):
        packhorse.pack(source, out, to="webdataset", progress=False, verify="never")
    (tmp_path / "in" / "b.bin").write_text("b")
    for n, some in enumerate((["*.bin"], {"*.bin"}, frozenset({"*.bin"}), {"*.bin": 1}.keys(), np.array(["*.bin"]), (one for one in ["*.bin"]))):
        packhorse.pack(source, tmp_path / f"some{n}", to="webdataset", progress=False, exclude=some)
        assert list(packhorse.open(tmp_path / f"some{n}").fields) == ["txt"]
    (tmp_path / "in" / "b.bin").unlink()
    packhorse.pack(source, tmp_path / "np", to="webdataset", progress=False, orient=np.False_, dedup=np.True_, memory=False)
    for verify in (True, False, "on", "off", None):
        packhorse.pack(source.encode(), out.encode(), to="webdataset", progress=False, rows=False, verify=verify)
    assert packhorse.open(out).keys == ["a"]
    with pytest.raises(TypeError):
        packhorse.pack(source, 5, to="webdataset", progress=False)
    assert packhorse.pack(source, tmp_path / "none", to="webdataset", progress=False, include=[b"*.txt"]).samples == 1


@pytest.mark.parametrize(
    ("to", "bad"),
    [("parquet", {"cls": 7}), ("webdataset", {"__key__": "k" * 300}), ("webdataset", {"__key__": "a//b"})],
)
@pytest.mark.parametrize("arrays", [False, True])
def test_a_bad_sample_costs_a_writer_itself_alone(tmp_path, to, bad, arrays):
    errors, x = [], np.arange(2) if arrays else 0
    with packhorse.Writer(tmp_path / "out", to=to, class_names=["a", "b"]) as writer:
        for number in range(600):
            try:
                writer.write({"x": x + number, "cls": 0, **(bad if number in (10, 300, 301) else {})})
            except packhorse.Error as error:
                errors.append(str(error))
    assert len(errors) == 2 and writer.samples == 597
    assert "2 samples of the last" in errors[1]
    if to == "parquet":
        numbers = packhorse.open(tmp_path / "out").batch(range(597), {"x": "x"})["x"].numpy().reshape(597, -1)[:, 0]
        assert numbers.tolist() == [n for n in range(600) if n not in (10, 300, 301)]
    assert len(packhorse.open(tmp_path / "out")) == 597


def test_an_error_at_the_end_of_a_writer_leaves_nothing(tmp_path):
    with pytest.raises(packhorse.Error, match="label 5") as raised:
        with packhorse.Writer(tmp_path / "out", class_names=["a", "b"]) as writer:
            writer.write({"cls": 5})
    assert raised and not (tmp_path / "out").exists()
    # The error is still there, and the folder is free.
    with packhorse.Writer(tmp_path / "out", class_names=["a", "b"]) as writer:
        writer.write({"cls": 1})
    # Without `with`, the rest can still be published.
    writer = packhorse.Writer(tmp_path / "other", class_names=["a", "b"])
    writer.write({"cls": 1})
    writer.write({"cls": 5})
    with pytest.raises(packhorse.Error, match="label 5"):
        writer.close()
    assert writer.close().samples == 1


def test_paths_may_come_from_any_iterable(tmp_path):
    for folder in ("a", "b", "c"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"{folder}.txt").write_text(folder)
    packed = packhorse.pack((tmp_path / name for name in ("a", "b")), tmp_path / "out", to="webdataset")
    assert packed.samples == 2
    assert packhorse.append(tmp_path / "out", iter([tmp_path / "c"])).samples == 1
    assert len(packhorse.open(tmp_path / "out")) == 3


def test_what_a_writer_can_not_store_has_a_remedy(tmp_path):
    """The remedy that an error names works."""
    for value, hint, remedy in [
        (datetime.datetime(2026, 1, 2), "numpy.datetime64", lambda value: np.datetime64(value)),
        (decimal.Decimal("1.5"), "str(value)", str),
        (np.array(["a", "b"]), "json.dumps(value.tolist())", lambda value: json.dumps(value.tolist())),
        (np.array(["a", None], dtype=object), "json.dumps(value.tolist())", lambda value: json.dumps(value.tolist())),
        ({"a": 1}, "json.dumps", json.dumps),
    ]:
        with pytest.raises(packhorse.ContentError) as raised:
            packhorse.pack([{"x": value}], tmp_path / "bad", to="parquet")
        assert hint in raised.value.hint, raised.value
        assert packhorse.pack([{"x": remedy(value)}], tmp_path / f"good-{type(value).__name__}-{hint[:4]}", to="parquet", replace=True).samples == 1


def test_media_without_an_extension_are_told(tmp_path):
    """Readers of tars decode by extension, which Hugging Face's columns lack."""
    datasets = pytest.importorskip("datasets")
    feature = datasets.Features({"image": datasets.Image(), "jpg": datasets.Image()})
    rows = [{"image": {"bytes": b"x", "path": None}, "jpg": {"bytes": b"y", "path": None}}]
    datasets.Dataset.from_list(rows, features=feature).to_parquet(str(tmp_path / "a.parquet"))
    with pytest.warns(UserWarning, match="these have none: image; `field=image=EXTENSION`"):
        packhorse.pack(tmp_path / "a.parquet", tmp_path / "tars", to="webdataset")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        packhorse.pack(tmp_path / "a.parquet", tmp_path / "arrow", to="arrow")


def test_annotations_of_lists(tmp_path):
    """Lists, several rows of a sample, and splits by lists, as keywords."""
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(4):
        (folder / f"{number}.jpg").write_bytes(b"x")
    (tmp_path / "rows.txt").write_text("0 cat\n1  dog\n0 cow\n")
    (tmp_path / "train.txt").write_text("0\n1\n")
    (tmp_path / "val.txt").write_text("2\n")
    with pytest.warns(UserWarning, match="without a row in the metadata|on no list"):
        packhorse.pack(
            folder, tmp_path / "out", to="parquet",
            metadata=tmp_path / "rows.txt", key="column1", metadata_read={"delimiter": "spaces", "header": "none"}, metadata_rows="list",
            split=f"lists:train={tmp_path}/train.txt,val={tmp_path}/val.txt",
        )  # fmt: skip
    data = packhorse.open(tmp_path / "out")
    assert [json.loads(sample["json"]) for sample in data.split("train")] == [
        [{"column1": 0, "column2": "cat"}, {"column1": 0, "column2": "cow"}],
        [{"column1": 1, "column2": "dog"}],
    ]
    assert [sample["json"] for sample in data.split("val")] == ["[]"]


def test_a_writer_takes_arrays_of_bytes_of_a_fixed_length(tmp_path):
    for number, to in enumerate(["parquet", "hdf5", "webdataset"]):
        names = np.array([b"a", b"bc"])
        with packhorse.Writer(tmp_path / str(number), to=to) as writer:
            writer.write({"x": names})
        found = packhorse.open(tmp_path / str(number))[0]
        value = found["x"] if "x" in found else np.load(io.BytesIO(found["x.npy"]))
        assert value.dtype == "S2" and value.tolist() == names.tolist()
    for number, value in enumerate(([b"\0"], (b"ab", b"c\0"))):
        packhorse.pack(iter([{"x": value}]), tmp_path / f"list{number}", to="parquet")
        assert packhorse.open(tmp_path / f"list{number}")[0]["x"] == list(value)
    with pytest.raises(packhorse.ContentError, match="numpy.array"), packhorse.Writer(tmp_path / "nested", to="parquet") as writer:
        writer.write({"x": [[b"a"], [b"c\0"]]})
    with pytest.raises(packhorse.ContentError), packhorse.Writer(tmp_path / "empty", to="parquet") as writer:
        writer.write({"x": np.zeros(2, [("a", "S0")])["a"]})


def test_a_writer_that_lost_samples_makes_no_dataset(tmp_path):
    """An error of the storage ends a writer: the samples that were handed over with it are gone."""
    out = tmp_path / "shards"
    writer = packhorse.Writer(out, to="webdataset")
    out.write_bytes(b"a file in the place of the folder")
    with pytest.raises(packhorse.Error):
        for number in range(600):
            writer.write({"cls": number})
    out.unlink()
    for go_on in (lambda: writer.write({"cls": 0}), writer.close):
        with pytest.raises(packhorse.ConfigError, match="ended by an error"):
            go_on()
    assert not out.exists()


def test_values_that_are_too_long_are_left_out(tmp_path):
    """An array of 2^31 elements or more costs its sample, and no memory."""
    with packhorse.Writer(tmp_path / "shards", to="arrow", ragged=True) as writer:
        writer.write({"x": np.zeros(3, np.uint8)})
        for long in (np.broadcast_to(np.uint8(1), (1 << 31,)), np.broadcast_to(np.uint8(1), (1 << 16, 1 << 15))):
            with pytest.raises(packhorse.LimitError, match="field x has a length of 2147483648"):
                writer.write({"x": long})
        writer.write({"x": np.ones(2, np.uint8)})
    assert [sample["x"].tolist() for sample in packhorse.open(tmp_path / "shards")] == [[0, 0, 0], [1, 1]]


def test_names_of_classes_that_some_tables_lack_are_told(tmp_path):
    """Numbers of one column stand for names in one table alone: the names are left out, and a warning says so."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    feature = {"info": {"features": {"label": {"names": ["cat", "dog"], "_type": "ClassLabel"}}}}
    plain = pa.table({"label": pa.array([0, 1], pa.int64())})
    (tmp_path / "in").mkdir()
    pq.write_table(plain.replace_schema_metadata({"huggingface": json.dumps(feature)}), tmp_path / "in" / "0.parquet")
    pq.write_table(plain, tmp_path / "in" / "1.parquet")
    with pytest.warns(UserWarning, match=r"label are classes with names in some inputs, such as .*0\.parquet"):
        packhorse.pack(tmp_path / "in", tmp_path / "out", "parquet")
    assert packhorse.open(tmp_path / "out").classes == []


@pytest.mark.parametrize("to", ["parquet", "webdataset", "arrow", "hdf5"])
def test_columns_of_any_nesting_as_json(tmp_path, to):
    """Chats with missing parts, which no column of lists holds, are kept whole as JSON."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    calls = [{"name": "f", "arguments": {"x": 0.1, "n": 2**63 - 1}}]
    chats = [
        [{"role": "user", "content": 'é "q"\n', "tool_calls": None}, {"role": "assistant", "content": None, "tool_calls": calls}],
        [],
        None,
        [{"role": "user", "content": "", "tool_calls": []}],
    ]
    table = pa.table({"id": list(range(4)), "messages": chats, "scores": pa.array([[("a", 1.5)], [], None, [("b", 1e30)]], pa.map_(pa.string(), pa.float32()))})
    pq.write_table(table, tmp_path / "chats.parquet")
    with pytest.raises(packhorse.UnsupportedError, match='read="json=NAME"'):
        packhorse.pack(tmp_path / "chats.parquet", tmp_path / "refused", to)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ends = ".json" if to == "webdataset" else ""
        names = [f"{name}={name}{ends}" for name in ("messages", "scores") if ends]
        packhorse.pack(tmp_path / "chats.parquet", tmp_path / "out", to, from_="parquet", read="json=messages,scores", field=names)
    dataset = packhorse.open(tmp_path / "out")
    found = [sample.get(f"messages{ends}") for sample in dataset]
    assert [None if text is None else json.loads(text) for text in found] == chats
    scores = [sample.get(f"scores{ends}") for sample in dataset]
    assert [text and json.loads(text) for text in scores] == [{"a": 1.5}, {}, None, {"b": 1e30}]
    assert len(dataset.where(f"messages{ends}.1.tool_calls.0.arguments.n == {2**63 - 1}")) == 1
    with pytest.raises(packhorse.ConfigError, match="did you mean messages"):
        packhorse.open(tmp_path / "chats.parquet", read={"json": "mesages"})
