"""Samples that are chosen, and views that keep the choice in a folder."""

import os
import pickle

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
