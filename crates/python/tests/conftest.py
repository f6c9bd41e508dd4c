"""Data for the tests: made by the package itself and by the libraries that it is compared with."""

import io
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

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


@pytest.fixture(scope="session")
def views(tmp_path_factory):
    """Pictures of different sizes with a label each; some lack the picture `png`."""
    samples = (
        {"__key__": f"v{n:03}", "jpg": encoded(picture(n, 30 + n, 50 - n)), "cls": n, "txt": "t" * (n % 5)}
        | ({"png": encoded(picture(n), "PNG")} if n % 3 else {})
        for n in range(24)
    )
    out = tmp_path_factory.mktemp("views") / "shards"
    return write(out, samples, samples_per_shard=6, columns={"png": "bytes"})


# --- a GPU by the fake driver of crates/testkit/src/cuda ---------------------------------------------------------------

ROOT = Path(__file__).resolve().parents[3]

# What every program on the GPU begins with.
START = """
import gc, json, os, pickle, signal, sys, threading
import numpy as np
import packhorse
from packhorse import Image

def same(found, wanted):
    assert type(found) is type(wanted), (found, wanted)
    if isinstance(found, packhorse.RaggedArray):
        same(found.values, wanted.values)
        same(found.offsets, wanted.offsets)
        assert (found.shapes is None) == (wanted.shapes is None)
        if found.shapes is not None:
            same(found.shapes, wanted.shapes)
        return
    assert (found.dtype, found.shape, found.nbytes) == (wanted.dtype, wanted.shape, wanted.nbytes)
    assert found.device == "cuda:0" and wanted.device == "cpu"
    assert found.tobytes() == wanted.tobytes()

def equal(found, wanted):
    assert list(found) == list(wanted)
    assert (found.rows, found.epoch, found.positions) == (wanted.rows, wanted.epoch, wanted.positions)
    assert found.keys == wanted.keys and found.numbers == wanted.numbers
    for name in wanted:
        same(found[name], wanted[name])
"""


def compiled(command, out, source):
    """Compiles a shared library."""
    done = subprocess.run([*command, "-shared", "-fPIC", "-o", out, source, "-ldl"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="session")
def fake(tmp_path_factory):
    """The environment of a machine with two GPUs, by the fake driver and kernels compiled for the host."""
    if shutil.which("cc") is None or shutil.which("c++") is None:
        pytest.skip("needs a C and a C++ compiler")
    folder, gpu = tmp_path_factory.mktemp("cuda"), ROOT / "crates" / "gpu"
    compiled(["cc", "-std=gnu11", "-O1", "-pthread"], folder / "libcuda.so", ROOT / "crates/testkit/src/cuda/libcuda.c")
    nvjpeg = folder / "libnvjpeg.so"
    compiled(["cc", "-std=gnu11", "-O1", "-pthread"], nvjpeg, ROOT / "crates/testkit/src/cuda/libnvjpeg.c")
    kernels = ["c++", "-x", "c++", "-std=c++14", "-O1", "-w", "-ffp-contract=off", "-fno-strict-aliasing", "-DPACKHORSE_HOST"]
    includes = [f"-I{gpu}/tests/common", f"-I{gpu}/kernels"]
    modules = [folder / f"{name}.so" for name in ("augment", "image", "ragged", "resize")]
    for module in modules:
        compiled([*kernels, *includes], module, gpu / "kernels" / f"{module.stem}.cu")
    return {
        "LD_LIBRARY_PATH": str(folder),
        "PACKHORSE_NVJPEG": str(nvjpeg),
        "FAKE_CUDA_KERNELS": os.pathsep.join(map(str, modules)),
        "FAKE_CUDA_JITTER": "200",
        "PYTHONPATH": str(Path(__file__).parent),
        "LOCAL_RANK": "0",
    }


@pytest.fixture
def on_gpu(fake, tmp_path):
    """Runs a program on the fake GPU, which must end well and leave no memory; returns its output."""

    def run(code, *args, **env):
        report = tmp_path / "report"
        said = run_well(START + textwrap.dedent(code), *args, env={**fake, "FAKE_CUDA_REPORT": str(report), **env})
        # The driver is looked for, and then loaded: it reports both times.
        left = {line for line in report.read_text().splitlines() if line.startswith("left.")}
        report.unlink()
        kept = {f"left.{what} 0" for what in ("pinned", "device", "contexts")}
        assert kept <= left <= kept | {"left.nvjpeg 0"}, left
        return said

    return run
