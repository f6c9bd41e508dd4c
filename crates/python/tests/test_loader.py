"""Loaders: order, states, ranks, and views of datasets."""

import gc
import json
import os
import pickle
import random
import time
import warnings

import numpy as np
import packhorse
import pytest
from conftest import labels, mixed, numbered, run_well, write


def epochs(loader, count):
    """The numbers of several epochs."""
    return [labels(loader) for _ in range(count)]


# --- order ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shuffle", ["blocks:16", "blocks:2", "full", "sequential"])
def test_an_epoch_has_every_sample_once(numbers, shuffle):
    """Each `for` gives every sample once, in batches of the size asked for."""
    loader = numbers.loader(10, shuffle=shuffle)
    assert len(loader) == 10
    for epoch in range(3):
        batches = [batch["cls"].tolist() for batch in loader]
        assert [len(batch) for batch in batches] == [10] * 10
        assert sorted(sum(batches, [])) == list(range(100))
        assert loader.epoch == epoch or loader.epoch == epoch + 1


def test_epochs_differ(numbers):
    """Two `for`s have different orders; `sequential` has the stored one."""
    first, second = epochs(numbers.loader(10), 2)
    assert first != second
    assert first != sorted(first)
    assert epochs(numbers.loader(10, shuffle="sequential"), 2) == [list(range(100))] * 2


def test_the_seed_decides_the_order(numbers):
    """Equal seeds have equal orders, whatever the number of threads; other seeds have others."""
    one = epochs(numbers.loader(10, seed=5, threads=1, readers=1), 2)
    assert one == epochs(numbers.loader(10, seed=5, threads=2, ahead=7), 2)
    assert one != epochs(numbers.loader(10, seed=6), 2)


def test_each_format_loads(of_each_format):
    """Every format has every sample once in an epoch, with its values."""
    for batch in of_each_format.loader(7, remainder="uneven", seed=3):
        for row, number in enumerate(batch.numbers):
            assert batch.keys[row] == f"k{number:05}"
            assert batch["cls"][row] == number
            assert batch["txt"][row].tobytes().decode() == f"text {number} é"
            assert batch["npy"][row].tolist() == (np.arange(6).reshape(2, 3) + number).tolist()
    assert sorted(labels(of_each_format.loader(5))) == list(range(30))


def test_what_a_batch_tells(numbers):
    """A batch knows its epoch, positions, and the numbers and keys of its samples."""
    loader = numbers.loader(10, seed=4)
    for epoch in range(2):
        for step, batch in enumerate(loader):
            assert batch.epoch == epoch
            assert batch.positions == range(10 * step, 10 * step + 10)
            assert batch.numbers == batch["cls"].tolist()
            assert batch.keys == [f"k{number:05}" for number in batch.numbers]


def test_batches_of_an_epoch_can_be_kept(numbers):
    """All batches of an epoch can be kept at once."""
    kept = list(numbers.loader(5, ahead=2))
    assert sorted(number for batch in kept for number in batch["cls"].tolist()) == list(range(100))


def test_at_is_what_was_loaded(numbers):
    """`at` gives the batch of any step and rank again."""
    for rank in range(3):
        loader = numbers.loader(8, seed=2, place=(rank, 3))
        loaded = [batch["cls"].tolist() for _ in range(2) for batch in loader]
        assert len(loaded) == 8
        asked = numbers.loader(8, seed=2, place=(0, 1))
        for step, batch in enumerate(loaded):
            assert loader.at(step)["cls"].tolist() == batch
            assert asked.at(step, rank, 3)["cls"].tolist() == batch


def test_skipped_keys_change_nothing_else(numbers, tmp_path):
    ds = numbers
    bad = [ds.batch([number]).keys[0] for number in (3, 30, 31)]
    (tmp_path / "skip.txt").write_text("\n".join(bad) + "\n")
    whole, some = ds.loader(8, seed=5), ds.loader(8, seed=5, skip=tmp_path / "skip.txt")
    assert len(whole) == len(some)
    left_out = 0
    for full, rest in zip(whole, some, strict=True):
        assert [number for number in full.numbers if number not in (3, 30, 31)] == rest.numbers
        assert whole.state_dict() == some.state_dict()
        left_out += len(full.numbers) - len(rest.numbers)
    assert left_out == 3
    assert some.at(0).numbers == pickle.loads(pickle.dumps(ds.loader(8, seed=5, skip=bad))).at(0).numbers
    with pytest.raises(packhorse.ConfigError, match="no such key"):
        ds.loader(8, skip=["no such key"])


def test_at_leaves_the_epoch_alone(numbers):
    """`at` between two batches changes nothing of those that follow."""
    wanted = labels(numbers.loader(10, seed=2))
    loader, found = numbers.loader(10, seed=2), []
    for batch in loader:
        found += batch["cls"].tolist()
        loader.at(17)
    assert found == wanted


# --- states -----------------------------------------------------------------------------------------------------------


def test_resume_at_random_steps(numbers):
    """From a state at any step a new loader goes on with the very next batch, and then with whole epochs."""
    draws = random.Random(7)
    whole = numbers.loader(6, seed=9)
    wanted = [batch["cls"].tolist() for _ in range(5) for batch in whole]
    assert len(wanted) == 80
    for _ in range(50):
        taken = draws.randrange(80 - 16)
        loader = numbers.loader(6, seed=9)
        batches = (batch for _ in range(6) for batch in loader)
        for step in range(taken):
            assert next(batches)["cls"].tolist() == wanted[step]
        state = loader.state_dict()
        again = numbers.loader(6, seed=9, threads=1)
        again.load_state_dict(pickle.loads(pickle.dumps(state)))
        following = (batch["cls"].tolist() for _ in range(6) for batch in again)
        for step in range(taken, taken + 16):
            assert next(following) == wanted[step], f"step {step} after a state at {taken}"


def test_a_state_of_other_worlds(numbers):
    """Ranks 1, then 3, then 2 share an epoch: nothing is repeated or lost."""
    state, seen = None, []
    for world, size, steps in ((1, 4, 5), (3, 4, 4), (2, 8, 2)):
        states = []
        for rank in range(world):
            loader = numbers.loader(size, seed=3, place=(rank, world))
            if state is not None:
                loader.load_state_dict(state)
            batches = iter(loader)
            for _ in range(steps):
                seen += next(batches)["cls"].tolist()
            states.append(loader.state_dict())
        assert all(other == states[0] for other in states)
        state = states[0]
    assert len(seen) == 20 + 48 + 32
    assert sorted(seen) == list(range(100))


def test_a_state_at_the_end_of_an_epoch(numbers):
    """A state taken after the last batch begins the next epoch."""
    loader = numbers.loader(10, seed=1)
    first, second = labels(loader), None
    state = loader.state_dict()
    second = labels(loader)
    again = numbers.loader(10, seed=1)
    again.load_state_dict(state)
    assert labels(again) == second != first


def test_a_state_set_inside_of_an_epoch(numbers):
    """A loader can be set back; the `for` that ran is over then."""
    loader = numbers.loader(10, seed=1)
    batches = iter(loader)
    start = loader.state_dict()
    first = [next(batches)["cls"].tolist() for _ in range(3)]
    loader.load_state_dict(start)
    with pytest.raises(RuntimeError):
        next(batches)
    batches = iter(loader)
    assert [next(batches)["cls"].tolist() for _ in range(3)] == first


@pytest.mark.parametrize("differs", ["seed", "shuffle", "dataset", "samples"])
def test_states_of_something_else(numbers, tmp_path, differs):
    """A state of another seed, shuffle or dataset is refused; the loader stays where it is."""
    loader = numbers.loader(10, seed=1)
    batches = iter(loader)
    next(batches)
    before = loader.state_dict()
    other = {
        "seed": lambda: numbers.loader(10, seed=2),
        "shuffle": lambda: numbers.loader(10, seed=1, shuffle="full"),
        "dataset": lambda: write(tmp_path / "other", mixed(100), to="arrow").loader(10, seed=1),
        "samples": lambda: numbers.take(50).loader(10, seed=1),
    }[differs]()
    with pytest.raises(packhorse.StateError) as raised:
        loader.load_state_dict(other.state_dict())
    assert raised.value.kind
    assert raised.value.code
    assert raised.value.message in str(raised.value)
    assert isinstance(raised.value, (packhorse.ConfigError, ValueError))
    assert loader.state_dict() == before


def test_the_error_of_a_state_has_its_facts(numbers):
    """The error of a state tells kind, code and hint."""
    loader = numbers.loader(10, seed=1)
    with pytest.raises(packhorse.StateError) as raised:
        loader.load_state_dict(numbers.loader(10, seed=2).state_dict())
    assert raised.value.kind == "config"
    assert raised.value.code
    assert raised.value.hint
    assert "seed" in str(raised.value)


def test_a_state_that_is_none(numbers):
    """A dictionary that is not a state is refused, and the loader still works."""
    loader = numbers.loader(10)
    for wrong in ({}, {"version": 1}, {**loader.state_dict(), "version": 99}):
        with pytest.raises(packhorse.Error):
            loader.load_state_dict(wrong)
    assert sorted(labels(loader)) == list(range(100))


def test_set_epoch(numbers):
    """`set_epoch` makes the next `for` that of the epoch."""
    wanted = epochs(numbers.loader(10, seed=8), 4)
    loader = numbers.loader(10, seed=8)
    for epoch in (2, 0, 3, 1, 1):
        loader.set_epoch(epoch)
        assert labels(loader) == wanted[epoch], f"epoch {epoch}"
    # As torch's samplers are used.
    loader = numbers.loader(10, seed=8)
    for epoch in range(4):
        loader.set_epoch(epoch)
        assert labels(loader) == wanted[epoch]


def test_set_epoch_goes_on_in_a_resumed_epoch(numbers):
    """`set_epoch` of the epoch that a state is in leaves it there."""
    wanted = epochs(numbers.loader(10, seed=8), 3)
    loader = numbers.loader(10, seed=8)
    loader.set_epoch(1)
    batches = iter(loader)
    for _ in range(4):
        next(batches)
    again = numbers.loader(10, seed=8)
    again.load_state_dict(loader.state_dict())
    again.set_epoch(1)
    iter(again)
    again.set_epoch(1)
    assert labels(again) == wanted[1][40:]
    again.set_epoch(2)
    assert labels(again) == wanted[2]
    iter(again)
    again.set_epoch(2)
    assert labels(again) == wanted[2]


def test_a_for_that_is_left_early(numbers):
    """A `for` that is left early ends its epoch: the next one is the next epoch."""
    wanted = epochs(numbers.loader(10, seed=8), 3)
    loader = numbers.loader(10, seed=8)
    for batch in loader:
        assert batch["cls"].tolist() == wanted[0][:10]
        break
    assert labels(loader) == wanted[1]
    assert labels(loader) == wanted[2]


def test_an_older_for_is_over(numbers):
    """A `for` ends when another over the same loader begins."""
    loader = numbers.loader(10)
    older = iter(loader)
    next(older)
    newer = iter(loader)
    next(newer)
    with pytest.raises(RuntimeError, match="another"):
        next(older)


def test_a_finished_iterator_stays_finished(numbers):
    """After the last batch an iterator raises StopIteration again and again."""
    batches = iter(numbers.loader(10))
    assert len(list(batches)) == 10
    for _ in range(3):
        assert next(batches, None) is None


def test_close(numbers):
    """A closed loader goes on where it was."""
    wanted = epochs(numbers.loader(10, seed=8), 2)
    loader = numbers.loader(10, seed=8)
    batches = iter(loader)
    for _ in range(3):
        next(batches)
    loader.close()
    loader.close()
    assert loader.state_dict()["consumed"] == 30
    assert labels(loader) == wanted[0][30:]
    assert labels(loader) == wanted[1]


def test_a_loader_can_be_pickled(numbers):
    """A pickled loader goes on with the next batch; so does one that has not begun."""
    wanted = labels(numbers.loader(10, seed=8))
    fresh = pickle.loads(pickle.dumps(numbers.loader(10, seed=8)))
    assert labels(fresh) == wanted
    loader = numbers.loader(10, seed=8, fields={"label": packhorse.Number("cls", "int32")})
    batches = iter(loader)
    for _ in range(4):
        next(batches)
    again = pickle.loads(pickle.dumps(loader))
    rest = [number for batch in again for number in batch["label"].tolist()]
    assert rest == wanted[40:]
    # The first loader is not changed by that.
    assert [number for batch in batches for number in batch["label"].tolist()] == wanted[40:]


# --- remainders and ranks ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("world", "batch"), [(1, 7), (3, 7), (4, 10), (2, 33)])
@pytest.mark.parametrize("remainder", ["drop", "pad", "uneven"])
def test_remainders(numbers, world, batch, remainder):
    """Ranks have equally many batches; the rest is dropped, padded or in smaller batches."""
    ranks = []
    for rank in range(world):
        loader = numbers.loader(batch, place=(rank, world), remainder=remainder, seed=6)
        found = [one["cls"].tolist() for one in loader]
        assert len(found) == len(loader)
        ranks.append(found)
    assert len({len(found) for found in ranks}) == 1
    sizes = {len(one) for found in ranks for one in found}
    seen = [number for found in ranks for one in found for number in one]
    if remainder == "drop":
        assert sizes == {batch}
        assert len(set(seen)) == len(seen) == 100 - 100 % (batch * world)
    elif remainder == "pad":
        assert sizes == {batch}
        assert set(seen) == set(range(100))
        assert len(seen) == -(-100 // (batch * world)) * batch * world
    else:
        assert max(sizes) <= batch
        assert sorted(seen) == list(range(100))


def test_padding_repeats_the_start(numbers):
    """Padding repeats samples from the start of the epoch."""
    found = labels(numbers.loader(30, remainder="pad", seed=6))
    assert len(found) == 120
    assert found[100:] == found[:20]


def test_a_batch_larger_than_the_dataset(numbers):
    """A step that needs more samples than there are gives no batch and a warning, or one batch if nothing is dropped."""
    loader = numbers.take(5).loader(10)
    with pytest.warns(UserWarning, match="no batch"):
        assert list(loader) == []
    assert sorted(labels(numbers.take(5).loader(10, remainder="uneven"))) == list(range(5))
    assert len(labels(numbers.take(5).loader(10, remainder="pad"))) == 10


def test_rank_of_the_environment(numbers, monkeypatch):
    """`place="auto"` takes rank and world from the launcher's variables."""
    monkeypatch.setenv("RANK", "2")
    monkeypatch.setenv("WORLD_SIZE", "5")
    loader = numbers.loader(4)
    assert loader.place == (2, 5)
    assert len(loader) == 5
    assert labels(loader) == labels(numbers.loader(4, place=(2, 5)))


def test_settings_of_loaders_are_checked(numbers):
    """Settings that make no sense are refused when the loader is made."""
    for wrong in (
        {"on_error": "ignore"},
        {"remainder": "keep"},
        {"place": "rank"},
        {"cache": "8GIB"},
        {"batch": 0},
        {"device": "gpu"},
        {"cache": "8 gigs"},
        {"shuffle": True},
        {"shuffle": "random"},
        {"place": (3, 2)},
        {"fields": {"label": "nothing"}},
    ):
        with pytest.raises(ValueError):
            numbers.loader(**{"batch": 10, **wrong})
    with pytest.raises(TypeError, match="there are fields, seed"):
        numbers.loader(10, colour=1)
    with pytest.raises(TypeError, match="here it is threads"):
        numbers.loader(10, num_workers=1)
    with pytest.raises(TypeError, match=r"keys=\['x'\]"):
        numbers["x"]


@pytest.mark.parametrize("cache", ["64MiB", "0.5 GB", 10_000_000, "folder"])
def test_caches(numbers, tmp_path, cache):
    """A cache in memory or in a folder changes no batch."""
    wanted = epochs(numbers.loader(10, seed=8), 2)
    place = tmp_path / "cache" if cache == "folder" else cache
    assert epochs(numbers.loader(10, seed=8, cache=place), 2) == wanted
    if cache == "folder":
        assert any(place.rglob("*"))


def test_settings_that_make_no_sense_name_themselves(numbers):
    """Also those whose types are wrong, as they come from files of settings."""
    with pytest.raises(TypeError, match="here it is batch"):
        numbers.loader(batch_size=4)
    with pytest.raises(TypeError, match="number of samples in a batch"):
        numbers.loader(seed=4)
    assert packhorse.Image("jpg", np.int64(32), crop="random", scale=[0.2, 1]).size == (32, 32)
    for wrong in ({"scale": 0.5}, {"ratio": [1]}, {"normalize": (0.5, 0.5)}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            packhorse.Image("jpg", 32, **wrong)
    assert packhorse.Image("jpg", np.array([224, 200])).size == (224, 200)
    for wrong in ((32,), True, 3.5):
        with pytest.raises(ValueError, match="size="):
            packhorse.Image("jpg", wrong)


def test_verified_batches_are_the_same(numbers):
    """`verify` compares checksums and changes no batch."""
    assert labels(numbers.loader(10, seed=8, verify=True)) == labels(numbers.loader(10, seed=8))


def test_explain_and_stats(numbers):
    """`explain` says what runs, `stats` counts batches."""
    loader = numbers.loader(10, seed=8)
    assert loader.stats()["batches"] == 0
    labels(loader)
    assert loader.stats()["batches"] == 10
    stats = loader.stats()
    assert (stats["samples"], stats["errors"], stats["skipped"]) == (100, 0, 0)
    assert stats["late"] <= 10 and isinstance(stats["late"], int)
    assert stats["waited_s"] >= 0 and stats["read_s"] > 0 and stats["decode_s"] > 0
    page = packhorse.prometheus(stats)
    assert "# TYPE packhorse_loader_batches_total counter\npackhorse_loader_batches_total 10\n" in page
    assert page.count("# TYPE") <= len(stats)
    text = loader.explain()
    assert "rank 0 of 1" in text and "shuffle blocks:16," in text
    assert "cls" in text
    assert loader.shuffle == pickle.loads(pickle.dumps(loader)).shuffle == "blocks:16"
    assert numbers.loader(10, shuffle="full").shuffle == "full"
    assert "Loader(10 batches of 10" in repr(loader)


# --- errors -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def faulty(tmp_path_factory):
    """40 numbers of which two are none."""
    samples = ({"__key__": f"f{n:02}", "cls": b"none" if n in (13, 27) else str(n)} for n in range(40))
    return write(tmp_path_factory.mktemp("faulty") / "shards", samples, samples_per_shard=10)


def test_a_bad_sample_fails(faulty):
    """A bad sample is an error that names it."""
    with pytest.raises(packhorse.ContentError) as raised:
        labels(faulty.loader(10, shuffle="sequential"))
    assert raised.value.sample == "f13"
    assert raised.value.kind == "content"
    assert "f13" in str(raised.value)
    assert isinstance(raised.value, ValueError)


def test_bad_samples_are_skipped(faulty):
    """With `on_error="skip"` each bad sample is a warning, and all others come."""
    loader = faulty.loader(10, on_error="skip")
    for _ in range(2):
        with pytest.warns(UserWarning, match="skipped") as warned:
            found = labels(loader)
        assert sorted(found) == [n for n in range(40) if n not in (13, 27)]
        texts = " ".join(str(warning.message) for warning in warned)
        assert "f13" in texts
        assert "f27" in texts


def test_a_skipped_sample_keeps_its_position(faulty):
    """A skipped sample has a position and no row."""
    with pytest.warns(UserWarning):
        batches = list(faulty.loader(10, on_error="skip", shuffle="sequential"))
    assert [batch.rows for batch in batches] == [10, 9, 9, 10]
    assert batches[1].positions == range(10, 20)
    assert batches[1].keys == [f"f{n}" for n in range(10, 20) if n != 13]


def test_a_lost_shard_costs_its_own_samples(tmp_path):
    """With `on_error="skip"` a missing shard is one warning, and the samples of all others come."""
    ds = write(tmp_path / "shards", ({"__key__": f"f{n:02}", "cls": str(n)} for n in range(40)), samples_per_shard=10)
    lost = sorted((tmp_path / "shards").glob("*.tar"))[1]
    lost.unlink()
    left = [n for n in range(40) if n not in range(10, 20)]
    with pytest.warns(UserWarning, match="skipped") as warned:
        assert sorted(labels(ds.loader(7, on_error="skip", remainder="uneven"))) == left
    assert {lost.name in str(warning.message) for warning in warned} == {True}
    assert len(warned) == 1
    with pytest.raises(packhorse.IncompleteError, match="is missing, a shard of a sealed dataset"):
        labels(ds.loader(7))


def test_each_of_many_lost_shards_is_told_once(tmp_path):
    """Also of more than a thousand."""
    ds = write(tmp_path / "shards", numbered(2040), to="arrow", samples_per_shard=2)
    for lost in list((tmp_path / "shards").glob("*.arrow"))[:1010]:
        lost.unlink()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        assert len(labels(ds.loader(2, on_error="skip", shuffle="sequential"))) == 20
    assert len(warned) == 1010


def test_warnings_may_be_errors(faulty):
    """A warning that the user makes an exception is raised out of the `for`."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning):
            labels(faulty.loader(10, on_error="skip"))


def test_no_dataset():
    """A place without a dataset is a FileNotFoundError."""
    with pytest.raises(packhorse.MissingFileError) as raised:
        packhorse.open("/nowhere/at all")
    assert isinstance(raised.value, FileNotFoundError)


# --- views ------------------------------------------------------------------------------------------------------------


def test_slices(numbers):
    """Slices are views, as those of sequences."""
    everything = list(range(100))
    for part in (slice(10), slice(90, 200), slice(-5, None), slice(50, 40), slice(5, 90, 7), slice(None, None, -1), slice(None)):
        view = numbers[part]
        assert len(view) == len(everything[part])
        assert [int(sample["cls"]) for sample in view] == everything[part]
    nested = numbers[20:60][5:10]
    assert [int(sample["cls"]) for sample in nested] == list(range(25, 30))
    assert nested.keys == [f"k{number:05}" for number in range(25, 30)]


def test_subsets(numbers):
    """A subset has these samples in this order; numbers may repeat, and come from NumPy."""
    asked = [5, 99, 0, 5]
    for view in (numbers.subset(asked), numbers[asked], numbers[np.array(asked)]):
        assert [int(sample["cls"]) for sample in view] == asked
        assert sorted(labels(view.loader(2))) == sorted(asked)
    with pytest.raises(IndexError):
        numbers.subset([100])
    assert len(numbers.subset([])) == 0


def test_take(numbers):
    """`take` gives the first samples, or all."""
    assert [int(sample["cls"]) for sample in numbers.take(3)] == [0, 1, 2]
    assert len(numbers.take(1000)) == 100
    assert len(numbers.take(0)) == 0


def test_where(numbers, tmp_path):
    """Samples by keys, given or in a file, in the dataset's order."""
    keys = ["k00050", "k00003", "k00099"]
    assert numbers.where(keys=keys).keys == sorted(keys)
    listed = tmp_path / "keys.txt"
    listed.write_bytes(b"k00050\r\nk00003\n\nk00099")
    assert numbers.where(keys=listed).keys == sorted(keys)
    assert numbers.where(keys=str(listed)).keys == sorted(keys)
    assert sorted(labels(numbers.where(keys=keys).loader(3))) == [3, 50, 99]
    with pytest.raises(packhorse.ConfigError) as raised:
        numbers.where(keys=[*keys, "missing"])
    assert raised.value.sample == "missing"


def test_splits(tmp_path):
    """Splits have their own samples, and together all of them."""
    source = write(tmp_path / "source", numbered(60))
    assert source.splits == []
    packhorse.pack(source._place, tmp_path / "out", to="webdataset", split={"train": 0.7, "val": 0.3})
    dataset = packhorse.open(tmp_path / "out")
    assert sorted(dataset.splits) == ["train", "val"]
    train, val = dataset.split("train"), dataset.split("val")
    assert 0 < len(val) < len(train)
    assert not set(train.keys) & set(val.keys)
    assert sorted(train.keys + val.keys) == [f"k{number:05}" for number in range(60)]
    assert sorted(labels(val.loader(1))) == sorted(int(sample["cls"]) for sample in val)
    with pytest.raises(packhorse.ConfigError):
        dataset.split("test")


def test_concat(numbers, tmp_path):
    """Datasets one after another, views of them, and loaders."""
    other = write(tmp_path / "other", ({"__key__": f"z{n}", "cls": 1000 + n} for n in range(5)))
    both = packhorse.concat([numbers[95:], other, numbers[:2]])
    wanted = [95, 96, 97, 98, 99, 1000, 1001, 1002, 1003, 1004, 0, 1]
    assert [int(sample["cls"]) for sample in both] == wanted
    assert [int(sample["cls"]) for sample in both[4:7]] == wanted[4:7]
    assert sorted(labels(both.loader(4))) == sorted(wanted)
    again = pickle.loads(pickle.dumps(both[4:7]))
    assert [int(sample["cls"]) for sample in again] == wanted[4:7]
    with pytest.raises(packhorse.Error):
        packhorse.concat([numbers, write(tmp_path / "unlike", mixed(3), to="arrow")])


def test_concat_of_class_lists(tmp_path):
    """A longer list of the same classes goes for both; of others one number would name two classes."""
    def of(name, classes):
        return write(tmp_path / name, ({"__key__": f"{name}{n}", "cls": n} for n in range(2)), class_names=classes)

    both = packhorse.concat([of("a", ["cat", "dog"]), of("b", ["cat", "dog", "fox"])])
    assert both.classes == ["cat", "dog", "fox"]
    with pytest.raises(packhorse.ConfigError, match="different class lists .*ant, dog"):
        packhorse.concat([both, of("c", ["ant", "dog"])])


def test_datasets_can_be_pickled(numbers):
    """A dataset and its views can be pickled."""
    for dataset in (numbers, numbers[10:20], numbers.subset([4, 2]), numbers.where(keys=["k00001"])):
        again = pickle.loads(pickle.dumps(dataset))
        assert again.keys == dataset.keys
        assert list(again) == list(dataset)
        assert again.fields == dataset.fields


def test_what_a_dataset_tells(numbers, pictures):
    """A dataset knows its length, fields, keys and bytes."""
    assert len(numbers) == 100
    assert list(numbers.fields) == ["cls"]
    assert set(pictures.fields) == {"cls", "jpg", "json", "npy", "txt"}
    assert numbers.keys == [f"k{number:05}" for number in range(100)]
    assert numbers.nbytes > 100 * 512
    assert "100 samples" in repr(numbers)


def test_loaders_that_are_dropped_end(numbers):
    """Many loaders can be made and dropped inside of an epoch."""
    for seed in range(30):
        batches = iter(numbers.loader(10, seed=seed))
        next(batches)
    del batches
    gc.collect()


@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="needs /proc")
def test_a_state_needs_no_threads(numbers):
    """Before the first batch a loader has no threads, so that processes can be forked after its state was read or set."""
    numbers.loader(4, threads=0).state_dict()
    before = len(os.listdir("/proc/self/task"))
    loader = numbers.loader(4, threads=2)
    loader.set_epoch(loader.epoch + 2)
    assert len(loader) > 0 and loader.state_dict()["epoch"] == 2
    # A thread that helped to make the loader may be about to end.
    for _ in range(500):
        if len(os.listdir("/proc/self/task")) <= before:
            break
        time.sleep(0.02)
    assert len(os.listdir("/proc/self/task")) <= before
    next(iter(loader))
    assert len(os.listdir("/proc/self/task")) > before
    loader.close()


def test_each_node_reads_shards_of_its_own(tmp_path):
    ds = write(tmp_path / "out", numbered(120), samples_per_shard=10)
    shards = {key: number // 10 for number, key in enumerate(ds.keys)}
    loaders = [ds.loader(5, shuffle="nodes:2:blocks:3:epochs:2", seed=1, place=(rank, 4)) for rank in range(4)]
    held = []
    for _ in range(4):
        keys = [[key for batch in loader for key in batch.keys] for loader in loaders]
        assert sorted(sum(keys, [])) == sorted(shards)
        nodes = [{shards[key] for key in keys[node] + keys[node + 1]} for node in (0, 2)]
        assert not nodes[0] & nodes[1]
        held.append(nodes[0])
    assert held[0] == held[1] and held[2] == held[3] and held[0] != held[2]
    with pytest.raises(packhorse.ConfigError, match="not a multiple of the 2 nodes"):
        next(iter(ds.loader(5, shuffle="nodes:2:blocks:3:epochs:2", place=(0, 3))))


def test_a_trace_has_the_batches_of_its_with(numbers, tmp_path):
    """One trace after another, each a list of events; one at a time."""
    loader = numbers.loader(10, seed=8)
    for name, epochs in (("a.json", 1), ("b.json", 2)):
        with packhorse.trace(tmp_path / name):
            for _ in range(epochs):
                labels(loader)
            with pytest.raises(packhorse.ConfigError, match="a trace is written already"), packhorse.trace(tmp_path / "c.json"):
                pass
        events = json.loads((tmp_path / name).read_text())
        assert sum(event["args"]["samples"] for event in events if event["name"] == "upload") == 100 * epochs
    assert not (tmp_path / "c.json").exists()
    labels(loader)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system can't fork")
def test_a_forked_child_leaves_the_trace_of_its_parent(numbers, tmp_path):
    """It neither writes to it nor waits for it."""
    with packhorse.trace(tmp_path / "a.json"):
        labels(numbers.loader(10))
        child = os.fork()
        if child == 0:
            os._exit(0 if labels(numbers.loader(10)) else 1)
        assert os.waitpid(child, 0)[1] == 0
    events = json.loads((tmp_path / "a.json").read_text())
    assert {event["pid"] for event in events} == {os.getpid()}
    assert sum(event["args"]["samples"] for event in events if event["name"] == "upload") == 100


def test_a_state_from_the_end_of_an_epoch_goes_on_with_the_next_one(tmp_path):
    data = write(tmp_path / "d", numbered(20))

    def loader():
        return data.loader(4, fields={"y": "cls"}, seed=3)

    ended = loader()
    assert sum(batch.rows for batch in ended) == 20
    state = ended.state_dict()
    resumed = loader()
    resumed.load_state_dict(state)
    assert resumed.epoch == 1 and ended.epoch == 0
    seen = []
    for epoch in range(resumed.epoch, 3):
        resumed.set_epoch(epoch)
        seen += [batch.epoch for batch in resumed]
    assert seen == [1] * 5 + [2] * 5
    ended.set_epoch(np.int64(2))
    assert next(iter(ended)).epoch == 2
    for wrong in (-1, 2**64):
        with pytest.raises(ValueError, match="epochs count from 0"):
            ended.set_epoch(wrong)
    with pytest.raises(TypeError):
        ended.set_epoch("a")


# --- ranks that come late ------------------------------------------------------------------------------------------------


def test_ranks_are_asked_for_at_each_epoch(numbers, monkeypatch):
    """Ranks may be made after a loader was looked at, pickled or used; a rank that was found travels."""
    loader = numbers.loader(5, seed=1)
    travelled = pickle.dumps(loader)
    assert loader.place == (0, 1) and len(loader) == 20
    whole = labels(loader)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    for other in (loader, pickle.loads(travelled)):
        other.set_epoch(0)
        mine = labels(other)
        assert other.place == (1, 2) and len(other) == 10
        assert len(mine) == 50 and set(mine) < set(whole)
    travelled = pickle.dumps(loader)
    monkeypatch.delenv("RANK")
    monkeypatch.delenv("WORLD_SIZE")
    assert pickle.loads(travelled).place == (1, 2)
    fixed = numbers.loader(5, place=(0, 2))
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert fixed.place == (0, 2) and pickle.loads(pickle.dumps(fixed)).place == (0, 2)


def test_ranks_that_come_in_the_middle_of_an_epoch(numbers, monkeypatch):
    """The epoch that was left early has ended, and the next one is shared."""
    loader = numbers.loader(5, seed=1)
    next(iter(loader))
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert len(labels(loader)) == 50 and loader.epoch == 1
    # An epoch that had ended for more ranks has ended for fewer.
    loader = numbers.loader(7, seed=1)
    assert len(labels(loader)) == 49
    monkeypatch.delenv("RANK")
    monkeypatch.delenv("WORLD_SIZE")
    assert len(labels(loader)) == 98 and loader.epoch == 1


def test_too_few_samples_for_the_ranks(numbers):
    with pytest.warns(UserWarning, match=r"a step of 120 samples \(60 on each of 2 ranks\) is more than the 100 samples"):
        assert list(numbers.loader(60, place=(0, 2))) == []


def test_the_state_knows_nothing_of_workers(numbers):
    """Workers of a DataLoader have states of their own, of which the loader's warns."""
    data = pytest.importorskip("torch.utils.data")
    loader = numbers.loader(5, seed=1)
    batches = iter(data.DataLoader(loader.torch(), batch_size=None, num_workers=2, multiprocessing_context="fork"))
    next(batches)
    with pytest.warns(UserWarning, match="workers of a DataLoader take the batches"):
        assert loader.state_dict()["consumed"] == 0
    del batches
    spawned = numbers.loader(5, seed=1)
    pickle.dumps(spawned.torch())
    with pytest.warns(UserWarning, match="workers of a DataLoader take the batches"):
        spawned.state_dict()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        next(iter(spawned))
        assert spawned.state_dict()["consumed"] == 5
        loader.set_epoch(1)
        batches = iter(data.DataLoader(loader.torch(), batch_size=None))
        next(batches)
        assert loader.state_dict()["consumed"] == 5


def test_a_state_from_the_end_of_an_epoch(numbers):
    """The documented loop goes on with the next epoch, which comes once: nothing is left of the epoch of the state."""
    wanted = epochs(numbers.loader(10, seed=3), 3)
    loader = numbers.loader(10, seed=3)
    for _ in loader:
        state = loader.state_dict()
    for data in (numbers.loader(10, seed=3), pickle.loads(pickle.dumps(numbers.loader(10, seed=3)))):
        data.load_state_dict(state)
        found = []
        for epoch in range(state["epoch"], 3):
            data.set_epoch(epoch)
            found.append(labels(data))
        assert found == [[], *wanted[1:]]
    # Without set_epoch the next `for` is the next epoch, as before.
    data.load_state_dict(state)
    assert labels(data) == wanted[1]
    # One that was asked for the ended epoch, and then for another.
    data.load_state_dict(state)
    data.set_epoch(0)
    again = pickle.loads(pickle.dumps(data))
    assert list(again) == [] and labels(again) == wanted[1]
    data.set_epoch(2)
    assert labels(data) == wanted[2]
    # Closed, pickled or forked after an epoch, it is one that may come again.
    for _ in range(2):
        data.set_epoch(2)
        assert labels(data) == wanted[2]
        data.close()
    labels(data)
    again = pickle.loads(pickle.dumps(data))
    again.set_epoch(again.epoch - 1)
    assert len(labels(again)) == len(numbers)
    # What was asked for is kept by a loader that is closed.
    data.load_state_dict(state)
    data.set_epoch(0)
    assert data.epoch == 0
    data.is_at_end()
    data.close()
    assert list(data) == []


def test_absurd_settings_are_refused_by_name(numbers):
    """None of them takes the machine's memory, or fails without a name."""
    for name, value in (("threads", -1), ("threads", 200_000), ("readers", -1), ("ahead", 10**9), ("seed", -1), ("seed", 2**64)):
        with pytest.raises(ValueError, match=f"{name}={value}"):
            numbers.loader(4, **{name: value})
    for cache in (-1, ""):
        with pytest.raises(ValueError, match="cache="):
            numbers.loader(4, cache=cache)
    with pytest.raises(TypeError, match="a state is a dictionary"):
        numbers.loader(4).load_state_dict("{}")


def test_keys_to_skip_may_be_outside_of_a_view(numbers):
    """One list of bad keys serves a dataset and its views; a key of no sample stays an error."""
    keys = numbers.keys
    view = numbers[:20]
    found = [n for batch in view.loader(5, skip=[keys[3], keys[-1]], remainder="uneven") for n in batch.numbers]
    assert len(found) == 19 and 3 not in found
    with pytest.raises(packhorse.ConfigError, match="1 of 2 keys"):
        view.loader(5, skip=[keys[3], "unknown"])


def test_a_batch_that_storage_failed_to_give_comes_next(tmp_path):
    """What failed may pass: the state stays before such a batch, and the next `next` reads it again."""
    write(tmp_path / "shards", numbered(64), samples_per_shard=8)
    shard = sorted((tmp_path / "shards").glob("*.tar"))[5]
    aside = shard.with_suffix(".aside")
    for lost_before_the_start in (True, False):
        if lost_before_the_start:
            shard.rename(aside)
            shard.symlink_to(shard)  # a loop: opening it is an error of the file system
        loader = packhorse.open(tmp_path / "shards").loader(8, shuffle="sequential", readahead=False)
        batches, got = iter(loader), []
        if lost_before_the_start:
            with pytest.raises(packhorse.StorageError):
                for batch in batches:
                    got += batch["cls"].tolist()
            assert got == list(range(40)) and loader.state_dict()["consumed"] == 40
            with pytest.raises(packhorse.StorageError):
                next(batches)
            state = loader.state_dict()
            shard.unlink()
            aside.rename(shard)
            assert [batch["cls"].tolist() for batch in batches] == [list(range(at, at + 8)) for at in range(40, 64, 8)]
        else:
            loader.load_state_dict(state)
            assert labels(loader) == list(range(40, 64))
        assert labels(loader) == list(range(64))


@pytest.mark.parametrize("workers", [0, 2])
def test_a_dataloader_has_keys_too(numbers, workers):
    """With `keys` each sample, and each batch, tells its keys, which belong to the values beside them."""
    data = pytest.importorskip("torch.utils.data")
    samples = data.DataLoader(numbers.torch(keys=True), batch_size=10, num_workers=workers, shuffle=True)
    batches = data.DataLoader(numbers.loader(10, seed=3).torch(keys=True), batch_size=None, num_workers=workers)
    for given in (samples, batches):
        pairs = [pair for batch in given for pair in zip(batch["__key__"], batch["cls"].tolist())]
        assert len(pairs) == 100
        assert all(key == f"k{number:05}" for key, number in pairs)
    assert "__key__" not in numbers.torch()[0]


@pytest.mark.parametrize("to", ["webdataset", "parquet", "tfrecord"])
def test_a_dataset_that_is_replaced_is_no_damage(tmp_path, to):
    """Its samples are not skipped: the loader says that it was replaced, also where shards have other sizes."""
    out = tmp_path / "out"
    for start in (0, 100000):
        packhorse.pack(({"x": start + number} for number in range(600)), out, to=to, samples_per_shard=50, replace=True)
        if start == 0:
            loader = packhorse.open(out).loader(10, shuffle="sequential", ahead=1, threads=1, on_error="skip")
            batches = iter(loader)
            assert next(batches).rows == 10
    with pytest.raises(packhorse.ChangedError):
        for _ in range(200):
            next(batches)


def test_a_loader_over_all_splits_warns(tmp_path):
    """Training on all of them is seldom meant; one of them, or a set that was put together, is."""
    (tmp_path / "t.csv").write_text("x\n" + "\n".join(map(str, range(100))))
    packhorse.pack(tmp_path / "t.csv", tmp_path / "out", to="parquet", split="train=0.5,val=0.5")
    opened = packhorse.open(tmp_path / "out")
    with pytest.warns(UserWarning, match=r"samples of all splits \(train, val\); ds.split\('train'\) has those of one"):
        opened.loader(10)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        opened.split("val").loader(10)
        packhorse.concat([opened.split("train"), opened.split("val")]).loader(10)


def test_a_damaged_footer_costs_its_shard(tmp_path):
    """Damage that looks like other columns is damage: `on_error="skip"` goes on with the other shards."""
    rows = [{"n": number, "t": f"text {number}"} for number in range(8)]
    dataset = write(tmp_path / "d", rows, to="arrow", samples_per_shard=4)
    shard = tmp_path / "d" / "shard-000001.arrow"
    whole = shard.read_bytes()
    for at in range(len(whole) // 2, len(whole) - 8, 4):
        shard.write_bytes(whole[:at] + bytes(4) + whole[at + 4 :])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loader = packhorse.open(dataset._place).loader(4, fields={"n": "n"}, on_error="skip")
            assert {0, 1, 2, 3} <= {number for batch in loader for number in batch["n"].tolist()}, at


# --- Columns of other programs -------------------------------------------------------------------------------------------


def classes(path, names, values=(0, 1)):
    """A table of numbers with these class names, as Hugging Face's library writes it."""
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    table = pa.table({"label": pa.array(values, pa.int64())})
    if names is not None:
        features = {"info": {"features": {"label": {"names": names, "_type": "ClassLabel"}}}}
        table = table.replace_schema_metadata({"huggingface": json.dumps(features)})
    pyarrow.parquet.write_table(table, path)
    return packhorse.open(path)


def test_concat_of_columns_with_class_names(tmp_path):
    """One number of two lists of names would name two classes; where one side has none, names are not known."""
    first = classes(tmp_path / "a.parquet", ["cat", "dog"])
    assert len(first.where("label == 'dog'")) == 1
    assert len(packhorse.concat([first, classes(tmp_path / "b.parquet", ["cat", "dog"])]).where("label == 'dog'")) == 2
    with pytest.raises(packhorse.ConfigError, match="one number would name two"):
        packhorse.concat([first, classes(tmp_path / "c.parquet", ["dog", "cat"])])
    for parts in ([first, classes(tmp_path / "d.parquet", None)], [classes(tmp_path / "e.parquet", None), first]):
        both = packhorse.concat(parts)
        assert len(both.where("label == 1")) == 2
        with pytest.raises(packhorse.ConfigError):
            both.where("label == 'dog'")


def test_several_names_of_columns_with_other_units_are_refused(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    times = {"updated": pa.array([1, None], pa.timestamp("us")), "created": pa.array([1, 2], pa.timestamp("ms")), "seen": pa.array([1, 2], pa.timestamp("us"))}
    pyarrow.parquet.write_table(pa.table(times), tmp_path / "times.parquet")
    dataset = packhorse.open(tmp_path / "times.parquet")
    with pytest.raises(packhorse.ConfigError, match="updated is .*us.* and created is .*ms"):
        next(iter(dataset.loader(2, fields=["updated;created"])))
    batch = next(iter(dataset.loader(2, fields=["updated;seen"], shuffle="sequential")))
    assert batch["updated;seen"].tolist() == [1, 2]


def test_fields_that_only_late_shards_have_are_found(tmp_path):
    """Of many shards not every index is read when the dataset is opened."""
    samples = [{"__key__": f"{n:03}", "cls": n, **({"note": b"late"} if n == 50 else {})} for n in range(100)]
    dataset = write(tmp_path / "out", samples, samples_per_shard=2, columns={"note": "bytes"})
    assert sorted(dataset.fields) == ["cls", "note"]
    batches = dataset.loader(100, fields=["cls", packhorse.Bytes("note", required=False)], shuffle="sequential")
    assert [bool(note) for note in next(iter(batches))["note"].bytes()] == [n == 50 for n in range(100)]


def test_files_without_a_column_may_be_selected_twice(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    pyarrow.parquet.write_table(pa.table({"x": [1, 2], "y": [3, 4]}), tmp_path / "a.parquet")
    pyarrow.parquet.write_table(pa.table({"y": [5, 6], "z": [0, 0]}), tmp_path / "b.parquet")
    dataset = packhorse.open(str(tmp_path / "*.parquet"))
    for chosen in (dataset, dataset.select(["x", "y"])):
        batch = next(iter(chosen.loader(4, fields=[packhorse.Number("x", "int64", required=False)], shuffle="sequential")))
        assert batch["x"].tolist() == [1, 2, 0, 0]
        assert len(chosen.where("x is null")) == 2


def test_many_shards_need_few_open_files(tmp_path):
    """Two loaders of one process, one with a cache folder, share the limit of open files."""
    code = """
        import resource, sys
        import packhorse
        with packhorse.Writer(sys.argv[1], "webdataset", samples_per_shard=1) as writer:
            for number in range(400):
                writer.write({"cls": number})
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        dataset = packhorse.open(sys.argv[1])
        train, val = dataset.loader(8, cache=sys.argv[2]), dataset.loader(8, shuffle="full")
        for one, other in zip(train, val):
            pass
    """
    run_well(code, tmp_path / "shards", tmp_path / "cache")
