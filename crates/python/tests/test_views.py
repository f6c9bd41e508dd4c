"""Samples that are chosen, and views that keep the choice in a folder."""

import json
import os
import pickle
import shutil

import numpy as np
import packhorse
import pytest
from conftest import write


def captions(count):
    for number in range(count):
        yield {"__key__": f"k{number:05}", "cls": number % 5, "txt": f"caption {number % 3}", "x": number / 2}


@pytest.fixture(scope="module", params=["webdataset", "hdf5"])
def base(request, tmp_path_factory):
    return write(tmp_path_factory.mktemp("base") / "out", captions(60), to=request.param, samples_per_shard=7)


def column(ds, name):
    """The field of that name, whatever it is called in this format."""
    return next(field for field in ds.fields if field.split(".")[0] == name)


def test_values_choose_samples(base):
    cls = column(base, "cls")
    chosen = base.where(f"{cls} >= 3 and {column(base, 'x')} < 20")
    assert chosen.keys == [f"k{number:05}" for number in range(60) if number % 5 >= 3 and number / 2 < 20]
    assert chosen.where(f"{cls} == 4", keys=["k00004", "k00009"]).keys == ["k00004", "k00009"]
    assert pickle.loads(pickle.dumps(chosen)).keys == chosen.keys
    # Another process takes the numbers, and does not look for the samples again.
    assert b"cls" not in pickle.dumps(chosen)
    with pytest.raises(packhorse.ConfigError, match="no field colour"):
        base.where("colour == 1")
    with pytest.raises(packhorse.ConfigError, match="can't understand"):
        base.where(f"{cls} is 1")


def test_folds_divide(base):
    folds = [set(base.fold(i, 4, seed=1).keys) for i in (1, 2, 3, 4)]
    assert sum(map(len, folds)) == 60 and set().union(*folds) == set(base.keys)
    for i, fold in enumerate(folds, 1):
        assert set(base.without_fold(i, 4, seed=1).keys) == set(base.keys) - fold
    with pytest.raises(packhorse.ConfigError, match="no fold 5 of 4"):
        base.fold(5, 4)


def test_a_view_opens_like_a_dataset(base, tmp_path):
    chosen = base.subset([40, 3, 4, 5]).select([column(base, "cls")])
    root = chosen.write_view(tmp_path / "v")
    assert sorted(os.listdir(tmp_path / "v")) == ["selection.bin", "view.json"]
    opened = packhorse.open(tmp_path / "v")
    assert (opened.keys, opened.fields, len(opened)) == (chosen.keys, chosen.fields, 4)
    assert list(opened) == list(chosen)
    assert opened.write_view(tmp_path / "v2") == root
    loader = opened.loader(2, seed=1)
    seen = [key for _ in range(2) for batch in loader for key in batch.keys]
    assert sorted(seen) == sorted(chosen.keys * 2)
    assert packhorse.verify(tmp_path / "v", full=True).whole
    with pytest.raises(packhorse.ConfigError, match="no field txt"):
        opened.select(["txt"])
    with pytest.raises(packhorse.ConfigError, match="one sealed dataset"):
        packhorse.concat([opened, base]).write_view(tmp_path / "w")


def test_columns_of_a_table_are_fields(base, tmp_path):
    table = tmp_path / "scores.csv"
    table.write_text("id,score,name\n" + "".join(f"k{number:05},{number / 4},n{number}\n" for number in range(60)))
    scored = base.join(table, "id")
    assert [sample["score"] for sample in scored] == [number / 4 for number in range(60)]
    assert scored[7]["name"] == "n7" and set(base.fields) < set(scored.fields)
    good = scored.where("score >= 10").select(["score"])
    assert good.keys == [f"k{number:05}" for number in range(40, 60)]
    assert [batch["score"].numpy().tolist() for batch in good.loader(20, shuffle="sequential")] == [[n / 4 for n in range(40, 60)]]
    assert pickle.loads(pickle.dumps(good))[0]["score"] == 10.0
    root = good.write_view(tmp_path / "v")
    opened = packhorse.open(tmp_path / "v")
    assert list(opened) == list(good) and opened.write_view(tmp_path / "v2") == root
    assert set(base.join(table, "id", columns=["score"]).fields) == {*base.fields, "score"}


def test_rows_that_lack_or_are_left_over_are_told(base, tmp_path):
    table = tmp_path / "few.csv"
    table.write_text("key,score\nk00001,5\nk99999,6\n")
    with pytest.raises(packhorse.ConfigError, match="k00000"):
        base.join(table)
    with pytest.warns(UserWarning, match="1 row .* k99999"):
        filled = base.join(table, fill_missing=True)
    assert filled.fields["score"] and filled[1]["score"] == 5 and filled[0].get("score") is None
    with pytest.raises(packhorse.ConfigError, match="no_such"):
        base.join(table, "no_such")
    with pytest.raises(packhorse.ConfigError):
        base.join(tmp_path / "none.csv")


def test_rows_belong_to_the_samples_of_exactly_their_keys(tmp_path):
    """What follows a dot may be a part of a key, and not an extension; keys may be given as they were before escaping."""
    table = tmp_path / "t.csv"

    def joined(keys, lines, **settings):
        table.write_text("key,v\n" + "".join(f"{line}\n" for line in lines))
        out = tmp_path / f"d{len(list(tmp_path.iterdir()))}"
        data = write(out, ({"__key__": key, "x": number} for number, key in enumerate(keys)), to=to)
        return [sample.get("v") for sample in data.join(table, **settings)]

    for to in ("parquet", "webdataset"):
        assert joined(["v1", "v1.5"], ["v1.5,15"], fill_missing=True) == [None, 15]
        assert joined(["v1", "v1.5"], ["v1.5,15", "v1,1"]) == [1, 15]
        assert joined(["img 1", "a/img 0.v2"], ["img 1,1", "a/img 0.v2,2"]) == [1, 2]
        assert joined(["a/1", "b/2"], ["a/1.jpg,1", "2.png,2"]) == [1, 2]
        with pytest.raises(packhorse.ConfigError, match="2 of 2 samples have no row"):
            joined(["s/v1", "s/v2"], ["v1.5,15", "v2.7,27"])
        with pytest.raises(packhorse.ConfigError, match="several rows of the table name files of the sample 1"):
            joined(["1"], ["1.jpg,1", "1.png,2"])


def test_names_of_files_where_keys_have_dots(tmp_path):
    """Where keys end at the last dot, `a.v2.txt` is a file of `a.v2`, and no other sample gets its row."""
    folder = tmp_path / "g"
    folder.mkdir()
    for name in ("a.txt", "a.v2.txt", "b.v1.txt"):
        (folder / name).write_text(name)
    packed = {ends: packhorse.pack(folder, tmp_path / ends, to="webdataset", key_ends=ends, progress=False) for ends in ("last-dot", "first-dot")}
    assert packed["last-dot"].samples == 3
    table = tmp_path / "t.csv"

    def joined(lines, ends="last-dot"):
        table.write_text("file,v\n" + "".join(f"{line}\n" for line in lines))
        view = packhorse.open(tmp_path / ends).join(table, key="file", fill_missing=True)
        return {sample["__key__"]: sample.get("v") for sample in view}

    assert joined(["a.v2.txt,2"]) == {"a": None, "a%2Ev2": 2, "b%2Ev1": None}
    assert joined(["a.v2.txt,2", "a.txt,1", "b.v1.txt,3"]) == {"a": 1, "a%2Ev2": 2, "b%2Ev1": 3}
    assert joined(["a.v2.txt,2", "b.v1.txt,3"], "first-dot") == {"a": 2, "b": 3}
    with pytest.raises(packhorse.ConfigError, match="several rows"):
        joined(["a.v2.txt,2", "a.txt,1"], "first-dot")


def test_keys_are_found_as_they_were_given(tmp_path):
    data = write(tmp_path / "d", [{"__key__": "img 0.v2", "x": 1}, {"__key__": "b", "x": 2}])
    assert data.keys == ["img%200%2Ev2", "b"]
    for key in ("img 0.v2", "img%200%2Ev2"):
        assert data.where(keys=[key]).keys == ["img%200%2Ev2"]


def test_rows_of_files_of_one_name_have_keys_of_their_own(tmp_path):
    """As Hugging Face has them: `train/0000.parquet` and `test/0000.parquet`."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    for split, start in (("train", 0), ("test", 100)):
        (tmp_path / split).mkdir()
        pq.write_table(pa.table({"x": range(start, start + 10)}), tmp_path / split / "0000.parquet")
    dataset = packhorse.open(tmp_path / "{train,test}" / "*.parquet")
    assert len(set(dataset.keys)) == 20 and dataset.keys[0].endswith("/0000.parquet/0")
    assert [sample["x"] for sample in dataset.where(keys=["test/0000.parquet/3"])] == [103]
    loader = dataset.loader(4, skip=["train/0000.parquet/3"], remainder="uneven", fields={"x": "x"})
    left = sorted(x for batch in loader for x in batch["x"].tolist())
    assert left == [x for x in [*range(10), *range(100, 110)] if x != 3]
    assert packhorse.open(tmp_path / "train" / "*.parquet").keys[3] == "0000.parquet/3"


def test_masks_and_numbers_of_other_libraries(base):
    """What chooses samples: sequences of numbers or Booleans, of any library."""
    few, mask = base[:4], [False, True, False, True]
    wanted = [few.keys[1], few.keys[3]]
    numbers = {}
    np = pytest.importorskip("numpy")
    numbers["numpy"] = [np.array(mask), np.array(mask, object), np.array([1, 3]), np.array([-3, -1])]
    try:
        import torch

        numbers["torch"] = [torch.tensor(mask), torch.tensor([1, 3])]
    except ImportError:
        pass
    try:
        import pandas as pd

        numbers["pandas"] = [pd.Series(mask), pd.Series(mask, dtype="boolean"), pd.Series([1, 3])]
        numbers["pandas"] += [pd.Series(mask, dtype="bool[pyarrow]")]
    except ImportError:
        pass
    try:
        import polars as pl

        numbers["polars"] = [pl.Series(mask), pl.Series([1, 3])]
    except ImportError:
        pass
    try:
        import pyarrow as pa

        numbers["pyarrow"] = [pa.array(mask), pa.array([1, 3])]
    except ImportError:
        pass
    for chosen in [mask, [1, 3], range(1, 4, 2), *sum(numbers.values(), [])]:
        assert few[chosen].keys == wanted and few.subset(chosen).keys == wanted, repr(chosen)
    assert few[np.array([1])].keys == few.keys[1:2] and few[np.int64(1)]["__key__"] == few.keys[1]
    if "torch" in numbers:
        assert few[torch.tensor([1])].keys == few.keys[1:2] and few[torch.tensor(1)]["__key__"] == few.keys[1]
        assert few[:1][torch.tensor([False])].keys == []
    flags = [np.bool_(flag) for flag in mask], [None, True, None, True], *([list(numbers["torch"][0])] if "torch" in numbers else [])
    for chosen in flags:
        assert few[chosen].keys == wanted, repr(chosen)
    for wrong in (b"\x03" + b"\0" * 7, "1"):
        with pytest.raises(TypeError):
            few.subset(wrong)


def test_which_samples_have_a_field(tmp_path):
    samples = [{"__key__": f"k{n}", "n": n, **({"txt": f"caption {n}"} if n % 3 else {})} for n in range(9)]
    for to in ("parquet", "webdataset"):
        ds = write(tmp_path / to, samples, to=to, columns={"txt": "str"})
        fields = {"has": packhorse.Present(column(ds, "txt")), "txt": packhorse.Bytes(column(ds, "txt"), required=False)}
        batch = ds.batch(range(9), fields)
        assert batch["has"].tolist() == [int(n % 3 > 0) for n in range(9)]
        assert [len(text) for text in batch["txt"]] == [9 * (n % 3 > 0) for n in range(9)]
        chosen = ds.where(f"{column(ds, 'txt')} is null or {column(ds, 'n')} in [4, 5]")
        assert chosen.keys == ["k0", "k3", "k4", "k5", "k6"]


def test_a_dataset_is_a_sequence_with_keys(base, tmp_path):
    assert "k00001" in base and "k1" not in base
    with pytest.raises(TypeError):
        1 in base
    for wrong in (60, -61, [0, 60], [-61]):
        with pytest.raises(IndexError):
            base[wrong]
    with pytest.raises(packhorse.MissingFileError, match="no such file of keys"):
        base.where(keys=tmp_path / "none")
    np = pytest.importorskip("numpy")
    some = base.loader(5, skip=np.array(base.keys[:50]), shuffle="sequential")
    assert [key for batch in some for key in batch.keys] == base.keys[50:]


def test_types_are_those_of_numpy_too(tmp_path):
    np = pytest.importorskip("numpy")
    rows = [{"v": "1.5", "w": np.float32(n)} for n in range(3)]
    ds = write(tmp_path / "out", rows, to="parquet", columns={"w": np.float32}, shard_size=np.int64(10**6))
    for dtype in ("float32", np.float32, np.dtype("float32")):
        assert ds.batch([0], {"v": packhorse.Number("v", dtype)})["v"].dtype == "float32"
    # Text that is too large for a type is not infinite.
    big = write(tmp_path / "big", [{"v": text} for text in ("1e39", "inf", "-1e400", "1")], to="parquet")
    for dtype, bad in (("float32", [0, 2]), ("float64", [2])):
        for at in range(4):
            read = lambda: big.batch([at], {"v": packhorse.Number("v", dtype)})["v"].tolist()
            if at in bad:
                with pytest.raises(packhorse.ContentError, match="not a valid"):
                    read()
            else:
                assert read() == [[float("1e39") if dtype == "float64" else 0], [float("inf")], 0, [1]][at]
    for wrong in ({"size": 0}, {"size": (3, 0)}, {"size": 3, "flip": 2}, {"size": 3, "flip": float("nan")}):
        with pytest.raises(ValueError):
            packhorse.Image("jpg", **wrong)


def test_caches_of_hugging_face_are_not_samples(tmp_path):
    """`map`, `filter` and `shuffle` leave their results in the folder of `save_to_disk`."""
    hf = pytest.importorskip("datasets")
    hf.Dataset.from_dict({"x": list(range(100))}).save_to_disk(tmp_path / "saved")
    saved = hf.load_from_disk(tmp_path / "saved")
    assert sum(saved.map(lambda row: {"x": row["x"] + 1000})["x"]) > 100000
    assert len(saved.filter(lambda row: row["x"] < 20)) == 20
    assert len(list((tmp_path / "saved").glob("cache-*.arrow"))) == 2
    opened = packhorse.open(tmp_path / "saved")
    assert sorted(row["x"] for row in opened) == list(range(100))


def test_tables_that_are_opened_have_their_classes(tmp_path):
    """The names of a `ClassLabel` are those of the dataset, as after packing."""
    hf = pytest.importorskip("datasets")
    features = hf.Features({"text": hf.Value("string"), "label": hf.ClassLabel(names=["neg", "pos"])})
    hf.Dataset.from_dict({"text": ["a", "b"], "label": [1, 0]}, features=features).to_parquet(tmp_path / "t.parquet")
    opened = packhorse.open(tmp_path / "t.parquet")
    assert (list(opened.classes), [row["label"] for row in opened]) == (["neg", "pos"], [1, 0])
    packhorse.pack(tmp_path / "t.parquet", tmp_path / "packed", to="hdf5")
    for data in (opened, packhorse.open(tmp_path / "packed")):
        assert [row["text"] for row in data.where("label == 'pos'")] in (["a"], [b"a"])
        with pytest.raises(packhorse.ConfigError, match='no class is called "positive"'):
            data.where("label == 'positive'")


def test_labels_that_are_names_are_compared_as_text(tmp_path):
    """Without a class list, members `cls` of a tar may be names."""
    names = ["cat", "dog", "cat"]
    data = write(tmp_path / "data", [{"__key__": f"k{at}", "cls": name.encode()} for at, name in enumerate(names)])
    assert list(data.where("cls == 'cat'").keys) == ["k0", "k2"]
    assert list(data.where("cls in ['dog', 'ant']").keys) == ["k1"]


def test_settings_of_a_reader_are_numbers_and_lists_too(tmp_path):
    """`open` takes what `pack` takes."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"], file["y"], file["z"] = np.arange(6), np.arange(6.0), np.zeros(3)
    opened = packhorse.open(tmp_path / "a.h5", read={"datasets": ["/x", "/y"]})
    assert sorted(opened.fields) == ["x", "y"] and opened[5]["x"] == 5


def test_folders_that_are_no_dataset_say_what_is(tmp_path):
    """A folder of tars and tables, a damaged tar among others, and a folder of splits."""
    pq = pytest.importorskip("pyarrow.parquet")
    folder = tmp_path / "laion"
    write(tmp_path / "s", [{"__key__": f"{number}", "txt": "t" * 4000} for number in range(9)], samples_per_shard=3)
    folder.mkdir()
    for shard in (tmp_path / "s").glob("*.tar"):
        shutil.copy(shard, folder)
    pq.write_table(pytest.importorskip("pyarrow").table({"url": ["a"]}), folder / "00000.parquet")
    with pytest.raises(packhorse.ConfigError, match=r"such as .*laion/\*\.parquet or .*laion/\*\.tar"):
        packhorse.open(folder)
    assert len(packhorse.open(f"{folder}/*.tar")) == 9
    last = folder / "shard-000001.tar"
    last.write_bytes(last.read_bytes()[:3000])
    with pytest.raises(packhorse.ContentError, match="open the others alone, or pack the shards"):
        packhorse.open(f"{folder}/*.tar")
    splits = tmp_path / "splits"
    (splits / "train").mkdir(parents=True)
    (splits / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    with pytest.raises(packhorse.ConfigError, match=r"open its parts, such as .*splits/train"):
        packhorse.open(splits)


def test_conditions_look_into_columns_of_json(tmp_path):
    """A column of objects that JSON lines give is JSON, whatever its name."""
    lines = [json.dumps({"id": number, "messages": [{"role": ["user", "system"][number % 2], "n": number}]}) for number in range(9)]
    (tmp_path / "chats.jsonl").write_text("\n".join(lines))
    packhorse.pack(tmp_path / "chats.jsonl", tmp_path / "shards", "parquet", from_="jsonl")
    dataset = packhorse.open(tmp_path / "shards")
    assert len(dataset.where("messages.0.role == 'system'")) == 4
    assert len(dataset.where("messages.0.n >= 7")) == 2
