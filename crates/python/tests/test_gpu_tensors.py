"""Batches on a GPU in other libraries and in processes. Most tests run over the fake driver of `crates/testkit/src/cuda`; the last
need a real GPU."""

import os
import subprocess
import sys
import textwrap

import numpy as np
import packhorse
import pytest
from conftest import START, compiled, run_well, write
from test_processes import CHILD, forks

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
    on_gpu(CHILD + textwrap.dedent(code), numbers._place)


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
    on_gpu(CHILD + textwrap.dedent(code), numbers._place)


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


BATCHES = 1000


def sums_on_the_host(grid):
    """The sums of the arrays of `BATCHES` batches, and the loader on the GPU that must give the same."""
    loader, sums = grid.loader(4, seed=1), []
    while len(sums) < BATCHES:
        sums += [batch["a"].numpy().sum(axis=(1, 2), dtype=np.float64).tolist() for batch in loader]
    return sums


def on_a_gpu(grid):
    """Batches on the GPU for as many epochs as it takes."""
    loader = grid.loader(4, seed=1, device="cuda")
    while True:
        yield from loader


def test_a_real_gpu_feeds_torch_beside_captures(torch, grid):
    """A thousand batches, on two side streams by turns, each copied into the input of a CUDA graph, which is replayed. Tensors of
    earlier batches are dropped while graphs are captured."""
    batches, streams = on_a_gpu(grid), [torch.cuda.Stream(), torch.cuda.Stream()]
    inputs = torch.zeros((4, 4, 4096), device="cuda")
    output = torch.zeros(4, dtype=torch.float64, device="cuda")
    found, graph = [], None
    for number in range(BATCHES):
        stream = streams[number % 2]
        stream.wait_stream(streams[1 - number % 2])
        with torch.cuda.stream(stream):
            tensor = next(batches)["a"].torch()
            if number % 100 == 0:
                inputs.copy_(tensor)
                torch.cuda.synchronize()
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph, stream=stream):
                    output.copy_(inputs.double().sum(dim=(1, 2)))
                    del tensor
            else:
                inputs.copy_(tensor)
                del tensor
            graph.replay()
            found.append(output.clone())
    torch.cuda.synchronize()
    assert torch.stack(found).cpu().tolist() == sums_on_the_host(grid)


def test_a_real_gpu_refuses_a_batch_within_a_capture(torch, grid):
    """A stream that captures can't wait for a batch, and the capture goes on without it."""
    batches, stream = on_a_gpu(grid), torch.cuda.Stream()
    batch, value = next(batches), torch.ones(1, device="cuda")
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        with pytest.raises(packhorse.Error, match="captur"):
            batch["a"].torch()
        value.add_(1)
    graph.replay()
    torch.cuda.synchronize()
    assert value.item() == 2 and batch["a"].torch().is_cuda


def test_a_real_gpu_feeds_cupy_for_long(torch, grid):
    """A thousand batches on streams of CuPy."""
    cupy = pytest.importorskip("cupy")
    batches, streams, found = on_a_gpu(grid), [cupy.cuda.Stream(non_blocking=True) for _ in range(3)], []
    for number in range(BATCHES):
        with streams[number % 3]:
            found.append(cupy.from_dlpack(next(batches)["a"]).sum(axis=(1, 2), dtype=cupy.float64))
    cupy.cuda.runtime.deviceSynchronize()
    assert [sums.get().tolist() for sums in found] == sums_on_the_host(grid)


def test_a_real_gpu_feeds_jax(torch, grid):
    """A thousand batches; JAX has streams of its own."""
    jax = pytest.importorskip("jax")
    if jax.default_backend() != "gpu":
        pytest.skip("needs JAX with a GPU")
    total = jax.jit(lambda one: one.sum(axis=(1, 2)))
    batches, found = on_a_gpu(grid), []
    for _ in range(BATCHES):
        found.append(total(next(batches)["a"].jax()))
    # 32-bit sums of equal whole numbers below 2^24 x 2^14 have an error of a few units in the last place.
    assert np.allclose(np.stack([np.asarray(one) for one in found]), sums_on_the_host(grid), rtol=1e-6)


def test_a_real_gpu_keeps_all_samples(torch, views):
    """Batches of samples that the GPU keeps are those of the host, on its default stream and on side streams by turns; random crops
    within 2 of 255."""
    fields = {
        "crop": packhorse.Image("jpg", 32, crop="random", flip=0.5),
        "image": packhorse.Image("jpg", 48, flip=0.5, normalize="imagenet"),
        "label": "cls",
        "text": "txt",
    }
    here, there = (views.loader(6, seed=5, fields=fields, device=device, resident=device != "cpu") for device in ("cpu", "cuda"))
    side = torch.cuda.Stream()
    for epoch in range(8):
        for wanted, found in zip(here, there, strict=True):
            with torch.cuda.stream(side if epoch % 2 else torch.cuda.current_stream()):
                copies = {name: found[name].torch().clone() for name in ("crop", "image", "label")}
                text = found["text"].values.torch().clone()
            assert found.keys == wanted.keys
            del found
            torch.cuda.synchronize()
            assert text.cpu().numpy().tobytes() == wanted["text"].values.numpy().tobytes()
            assert (copies["crop"].cpu().int() - wanted["crop"].torch().int()).abs().max() <= 2
            for name in ("image", "label"):
                assert torch.equal(copies[name].cpu(), wanted[name].torch()), (epoch, name)


def test_a_real_gpu_changes_colors(torch, views):
    """What a sample's picture becomes is the same in every batch and where the GPU keeps the samples."""
    colors = {"rotate": 15, "jitter": (0.4, 0.4, 0.4, 0.1, 0.8), "grayscale": 0.2, "blur": (9, 0.1, 2.0, 0.5), "erase": 0.25}
    fields = {"image": packhorse.Image("jpg", 48, flip=0.5, normalize="imagenet", **colors), "plain": packhorse.Image("jpg", 48)}
    seen = {}
    for batch, resident in [(6, False), (5, False), (7, True)]:
        loader = views.loader(batch, seed=5, fields=fields, device="cuda", resident=resident, remainder="uneven")
        for epoch in range(3):
            for one in loader:
                for number, pixels in zip(one.numbers, one["image"].torch().cpu(), strict=True):
                    assert torch.equal(seen.setdefault((epoch, number), pixels), pixels)
    assert len(seen) == 72 and len({pixels.numpy().tobytes() for pixels in seen.values()}) == 72


def test_a_real_gpu_mixes_pictures(torch, views):
    """Mixed pictures are those of the picture and the one before it, by the shares that the targets say."""
    plain = {"image": packhorse.Image("jpg", 48, flip=0.5, normalize="imagenet", jitter=(0.4, 0.4, 0.4, 0.1, 0.8)), "label": "cls"}
    mixing = {**plain, "image": packhorse.Image("jpg", 48, flip=0.5, normalize="imagenet", jitter=(0.4, 0.4, 0.4, 0.1, 0.8),
                                                mixup=0.4, targets=("label", 64))}
    here, there = (views.loader(6, seed=5, fields=fields, device="cuda") for fields in (plain, mixing))
    for wanted, found in zip(here, there, strict=True):
        images, labels = wanted["image"].torch(), wanted["label"].torch()
        targets = found["label"].torch()
        assert torch.allclose(targets.sum(dim=1), torch.ones(6, device="cuda"))
        # No two pictures have a class in common.
        share = targets.gather(1, labels[:, None])[:, :, None, None]
        mixed = share * images + (1 - share) * images.roll(1, dims=0)
        assert (found["image"].torch() - mixed).abs().max() < 1e-3


def test_a_real_gpu_decodes_pictures(torch, views):
    """NVIDIA's library finds its way to the batch: the same samples, crops and flips as the CPU's, and nearly its pixels."""
    fields = lambda **settings: {
        "image": packhorse.Image("jpg", 48, crop="random", flip=0.5, normalize="imagenet", **settings),
        "bytes": packhorse.Image("jpg", 40, **settings),
        "label": "cls",
    }
    here, there = views.loader(6, seed=5, fields=fields()), views.loader(6, seed=5, fields=fields(decode="gpu"), device="cuda")
    try:
        there.at(0)
    except packhorse.UnsupportedError as error:
        pytest.skip(str(error))
    for _ in range(3):
        for wanted, found in zip(here, there, strict=True):
            assert found.keys == wanted.keys and torch.equal(found["label"].torch().cpu(), wanted["label"].torch())
            for name, scale in [("image", 1 / 255 / 0.22), ("bytes", 1)]:
                far = (found[name].torch().cpu().float() - wanted[name].torch().float()).abs() / scale
                # Chroma is upsampled otherwise, which shows at edges.
                assert far.mean() < 1.5 and (far > 24).float().mean() < 0.01, (name, far.mean(), far.max())
