"""Diagnoses of loops whose steps are Python's."""

import time

import pytest

import packhorse


def sometime(wanted, look):
    """The first of three diagnoses that names `wanted`: the machine may have other work."""
    found = [look()]
    while found[-1].bottleneck != wanted and len(found) < 3:
        found.append(look())
    assert found[-1].bottleneck == wanted, "\n".join(map(str, found))
    return found[-1]


def test_a_slow_step_is_not_the_data(pictures):
    loader = pictures.loader(4, fields={"image": packhorse.Image("jpg", 32)}, threads=1)
    seen = []

    def step(batch):
        seen.append((sorted(batch), batch["image"].shape))
        time.sleep(0.02)

    found = sometime("step", lambda: packhorse.diagnose(loader, step, seconds=1.0, rounds=3))
    assert seen and all(each == (["image"], (4, 32, 32, 3)) for each in seen)
    assert list(found.cuts) == ["device", "busy", "host", "decoded", "stored", "files", "loader"]
    assert 0 < found.cuts["device"]["steps_per_s"]["median"] < 50
    assert found.data["supply"]["median"] > 50 and "It is not the data" in str(found)
    # The loader itself did not move.
    assert loader.state_dict()["consumed"] == 0 and len(list(loader)) == len(loader)


def test_what_a_step_raises_comes_out(pictures):
    loader = pictures.loader(4)

    def step(batch):
        raise ZeroDivisionError("planted")

    with pytest.raises(ZeroDivisionError, match="planted"):
        packhorse.diagnose(loader, step, seconds=1.0)
    with pytest.raises(packhorse.ConfigError):
        packhorse.diagnose(pictures.loader(100_000), print)
    with pytest.raises(packhorse.ConfigError, match="seconds"):
        packhorse.diagnose(loader, print, seconds=-1)


def test_any_iterable_is_compared_with_batches_in_memory():
    class Slow:
        def __iter__(self):
            for number in range(50):
                time.sleep(0.01)
                yield number

    found = sometime("loader", lambda: packhorse.diagnose(Slow(), lambda number: time.sleep(0.005), seconds=1.0, rounds=3))
    assert list(found.cuts) == ["device", "loader"]
    sometime("step", lambda: packhorse.diagnose(list(range(1000)), lambda number: time.sleep(0.005), seconds=0.5, rounds=3))
    with pytest.raises(TypeError, match="iterator"):
        packhorse.diagnose(iter([1]), print)
