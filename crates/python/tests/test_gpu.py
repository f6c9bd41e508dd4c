"""Batches on a GPU. Most run over the fake driver of `crates/testkit/src/cuda`, compiled here, which simulates a GPU by
threads with random delays and ends the process where memory is used wrongly; the last need a real GPU."""

import os
import shutil
import struct
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import packhorse
import pytest
from conftest import encoded, picture, run_well, write
from packhorse._device import device_name, stream_handle

ROOT = Path(__file__).resolve().parents[3]

# What every program here begins with.
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
    kernels = ["c++", "-x", "c++", "-std=c++14", "-O1", "-w", "-ffp-contract=off", "-fno-strict-aliasing", "-DPACKHORSE_HOST"]
    includes = [f"-I{gpu}/tests/common", f"-I{gpu}/kernels"]
    compiled([*kernels, *includes], folder / "image.so", gpu / "kernels" / "image.cu")
    return {
        "LD_LIBRARY_PATH": str(folder),
        "FAKE_CUDA_KERNELS": str(folder / "image.so"),
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
        assert left == {"left.pinned 0", "left.device 0", "left.contexts 0"}, left
        return said

    return run


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


# --- the setting ------------------------------------------------------------------------------------------------------


class Written:
    """An object that is told by its text, as torch.device."""

    def __init__(self, text):
        self.text = text

    def __str__(self):
        return self.text


def test_names_of_devices():
    """A device is a name, a number, or an object with such a text."""
    for device, name in [
        ("cpu", "cpu"),
        ("cuda", "cuda"),
        ("cuda:3", "cuda:3"),
        (0, "cuda:0"),
        (7, "cuda:7"),
        (Written("cuda:1"), "cuda:1"),
        (Written("cpu"), "cpu"),
        (Written("cpu:0"), "cpu"),
    ]:
        assert device_name(device) == name
    for wrong in ("gpu", "cuda:", "cuda:x", "CUDA", "cuda:-1", -1, True, None, 1.5, "mps", "cuda:0\n"):
        with pytest.raises(ValueError, match="device="):
            device_name(wrong)


def test_names_of_torch():
    """Devices of torch are devices."""
    torch = pytest.importorskip("torch")
    assert device_name(torch.device("cuda:1")) == device_name(torch.device("cuda", 1)) == "cuda:1"
    assert device_name(torch.device("cpu")) == "cpu"


def test_handles_of_streams():
    """A stream is a handle, or an object of torch, CuPy or cuda.core that has one."""
    class Stream:
        pass

    of_torch, of_cupy, of_core = Stream(), Stream(), Stream()
    of_torch.cuda_stream, of_cupy.ptr, of_core.__cuda_stream__ = 4096, 8192, lambda: (0, 12288)
    assert [stream_handle(one) for one in (of_torch, of_cupy, of_core, 77, 2)] == [4096, 8192, 12288, 77, 2]
    of_torch.cuda_stream = 0
    assert stream_handle(of_torch) == stream_handle(0) == 1
    for wrong in (None, "stream", Stream()):
        with pytest.raises(TypeError, match="is not a stream"):
            stream_handle(wrong)
    with pytest.raises(ValueError):
        stream_handle(-1)


def test_the_cpu_is_a_device(numbers):
    """Arrays in host memory say so, have no array interface of CUDA, and batches take streams and ignore them."""
    batch = next(iter(numbers.loader(10, device=Written("cpu"))))
    array = batch["cls"]
    assert array.device == batch.device == "cpu"
    assert not hasattr(array, "__cuda_array_interface__")
    assert array.cpu().address == array.address
    batch.used_on(1)


def test_no_gpu(numbers):
    """Without a driver the first use is an error that says what to do; what needs no GPU works."""
    if shutil.which("nvidia-smi"):
        pytest.skip("there is a driver")
    loader = numbers.loader(10, device="cuda:0")
    assert len(loader) == 10 and loader.state_dict()["consumed"] == 0 and loader.stats()["batches"] == 0
    with pytest.raises(packhorse.UnsupportedError) as raised:
        iter(loader)
    assert (raised.value.kind, raised.value.code) == ("unsupported", "gpu-failed")
    assert "there is no driver" in str(raised.value) and "install NVIDIA's driver" in raised.value.hint


@pytest.mark.parametrize(
    ("env", "device", "name", "message"),
    [
        ({"FAKE_CUDA_FAIL": "cuInit:1:100"}, "cuda", "UnsupportedError", "the driver finds no GPU; nvidia-smi and"),
        ({"FAKE_CUDA_FAIL": "cuInit:1:34"}, 0, "UnsupportedError", "stub of CUDA's toolkit"),
        ({"FAKE_CUDA_FAIL": "cuInit:1:3"}, 0, "UnsupportedError", "forked from one that uses it; start processes by spawn"),
        ({}, "cuda:2", "ConfigError", "there is no GPU 2: there are 2, counted from 0"),
        ({"LOCAL_RANK": "many"}, "cuda", "ConfigError", "LOCAL_RANK"),
        ({"FAKE_CUDA_FAIL": "cuMemHostAlloc:1:2"}, 1, "StorageError", "pinned memory: memory is used up"),
    ],
)
def test_unusable_gpus(numbers, fake, env, device, name, message):
    """A GPU that can't be used is an error of its own class, when the loader starts."""
    code = """
        import sys
        import packhorse

        device = sys.argv[2]
        loader = packhorse.open(sys.argv[1]).loader(10, device=int(device) if device.isdigit() else device)
        try:
            iter(loader)
        except packhorse.Error as error:
            assert error.kind and error.code
            print(type(error).__name__, error)
    """
    found = run_well(code, numbers._place, device, env={**fake, **env})
    assert found.startswith(name + " ") and message in found, found


def test_the_gpu_of_a_rank(numbers, on_gpu):
    """`"cuda"` is the GPU of the local rank, or that which torch uses."""
    code = """
        import types
        ds = packhorse.open(sys.argv[1])
        def device(**settings):
            batch = next(iter(ds.loader(10, **settings)))
            return batch.device, batch["cls"].device, batch["cls"].__dlpack_device__()
        assert device(device="cuda") == ("cuda:1", "cuda:1", (2, 1)), device(device="cuda")
        assert device(device="cuda:0") == ("cuda:0", "cuda:0", (2, 0))
        cuda = types.SimpleNamespace(is_initialized=lambda: True, current_device=lambda: 0)
        sys.modules["torch"] = types.SimpleNamespace(cuda=cuda)
        assert device(device="cuda")[0] == "cuda:0"
    """
    on_gpu(code, numbers._place, LOCAL_RANK="3")


# --- batches ----------------------------------------------------------------------------------------------------------


def test_batches_are_those_of_the_host(of_each_format, on_gpu):
    """All fields, keys and numbers of two epochs are those of a loader in host memory, for each format."""
    code = """
        ds = packhorse.open(sys.argv[1])
        here, there = (ds.loader(7, seed=3, remainder="uneven", device=device) for device in ("cpu", "cuda:0"))
        for _ in range(2):
            for wanted, found in zip(here, there, strict=True):
                equal(found, wanted)
        assert there.stats()["batches"] == 10
    """
    on_gpu(code, of_each_format._place)


def test_ragged_fields(ragged, on_gpu):
    """Rows of different lengths and shapes."""
    code = """
        ds = packhorse.open(sys.argv[1])
        for wanted, found in zip(ds.loader(6, seed=1), ds.loader(6, seed=1, device=0), strict=True):
            equal(found, wanted)
            for name in wanted:
                assert found[name].tolist() == wanted[name].tolist()
                assert found[name].bytes() == wanted[name].bytes()
                assert [row.tolist() for row in found[name]] == wanted[name].tolist()
                assert found[name][-1].device == "cuda:0" and found[name].cpu().values.device == "cpu"
    """
    on_gpu(code, ragged._place)


def test_pictures_are_finished_on_the_gpu(views, on_gpu):
    """Normalised pictures travel as bytes, and are bit for bit those of the host: crops, flips, both orders of axes, also where
    samples lack the picture."""
    code = """
        ds = packhorse.open(sys.argv[1])
        fields = {
            "first": Image("jpg", (17, 12), crop="random", flip=0.5, normalize="imagenet"),
            "label": "cls",
            "last": Image("jpg", 16, normalize=([0.1, 0.2, 0.3], [0.5, -2.0, 0.01]), channels_last=True),
            "bytes": Image("jpg", 9, crop="random", flip=0.5),
            "some": Image("png", 8, normalize=True, required=False),
            "own": Image("jpg"),
        }
        here, there = (ds.loader(5, seed=3, fields=fields, device=device) for device in ("cpu", "cuda"))
        for _ in range(3):
            for wanted, found in zip(here, there, strict=True):
                equal(found, wanted)
        told = there.explain()
        assert "device: cuda:0 (Fake GPU 0)" in told, told
        assert "normalised on the GPU: first, last" in told, told
        assert "first: Float32 [5, 3, 17, 12]" in told and "last: Float32 [5, 16, 16, 3]" in told, told
        mine = here.explain().splitlines()
        assert [line for line in told.splitlines() if line in mine] == mine
        sent = 5 * (17 * 12 * 3 + 16 * 16 * 3 + 9 * 9 * 3 + 8 * 8 * 3 * 4 + 8 + 12) + 6 * 8
        assert there._pipeline.on_gpu() == (["first", "last"], sent, 5 * 4 * 3 * (17 * 12 + 16 * 16))
    """
    on_gpu(code, views._place)


def test_settings_that_fit_no_picture(views, on_gpu):
    """What can't be normalised is refused on a GPU as in host memory."""
    code = """
        ds = packhorse.open(sys.argv[1])
        for wrong, message in [
            (Image("jpg", 8, normalize=([0, 0, 0], [1, 0, 1])), "no std of 0"),
            (Image("jpg", normalize=True), "can't be normalised"),
        ]:
            for device in ("cpu", 0):
                try:
                    iter(ds.loader(4, fields={"image": wrong}, device=device))
                    raise AssertionError("not refused")
                except packhorse.ConfigError as error:
                    assert message in str(error), error
    """
    on_gpu(code, views._place)


def test_states_and_steps(numbers, on_gpu):
    """Epochs, states, any step, pickles and the end are as in host memory; batches sent ahead do not count."""
    code = """
        ds = packhorse.open(sys.argv[1])
        numbers = lambda loader: [batch["cls"].tolist() for batch in loader]
        here = ds.loader(10, seed=4)
        wanted = [numbers(here) for _ in range(3)]

        loader = ds.loader(10, seed=4, device="cuda:0")
        assert loader.state_dict() == ds.loader(10, seed=4).state_dict()
        found = []
        for step, batch in enumerate(loader):
            found.append(batch["cls"].tolist())
            assert loader.state_dict()["consumed"] == 10 * (step + 1)
            if step == 3:
                break
        state = loader.state_dict()
        again = pickle.loads(pickle.dumps(loader))
        other = ds.loader(10, seed=4)
        other.load_state_dict(state)
        rest = numbers(other)
        assert found + rest == wanted[0]
        loader.load_state_dict(state)
        assert numbers(loader) == numbers(again) == rest
        assert numbers(loader) == wanted[1]
        loader.set_epoch(0)
        assert numbers(loader) == wanted[0]

        at = loader.at(step=13, rank=0, world=1)
        assert at.device == "cuda:0" and at["cls"].tolist() == wanted[1][3] and at.epoch == 1
        assert loader.at(2, 1, 2)["cls"].tolist() == ds.loader(10, seed=4, place=(1, 2)).at(2)["cls"].tolist()
        assert loader.is_at_end() and len(loader) == 10
        loader.close()
        assert numbers(loader) == wanted[1]
        assert loader.stats()["batches"] == 10
    """
    on_gpu(code, numbers._place)


def test_threads_of_the_caller(numbers, on_gpu):
    """Without threads of its own a loader works too, and several loaders share a GPU."""
    code = """
        ds = packhorse.open(sys.argv[1])
        wanted = sorted(range(100))
        for threads in (0, 1):
            loaders = [ds.loader(10, seed=seed, threads=threads, readers=threads, device=0) for seed in range(2)]
            for batches in zip(*loaders, strict=True):
                pass
            assert all(sorted(n for batch in loader for n in batch["cls"].tolist()) == wanted for loader in loaders)
    """
    on_gpu(code, numbers._place)


def test_errors_are_in_the_place_of_their_batch(numbers, on_gpu):
    """A copy that fails is one error, and the next batch comes."""
    code = """
        loader = packhorse.open(sys.argv[1]).loader(10, device=0)
        found, errors = 0, []
        batches = iter(loader)
        while True:
            try:
                found += next(batches).rows
            except StopIteration:
                break
            except packhorse.Error as error:
                errors.append(error)
        assert found == 90 and len(errors) == 1, (found, errors)
        assert isinstance(errors[0], packhorse.StorageError) and errors[0].code == "gpu-failed"
        assert "copy to the GPU: CUDA_ERROR_700" in str(errors[0])
    """
    on_gpu(code, numbers._place, FAKE_CUDA_FAIL="cuMemcpyHtoDAsync_v2:4:700")


def test_bad_samples_are_skipped(tmp_path, on_gpu):
    """`on_error="skip"` warns, and a batch has fewer rows."""
    samples = ({"__key__": f"f{n:02}", "cls": b"none" if n == 13 else str(n)} for n in range(40))
    dataset = write(tmp_path / "shards", samples, samples_per_shard=10)
    code = """
        import warnings
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            loader = packhorse.open(sys.argv[1]).loader(10, device=0, on_error="skip", shuffle="sequential")
            found = [batch["cls"].tolist() for batch in loader]
        assert [len(one) for one in found] == [10, 9, 10, 10]
        assert sum(found, []) == [n for n in range(40) if n != 13]
        assert any("f13" in str(one.message) for one in told)
    """
    on_gpu(code, dataset._place)


def megatron(prefix, lengths):
    """Writes a pair of Megatron's files of documents of these lengths, and returns its prefix."""
    tokens = np.arange(sum(lengths), dtype=np.uint16)
    starts = np.cumsum([0, *lengths[:-1]]) * 2
    head = b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, len(lengths), len(lengths) + 1)
    index = [np.array(lengths, np.int32), starts.astype(np.int64), np.arange(len(lengths) + 1, dtype=np.int64)]
    prefix.with_suffix(".idx").write_bytes(head + b"".join(part.tobytes() for part in index))
    prefix.with_suffix(".bin").write_bytes(tokens.tobytes())
    return prefix


def test_tokens(tmp_path, on_gpu):
    """Tokens in training order, their companions and states."""
    code = """
        tokens = packhorse.TokenDataset(sys.argv[1])
        settings = {"seed": 5, "companions": ["position_ids", "loss_mask", "cu_seqlens"]}
        wanted = list(tokens.loader(4, 16, **settings))
        loader = tokens.loader(4, 16, device="cuda:0", **settings)
        assert len(loader) == len(wanted)
        for step, found in enumerate(loader):
            assert found.device == "cuda:0"
            for name in wanted[step]:
                same(found[name], wanted[step][name])
            assert len(loader) == len(wanted) - step - 1
            if step == 2:
                break
        again = tokens.loader(4, 16, **settings)
        again.load_state_dict(loader.state_dict())
        assert next(iter(again))["tokens"].tolist() == wanted[3]["tokens"].tolist()
        assert next(iter(loader))["tokens"].tolist() == wanted[3]["tokens"].tolist()
    """
    on_gpu(code, megatron(tmp_path / "corpus", [3 + n * 7 % 40 for n in range(60)]))


# --- other libraries --------------------------------------------------------------------------------------------------


# What a program begins with that uses batches as another library does.
CONSUMER = """
import consumer
import time

driver = consumer.Driver()
own = driver.stream()
ds = packhorse.open(sys.argv[1])
numbers = lambda bytes: sorted(set(np.frombuffer(bytes, np.float32).tolist()))
"""


@pytest.fixture
def consume(on_gpu):
    """Runs a program with a consumer of DLPack."""
    return lambda code, *args, **env: on_gpu(CONSUMER + textwrap.dedent(code) + "\ndriver.close()\n", *args, **env)


@pytest.fixture(scope="module")
def grid(tmp_path_factory):
    """Arrays of 64 kB, each full of the number of its sample."""
    samples = ({"cls": n, "a": np.full((4, 4096), n, np.float32), "small": np.arange(6, dtype=np.int16)} for n in range(160))
    return write(tmp_path_factory.mktemp("grid") / "shards", samples, to="arrow", samples_per_shard=40)


def test_tensors(grid, consume):
    """Capsules of both versions describe the array and give its values; those that are not consumed free what they hold."""
    code = """
        batch = next(iter(ds.loader(4, seed=1, device=0)))
        for version, flags in [(None, None), ((0, 8), None), ((1, 0), 0), ((1, 1), 0), ((2, 0), 0)]:
            for name, dtype, inner in [("a", (2, 32, 1), (4, 4096)), ("small", (0, 16, 1), (6,)), ("cls", (0, 64, 1), ())]:
                array = batch[name]
                tensor = consumer.Tensor(array.__dlpack__(stream=own, max_version=version))
                assert tensor.versioned == (flags is not None) and tensor.flags == flags
                assert tensor.version in (None, (1, 1))
                assert tensor.device == array.__dlpack_device__() == (2, 0)
                assert tensor.dtype == dtype and tensor.shape == array.shape == (4, *inner)
                assert tensor.strides == tuple(int(np.prod(inner[at:])) for at in range(len(inner) + 1))
                assert tensor.address == array.address and tensor.nbytes == array.nbytes
                assert driver.copy(tensor, own)() == array.tobytes()
                tensor.release()
        part = batch["a"][2]
        tensor = consumer.Tensor(part.__dlpack__(stream=own))
        assert tensor.address == part.address == batch["a"].address + 2 * 65536 and tensor.shape == (4, 4096)
        assert driver.copy(tensor, own)() == batch["a"].cpu()[2].tobytes() == part.tobytes()
        tensor.release()
        for _ in range(300):
            part.__dlpack__()
            part.__dlpack__(max_version=(1, 0))
    """
    consume(code, grid._place)


def test_streams_wait_as_the_protocol_says(grid, consume):
    """The consumer's stream waits for the batch: by one wait on the GPU, which the host does not wait for; none for -1."""
    code = """
        batches = iter(ds.loader(4, seed=1, device=0))
        waits = lambda: driver.calls("cuStreamWaitEvent")
        blocks = lambda: [driver.calls(f"cu{name}Synchronize") for name in ("Event", "Stream", "Ctx")]
        for stream, expected in [(None, 1), (1, 1), (2, 2), (own, 1), (-1, 0)]:
            batch = next(batches)
            # The thread that sends batches ahead of their use has ended its calls then.
            time.sleep(0.3)
            before, blocked = waits(), blocks()
            tensor = consumer.Tensor(batch["a"].__dlpack__(stream=stream, max_version=(1, 0)))
            assert waits() - before == expected, (stream, waits() - before)
            # The memory waits for a second tensor on the same stream as it does for the first.
            consumer.Tensor(batch["cls"].__dlpack__(stream=stream)).release()
            assert waits() - before == (3 if stream == 2 else expected), (stream, waits() - before)
            assert blocks() == blocked
            if stream != -1:
                found = driver.copy(tensor, stream or 1)()
                assert numbers(found) == sorted(batch["cls"].tolist())
            tensor.release()
    """
    consume(code, grid._place)


FIRST_USE = """
    found = []
    for batch in ds.loader(4, seed=1, device=0, threads=1):
        tensor = consumer.Tensor(batch["a"].__dlpack__(stream=own))
        copied = driver.copy(tensor, own)()
        found.append(copied == batch["a"].tobytes())
        tensor.release()
    print(sum(found), "of", len(found))
"""


def test_streams_do_not_read_before_the_copy(grid, consume):
    """With slow copies consumers find whole batches; where waits are planted that do nothing they do not."""
    assert consume(FIRST_USE, grid._place, FAKE_CUDA_JITTER="20000") == "40 of 40\n"
    planted = consume(FIRST_USE, grid._place, FAKE_CUDA_JITTER="20000", FAKE_CUDA_PLANT="cuStreamWaitEvent")
    assert planted != "40 of 40\n"


def test_refused_requests(grid, consume):
    """Streams and devices that the protocol does not know are BufferErrors; streams of another GPU are refused."""
    code = """
        array = next(iter(ds.loader(4, device=0)))["a"]
        for wrong in [{"stream": 0}, {"stream": -2}, {"dl_device": (2, 1)}, {"dl_device": (10, 0)},
                      {"dl_device": (1, 0), "copy": False}, {"stream": -1, "copy": True}]:
            try:
                array.__dlpack__(**wrong)
                raise AssertionError(f"{wrong} is not refused")
            except BufferError:
                pass
        other = consumer.Driver(1)
        foreign = other.stream()
        driver.enter()
        for use in (lambda: array.__dlpack__(stream=foreign), lambda: array.__dlpack__(stream=foreign, copy=True)):
            try:
                use()
                raise AssertionError("a stream of another GPU is not refused")
            except packhorse.ConfigError as error:
                assert "a stream of another GPU" in str(error)
        assert array.__dlpack__(dl_device=(2, 0), stream=own) and array.__dlpack__(copy=False, stream=own)
        other.close()
    """
    consume(code, grid._place)


def test_copies(grid, consume):
    """A copy is the consumer's own memory, on the GPU or in the host, and may go before the work that reads it."""
    code = """
        batch = next(iter(ds.loader(4, seed=1, device=0)))
        array, wanted = batch["a"], batch["a"].tobytes()
        for stream in (own, None, 2):
            tensor = consumer.Tensor(array.__dlpack__(copy=True, max_version=(1, 0), stream=stream))
            assert tensor.address != array.address and tensor.device == (2, 0) and tensor.flags == consumer.COPIED
            driver.pause(stream or 1, 0.05)
            copied = driver.copy(tensor, stream or 1)
            tensor.release()
            assert copied() == wanted
        host = np.from_dlpack(array, device="cpu")
        assert host.tobytes() == wanted and host.shape == (4, 4, 4096)
        tensor = consumer.Tensor(array.__dlpack__(dl_device=(1, 0), max_version=(1, 0)))
        assert tensor.device == (1, 0) and tensor.flags == consumer.COPIED
        tensor.release()
    """
    consume(code, grid._place)


def test_memory_is_kept_and_used_again(grid, consume):
    """A tensor keeps its batch for as long as it lives; then the memory is used again."""
    code = """
        loader = ds.loader(4, seed=1, device=0)
        batch = next(iter(loader))
        wanted = sorted(batch["cls"].tolist())
        tensor, row = consumer.Tensor(batch["a"].__dlpack__(stream=own)), batch["a"][1]
        value = row.tolist()[0][0]
        del batch
        addresses = set()
        for _ in range(3):
            for batch in loader:
                addresses.add(batch["a"].address)
        assert tensor.address not in addresses and len(addresses) <= 6, addresses
        assert numbers(driver.copy(tensor, own)()) == wanted
        assert set(np.asarray(row.cpu()).ravel().tolist()) == {value}
    """
    consume(code + "    tensor.release()\n", grid._place)


def test_released_memory_is_used_again(grid, consume):
    """The memory of released tensors comes back, in the same pass."""
    code = """
        batches = iter(ds.loader(4, seed=1, device=0))
        kept = [consumer.Tensor(next(batches)["a"].__dlpack__(stream=own)) for _ in range(5)]
        addresses = [tensor.address for tensor in kept]
        for tensor in kept:
            tensor.release()
        again = {batch["a"].address for batch in batches}
        assert set(addresses) <= again and len(again) <= 10, (addresses, again)
    """
    consume(code, grid._place)


REUSE = """
    batches = iter(ds.loader(4, seed=1, device=0))
    batch = next(batches)
    wanted = batch["a"].tobytes()
    how = sys.argv[2]
    stream = {"none": -1, "used": -1, "own": own, "default": 1, "thread": 2}[how]
    on = own if stream == -1 else stream
    tensor = consumer.Tensor(batch["a"].__dlpack__(stream=stream))
    if how == "used":
        batch.used_on(own)
    driver.pause(on, 0.5)
    copied = driver.copy(tensor, on)
    del batch

    def release():
        driver.enter()
        tensor.release()

    # In another thread, as by a garbage collection, without the interpreter.
    thread = threading.Thread(target=release)
    thread.start()
    thread.join()
    seen = [next(batches)["cls"].shape for _ in range(12)]
    print(copied() == wanted)
"""


@pytest.mark.parametrize("how", ["own", "default", "thread", "used"])
def test_memory_waits_for_queued_work(grid, consume, how):
    """A tensor may be dropped while work that reads it is queued, on any stream that it was made for or `used_on` names: the
    copies of later batches wait for that work, on the GPU."""
    assert consume(REUSE, grid._place, how) == "True\n"


def test_without_a_stream_memory_does_not_wait(grid, consume):
    """With the stream -1 the consumer takes care of all: where `used_on` is missing, memory changes under the work."""
    assert consume(REUSE, grid._place, "none") == "False\n"


def test_array_interface(grid, consume):
    """CUDA's array interface gives a batch that has arrived, and its memory waits for work on the default stream."""
    code = """
        batches = iter(ds.loader(4, seed=1, device=0))
        batch = next(batches)
        for name, typestr, inner in [("a", "<f4", (4, 4096)), ("small", "<i2", (6,)), ("cls", "<i8", ())]:
            told = batch[name].__cuda_array_interface__
            assert told == {"shape": (4, *inner), "typestr": typestr, "data": (batch[name].address, False), "strides": None,
                            "stream": None, "version": 3}, told
        assert batch["a"][1].__cuda_array_interface__["data"][0] == batch["a"].address + 65536

        class Seen:
            address, nbytes = told["data"][0], 32
        assert np.frombuffer(driver.copy(Seen, own)(), np.int64).tolist() == batch["cls"].tolist()
        Seen.address, Seen.nbytes = batch["a"].address, batch["a"].nbytes
        wanted = batch["a"].tobytes()
        driver.pause(1, 0.4)
        copied = driver.copy(Seen, 1)
        del batch
        for _ in range(12):
            next(batches)
        assert copied() == wanted
    """
    consume(code, grid._place)


def test_torch_by_its_protocol(grid, consume):
    """`torch()` and `jax()` give the library's stream, as these stand-ins for its `from_dlpack` do."""
    code = """
        import types
        asked = []

        def from_dlpack(array):
            assert array.__dlpack_device__() == (2, 0)
            asked.append(consumer.Tensor(array.__dlpack__(stream=own, max_version=(1, 0))))
            return asked[-1]

        cuda = types.SimpleNamespace(is_initialized=lambda: False)
        sys.modules["torch"] = types.SimpleNamespace(from_dlpack=from_dlpack, cuda=cuda)
        sys.modules["jax"] = types.SimpleNamespace()
        sys.modules["jax.numpy"] = types.SimpleNamespace(from_dlpack=from_dlpack)
        batch = next(iter(ds.loader(4, seed=1, device=0)))
        tensors = batch.torch()
        assert {name: tensor.address for name, tensor in tensors.items()} == {name: batch[name].address for name in batch}
        assert batch["a"].jax().address == batch["a"].address
        for tensor in asked:
            tensor.release()
    """
    consume(code, grid._place)


def test_what_needs_host_memory_says_so(grid, on_gpu):
    """NumPy and buffers are refused with what to do; numbers, bytes and lists are copied."""
    code = """
        ds = packhorse.open(sys.argv[1])
        batch = next(iter(ds.loader(4, seed=1, device=0)))
        array = batch["a"]
        uses = [
            lambda: np.asarray(array), lambda: memoryview(array), lambda: array.numpy(), lambda: array.__array__(),
            lambda: batch.numpy(), lambda: np.stack([array, array]), lambda: open(os.devnull, "wb").write(array),
        ]
        for use in uses:
            try:
                use()
                raise AssertionError("not refused")
            except TypeError as error:
                assert "the array is on cuda:0" in str(error) and "array.cpu()" in str(error), error
        assert repr(array) == "Array(float32, [4, 4, 4096], cuda:0)" and "cuda:0" in repr(batch)
        wanted = next(iter(ds.loader(4, seed=1)))
        assert batch["cls"].tolist() == wanted["cls"].tolist() and batch["cls"][1] == wanted["cls"][1]
        assert array[3][2][7] == wanted["a"][3][2][7]
        assert array[1].cpu().numpy().tobytes() == wanted["a"][1].tobytes()
        assert array.cut(1, 3).tolist() == wanted["a"].cut(1, 3).tolist()
        try:
            array[4]
            raise AssertionError("not refused")
        except IndexError:
            pass
    """
    on_gpu(code, grid._place)


# --- processes --------------------------------------------------------------------------------------------------------

FORK = """
def fork(work):
    pid = os.fork()
    if pid == 0:
        signal.alarm(40)
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            import traceback
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    assert status == 0, f"the child ended with {status}"
"""

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system can't fork")


@forks
def test_a_forked_child_leaves_the_gpu_alone(numbers, on_gpu):
    """A child of a process that uses the GPU makes no call of its driver: loaders are refused with what to do, batches in host
    memory work, and arrays that it inherited may be dropped."""
    code = """
        import consumer
        ds = packhorse.open(sys.argv[1])
        loader = ds.loader(10, seed=2, device=0)
        batches = iter(loader)
        batch = next(batches)
        array = batch["cls"]
        tensor = consumer.Tensor(array.__dlpack__(stream=-1))

        def child():
            global batch, array, loader, batches
            for use in (lambda: iter(loader), lambda: iter(ds.loader(10, device=0)), lambda: array.tolist(),
                        lambda: array.__dlpack__(), lambda: batch["cls"], lambda: batch.used_on(1)):
                try:
                    use()
                    raise AssertionError("not refused")
                except packhorse.UnsupportedError as error:
                    assert "forked" in str(error) and "spawn or forkserver" in error.hint, error
            assert batch.rows == 10 and len(batch.keys) == 10 and array.shape == (10,)
            assert loader.state_dict()["consumed"] == 10
            assert sorted(n for one in ds.loader(10) for n in one["cls"].tolist()) == list(range(100))
            tensor.release()
            del batch, array, loader, batches
            gc.collect()

        fork(child)
        fork(child)
        assert [one["cls"].tolist() for one in ds.loader(10, seed=2)][1:] == [one["cls"].tolist() for one in batches]
        tensor.release()
    """
    on_gpu(FORK + textwrap.dedent(code), numbers._place)


@forks
def test_a_child_may_use_the_gpu_first(numbers, on_gpu):
    """Where the parent did not use the GPU, a forked child may, with the parent's loader."""
    code = """
        ds = packhorse.open(sys.argv[1])
        loader = ds.loader(10, seed=2, device=0)
        wanted = [one["cls"].tolist() for one in ds.loader(10, seed=2)]
        loader.state_dict(), len(loader)

        def child():
            assert [one["cls"].tolist() for one in loader] == wanted
            loader.close()

        fork(child)
        assert [one["cls"].tolist() for one in loader] == wanted
    """
    on_gpu(FORK + textwrap.dedent(code), numbers._place)


@forks
def test_workers_of_torch_are_refused(numbers, on_gpu):
    """Workers that torch forks can't use the GPU of their parent; the error says what to do."""
    pytest.importorskip("torch")
    code = """
        import torch
        loader = packhorse.open(sys.argv[1]).loader(10, seed=2, device=0)
        next(iter(loader))
        try:
            list(torch.utils.data.DataLoader(loader.torch(), batch_size=None, num_workers=1, multiprocessing_context="fork"))
            raise AssertionError("not refused")
        except packhorse.UnsupportedError as error:
            assert "forked from one that uses it" in str(error), error
    """
    on_gpu(code, numbers._place)


def test_pickled_loaders(numbers, fake, tmp_path):
    """A loader for a GPU goes to another process, where it uses the GPU on its own."""
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent("""
        import multiprocessing, sys
        import packhorse

        def read(loader, queue):
            queue.put([(batch.device, batch["cls"].tolist()) for batch in loader])

        if __name__ == "__main__":
            ds = packhorse.open(sys.argv[1])
            context = multiprocessing.get_context("spawn")
            loader = ds.loader(10, seed=3, device="cuda:1")
            first = next(iter(loader))["cls"].tolist()
            queue = context.Queue()
            process = context.Process(target=read, args=(loader, queue))
            process.start()
            found = queue.get(timeout=60)
            process.join(60)
            wanted = [("cuda:1", batch["cls"].tolist()) for batch in ds.loader(10, seed=3)]
            assert [("cuda:1", first)] + found == wanted
            print("well")
    """))
    done = subprocess.run(
        [sys.executable, program, numbers._place], env={**os.environ, **fake}, capture_output=True, text=True, timeout=90
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "well\n", ""), done.stderr


@pytest.mark.parametrize("order", ["array", "loader", "iterator", "tensor", "all"])
def test_the_end_of_the_interpreter(numbers, fake, tmp_path, order):
    """A program may end with live arrays, loaders, tensors, and tensors that are released after the interpreter is gone."""
    holder = tmp_path / "holder.c"
    holder.write_text("""
        static void (*deleters[8])(void*);
        static void* tensors[8];
        static int count;
        void hold(void (*deleter)(void*), void* tensor) { deleters[count] = deleter, tensors[count++] = tensor; }
        __attribute__((destructor)) static void release(void) { while (count--) deleters[count](tensors[count]); }
    """)
    compiled(["cc"], tmp_path / "holder.so", holder)
    code = """
        import ctypes
        import consumer

        loader = packhorse.open(sys.argv[1]).loader(7, threads=2, device="cuda:0")
        batches = iter(loader)
        batch = next(batches)
        kept = [batch["cls"], batch["cls"].__dlpack__(), batch["cls"].__dlpack__(max_version=(1, 0)), batch, next(batches)]
        if sys.argv[2] in ("tensor", "all"):
            holder = ctypes.CDLL(sys.argv[3])
            for version in (None, (1, 0)):
                tensor = consumer.Tensor(batch["cls"].__dlpack__(max_version=version, stream=1))
                holder.hold(tensor.deleter, ctypes.c_void_p(tensor._at))
        if sys.argv[2] == "array":
            sys.kept = kept
            del loader, batches
        elif sys.argv[2] == "loader":
            sys.kept = loader
            del batches, kept, batch
        elif sys.argv[2] == "iterator":
            sys.kept = batches
            del loader, kept, batch
        elif sys.argv[2] == "tensor":
            del loader, batches, kept, batch
        else:
            sys.kept = loader, batches, kept, batch
        print("ends")
    """
    found = run_well(START + textwrap.dedent(code), numbers._place, order, tmp_path / "holder.so", env=fake)
    assert found == "ends\n"


# --- a real GPU -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def torch():
    """torch with a GPU."""
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("needs an NVIDIA GPU")
    return torch


def test_a_real_gpu_has_the_batches_of_the_host(torch, views):
    """Tensors of torch on its default stream and on a side stream are the batches of a loader in host memory."""
    fields = {
        "image": packhorse.Image("jpg", 64, crop="random", flip=0.5, normalize="imagenet"),
        "bytes": packhorse.Image("jpg", 48),
        "label": "cls",
    }
    here, there = (views.loader(6, seed=5, fields=fields, device=device) for device in ("cpu", torch.device("cuda")))
    side = torch.cuda.Stream()
    for epoch in range(8):
        for wanted, found in zip(here, there, strict=True):
            with torch.cuda.stream(side if epoch % 2 else torch.cuda.current_stream()):
                tensors = found.torch()
                copies = {name: tensor.clone() for name, tensor in tensors.items()}
                assert all(tensor.is_cuda for tensor in tensors.values())
            del found, tensors
            torch.cuda.synchronize()
            for name, copied in copies.items():
                assert torch.equal(copied.cpu(), wanted[name].torch()), (epoch, name)


def test_a_real_gpu_keeps_memory_for_queued_work(torch, grid):
    """Tensors are dropped while the work that reads them is queued behind a slow kernel, on streams of several kinds."""
    loader, side, other = grid.loader(4, seed=1, device="cuda"), torch.cuda.Stream(), torch.cuda.Stream()
    wanted = [batch["a"].torch() for batch in grid.loader(4, seed=1)]
    sums = []
    for step, batch in enumerate(loader):
        stream = [torch.cuda.current_stream(), side, other][step % 3]
        with torch.cuda.stream(side if stream is other else stream):
            tensor = batch["a"].torch()
        if stream is other:
            batch.used_on(other)
        with torch.cuda.stream(stream):
            torch.cuda._sleep(20_000_000)
            sums.append(tensor.double().sum(dim=(1, 2)))
        del tensor, batch
    torch.cuda.synchronize()
    for found, one in zip(sums, wanted, strict=True):
        assert torch.equal(found.cpu(), one.double().sum(dim=(1, 2)))


def test_a_real_gpu_feeds_cupy(torch, grid):
    """CuPy takes arrays by DLPack and by CUDA's array interface."""
    cupy = pytest.importorskip("cupy")
    wanted = next(iter(grid.loader(4, seed=1)))["a"].numpy()
    batch = next(iter(grid.loader(4, seed=1, device="cuda")))
    assert (cupy.asnumpy(cupy.from_dlpack(batch["a"])) == wanted).all()
    assert (cupy.asnumpy(cupy.asarray(batch["a"])) == wanted).all()
