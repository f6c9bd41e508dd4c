"""Data for the tests: made by the package itself and by the libraries that it is compared with."""

import io
import os
import subprocess
import sys
import textwrap

import numpy as np
import packhorse
import pytest
from PIL import Image

TIMEOUT = 120


def picture(number, width=40, height=30):
    """A smooth picture that is different for each number: JPEG changes it little."""
    y, x = np.mgrid[0:height, 0:width]
    red = 40 + 3 * x + number
    green = 30 + 4 * y
    blue = 200 - 2 * x - y
    return np.clip(np.stack([red, green, blue], axis=-1), 0, 255).astype(np.uint8)


def encoded(pixels, kind="JPEG", **settings):
    """The bytes of a picture file."""
    file = io.BytesIO()
    if kind == "JPEG":
        settings = {"quality": 95, "subsampling": 0, **settings}
    Image.fromarray(pixels).save(file, kind, **settings)
    return file.getvalue()


def npy(array):
    """The bytes of a .npy file."""
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def write(out, samples, to="webdataset", **settings):
    """Writes samples with the package; returns the opened dataset."""
    with packhorse.Writer(out, to=to, **settings) as writer:
        for sample in samples:
            writer.write(sample)
    return packhorse.open(out)


def numbered(count):
    """Samples of a number each."""
    return ({"__key__": f"k{number:05}", "cls": number} for number in range(count))


def mixed(count):
    """Samples with a value of every kind that typed formats have."""
    for number in range(count):
        yield {
            "__key__": f"k{number:05}",
            "x": number,
            "y": number / 4,
            "text": f"text {number} é",
            "data": bytes([number % 256]) * (number % 5),
            "grid": np.arange(6, dtype=np.float32).reshape(2, 3) + number,
            "flag": number % 3 == 0,
        }


def labels(loader):
    """The numbers of the field `cls` of all batches of an epoch."""
    return [number for batch in loader for number in batch["cls"].tolist()]


def run_python(code, *args, timeout=TIMEOUT, env=None, **settings):
    """Runs a program in a fresh interpreter, and returns what it did."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, args)],
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, **(env or {})},
        **settings,
    )


def run_well(code, *args, **settings):
    """Runs a program that must end well and write no error; returns its output."""
    done = run_python(code, *args, **settings)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


@pytest.fixture(scope="session")
def numbers(tmp_path_factory):
    """A WebDataset of 100 numbers in 10 shards."""
    return write(tmp_path_factory.mktemp("numbers") / "shards", numbered(100), samples_per_shard=10)


@pytest.fixture(scope="session")
def pictures(tmp_path_factory):
    """A WebDataset of 24 pictures of one size with labels, text, JSON and arrays."""
    samples = (
        {
            "__key__": f"p{number:03}",
            "jpg": encoded(picture(number)),
            "cls": number % 5,
            "txt": f"a picture, number {number} é",
            "json": {"size": {"width": number * 2}, "boxes": [{"score": number / 8}, {"score": -1.5}]},
            "npy": np.arange(6, dtype=np.float32).reshape(2, 3) * number,
        }
        for number in range(24)
    )
    return write(tmp_path_factory.mktemp("pictures") / "shards", samples, samples_per_shard=7)


@pytest.fixture(scope="session")
def odd_pictures(tmp_path_factory):
    """Pictures of different sizes: JPEG, and PNG which loses nothing."""
    samples = (
        {"__key__": f"o{number:03}", ("png" if number % 2 else "jpg"): encoded(
            picture(number, 30 + 5 * number, 50 - 3 * number), "PNG" if number % 2 else "JPEG")}
        for number in range(8)
    )  # fmt: skip
    out = tmp_path_factory.mktemp("odd") / "shards"
    return write(out, samples, samples_per_shard=3, columns={"jpg": "bytes", "png": "bytes"})


@pytest.fixture(scope="session", params=["webdataset", "parquet", "arrow", "hdf5", "tfrecord"])
def of_each_format(request, tmp_path_factory):
    """The same samples in each format."""
    out = tmp_path_factory.mktemp("formats") / request.param
    samples = ({"__key__": s["__key__"], "cls": s["x"], "txt": s["text"], "npy": s["grid"]} for s in mixed(30))
    return write(out, samples, to=request.param, samples_per_shard=8)


@pytest.fixture(scope="session")
def ragged(tmp_path_factory):
    """Arrow shards with rows of different lengths, and with arrays of different shapes."""
    samples = (
        {
            "__key__": f"r{number:03}",
            "row": np.arange(number % 4, dtype=np.int32) + number,
            "grid": np.full((1 + number % 3, 2 + number % 2), number, np.float32),
        }
        for number in range(20)
    )
    return write(tmp_path_factory.mktemp("ragged") / "shards", samples, to="arrow", ragged=True, samples_per_shard=6)
