"""Forked and spawned processes, workers of torch, and ranks. A child that hangs fails by a timeout."""

import json
import multiprocessing
import os
import pickle
import socket
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import packhorse
import pytest
from conftest import labels, mixed, npy, run_python, write

HANG = 60

METHODS = [name for name in ("fork", "forkserver", "spawn") if name in multiprocessing.get_all_start_methods()]

forks = pytest.mark.skipif("fork" not in METHODS, reason="this system can't fork")


def ends_well(code, *args):
    """Runs a program that must end with exit code 0 before the timeout; returns its output."""
    done = run_python(code, *args, timeout=HANG)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Error" not in done.stderr, done.stderr
    return done.stdout


# What a child does with a dataset and a loader, and how its parent waits for it.
CHILD = """
import os, signal, sys, time
import packhorse

def use(dataset, wanted):
    assert len(dataset) == 30
    assert int(dataset[3]["cls"]) == 3
    assert dataset.keys[7] == "k00007"
    assert dataset.batch([5, 1])["cls"].tolist() == [5, 1]
    assert dataset.where(keys=["k00002"]).batch([0])["cls"].tolist() == [2]
    found = sorted(n for batch in dataset.loader(5) for n in batch["cls"].tolist())
    assert found == list(range(30)), found
    again = packhorse.open(dataset._place)
    assert again.batch(range(30))["cls"].tolist() == list(range(30))
    assert wanted is None or wanted == [batch["cls"].tolist() for batch in dataset.loader(5, seed=4)]

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


@forks
def test_fork(of_each_format):
    """A child forked after its parent read and loaded can read, open and load, for each format."""
    code = """
        dataset = packhorse.open(sys.argv[1])
        fork(lambda: use(packhorse.open(sys.argv[1]), None))
        wanted = [batch["cls"].tolist() for batch in dataset.loader(5, seed=4)]
        use(dataset, wanted)
        fork(lambda: use(dataset, wanted))
        use(dataset, wanted)
        fork(lambda: fork(lambda: use(dataset, wanted)))
        print("well")
    """
    assert ends_well(CHILD + textwrap.dedent(code), of_each_format._place) == "well\n"


@forks
def test_packing_in_a_forked_child(tmp_path):
    """A child packs if its parent only imported the package; after parallel work of its parent it says why it can't."""
    code = """
        rows = [{"x": number} for number in range(1000)]

        def first():
            packhorse.pack(rows, sys.argv[1] + "/first", to="parquet")
            packhorse.verify(sys.argv[1] + "/first", full=True)
            packhorse.pack(sys.argv[1] + "/first", sys.argv[1] + "/again", to="hdf5")

        fork(first)
        fork(lambda: packhorse.pack(rows, sys.argv[1] + "/second", to="hdf5"))
        for name in ("first", "second"):
            assert len(packhorse.open(sys.argv[1] + "/" + name)) == 1000
        packhorse.pack(rows, sys.argv[1] + "/third", to="parquet")

        def child():
            for work in (
                lambda: packhorse.pack(rows, sys.argv[1] + "/fourth", to="parquet"),
                lambda: packhorse.pack(sys.argv[1] + "/third", sys.argv[1] + "/fifth", to="hdf5"),
                lambda: packhorse.Writer(sys.argv[1] + "/sixth", to="parquet"),
            ):
                try:
                    work()
                    raise AssertionError("it packed")
                except packhorse.UnsupportedError as error:
                    assert "forked" in str(error) and "forkserver" in error.hint, error

        fork(child)
        print("well")
    """
    assert ends_well(CHILD + textwrap.dedent(code), tmp_path) == "well\n"


@forks
def test_a_writer_belongs_to_its_process(tmp_path):
    """A forked child leaves the writer of its parent alone, however it ends."""
    code = """
        out = sys.argv[1] + "/shards"
        with packhorse.Writer(out, samples_per_shard=10) as writer:
            for number in range(300):
                writer.write({"cls": number})

            def child():
                for work in (lambda: writer.write({"cls": 1}), lambda: writer.samples, writer.close):
                    try:
                        work()
                        raise AssertionError("it went on in the child")
                    except packhorse.ConfigError as error:
                        assert "forked" in str(error), error

            fork(child)
            if os.fork() == 0:
                signal.alarm(40)
                sys.exit(0)
            os.wait()
            for number in range(300, 400):
                writer.write({"cls": number})
        assert sorted(int(sample["cls"]) for sample in packhorse.open(out)) == list(range(400))
        print("well")
    """
    assert ends_well(CHILD + textwrap.dedent(code), tmp_path) == "well\n"


@forks
def test_a_child_knows_the_state_while_its_parent_waits(tmp_path):
    """Another thread of the parent waits for a batch that does not come when the child is forked."""
    code = """
        import http.server, threading
        with packhorse.Writer(sys.argv[1] + "/shards", samples_per_shard=10) as writer:
            for number in range(100):
                writer.write({"cls": number})
        stuck = threading.Event()

        class Answers(http.server.SimpleHTTPRequestHandler):
            def log_message(self, *_):
                pass
            def do_GET(self):
                if self.path.endswith("000005.tar"):
                    stuck.set()
                    time.sleep(600)
                return super().do_GET()

        os.chdir(sys.argv[1] + "/shards")
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        dataset = packhorse.open(f"http://127.0.0.1:{server.server_port}/dataset.json")
        loader = dataset.loader(10, shuffle="sequential", threads=1, readers=1, ahead=1)
        taken = []

        def take():
            for batch in loader:
                taken.append(batch["cls"].tolist())

        threading.Thread(target=take, daemon=True).start()
        assert stuck.wait(30)
        while len(taken) < 5:
            time.sleep(0.01)
        time.sleep(0.3)

        def child():
            assert loader.state_dict()["consumed"] == 50

        fork(child)
        print("well", flush=True)
        os._exit(0)
    """
    assert ends_well(CHILD + textwrap.dedent(code), tmp_path) == "well\n"


@forks
def test_fork_inside_of_an_epoch(of_each_format):
    """A child forked inside of an epoch goes on from there by itself, and so does its parent."""
    code = """
        loader = packhorse.open(sys.argv[1]).loader(5, seed=2)
        wanted = [batch["cls"].tolist() for _ in range(2) for batch in loader]
        loader = packhorse.open(sys.argv[1]).loader(5, seed=2)
        batches = iter(loader)
        kept = [next(batches)["cls"] for _ in range(2)]

        def child():
            assert [array.tolist() for array in kept] == wanted[:2]
            try:
                next(batches)
                raise AssertionError("the parent's `for` went on in the child")
            except RuntimeError as error:
                assert "fork" in str(error), error
            assert loader.state_dict()["consumed"] == 10
            assert loader.epoch == 0
            assert [batch["cls"].tolist() for batch in loader] == wanted[2:6]
            assert [batch["cls"].tolist() for batch in loader] == wanted[6:]

        for _ in range(3):
            fork(child)
        assert [batch["cls"].tolist() for batch in batches] == wanted[2:6]
        assert [batch["cls"].tolist() for batch in loader] == wanted[6:]
        print("well")
    """
    assert ends_well(CHILD + textwrap.dedent(code), of_each_format._place) == "well\n"


@forks
def test_a_child_that_leaves_by_the_interpreters_end(numbers):
    """A forked child may end as programs do, with loaders of its parent and its own alive."""
    code = """
        loader = packhorse.open(sys.argv[1]).loader(5, seed=2)
        batches = iter(loader)
        batch = next(batches)
        pid = os.fork()
        if pid == 0:
            signal.alarm(40)
            own = iter(packhorse.open(sys.argv[1]).loader(5))
            next(own)
            del loader, batches, batch
            sys.exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        assert len(list(batches)) == 19
        print("well")
    """
    assert ends_well(CHILD + textwrap.dedent(code), numbers._place) == "well\n"


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("to", ["webdataset", "parquet", "hdf5"])
def test_multiprocessing(tmp_path, method, to):
    """Datasets and loaders go to processes of every kind, also after the parent used its pools of threads."""
    samples = ({"__key__": s["__key__"], "cls": s["x"], "npy": s["grid"]} for s in mixed(30))
    dataset = write(tmp_path / "shards", samples, to=to, samples_per_shard=4)
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent("""
        import multiprocessing
        import sys
        import packhorse

        def read(dataset, loader, numbers, queue):
            found = [int(dataset[number]["cls"]) for number in numbers]
            loaded = [batch["cls"].tolist() for batch in loader]
            queue.put((found, loaded))

        if __name__ == "__main__":
            context = multiprocessing.get_context(sys.argv[2])
            dataset = packhorse.open(sys.argv[1])
            assert dataset.batch(range(30))["cls"].tolist() == list(range(30))
            loader = dataset.loader(5, seed=3)
            batches = iter(loader)
            first = [next(batches)["cls"].tolist() for _ in range(2)]
            queue = context.Queue()
            children = [context.Process(target=read, args=(dataset, loader, [n, 29 - n], queue)) for n in range(2)]
            for child in children:
                child.start()
            answers = sorted(queue.get(timeout=50) for _ in children)
            for child in children:
                child.join(50)
                assert child.exitcode == 0, child.exitcode
            rest = [batch["cls"].tolist() for batch in batches]
            assert answers == [([0, 29], rest), ([1, 28], rest)], (answers, rest)
            assert sorted(sum(first + rest, [])) == list(range(30))
            print("well")
        """)
    )
    done = subprocess.run(
        [sys.executable, program, dataset._place, method], capture_output=True, text=True, timeout=HANG
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "well\n"


@forks
def test_a_pool_of_processes(numbers):
    """A pool of forked processes reads samples of its parent's dataset."""
    code = """
        import multiprocessing
        import sys
        import packhorse

        dataset = packhorse.open(sys.argv[1])

        def label(number):
            return int(dataset[number]["cls"])

        assert label(5) == 5
        with multiprocessing.get_context("fork").Pool(2) as pool:
            assert pool.map(label, range(100)) == list(range(100))
        print("well")
    """
    assert ends_well(code, numbers._place) == "well\n"


def test_threads_read_one_dataset(numbers):
    """Several threads read one dataset, each with a loader of its own."""
    def use(seed):
        found = sorted(labels(numbers.loader(10, seed=seed)))
        return found, [int(numbers[n]["cls"]) for n in range(100)], numbers.batch([seed])["cls"].tolist()

    with ThreadPoolExecutor(4) as pool:
        for seed, found in enumerate(pool.map(use, range(12))):
            assert found == (list(range(100)), list(range(100)), [seed])


# --- torch's DataLoader -----------------------------------------------------------------------------------------------


def by_torch(code, *args):
    """Runs a program with torch in a process of its own, where workers can be forked."""
    pytest.importorskip("torch")
    start = """
        import sys
        import warnings
        import torch
        import packhorse
        from torch.utils.data import DataLoader

        def numbers(batches):
            return [batch["cls"].tolist() for batch in batches]

        dataset = packhorse.open(sys.argv[1])
    """
    return ends_well(textwrap.dedent(start) + textwrap.dedent(code), *args)


@pytest.mark.parametrize("method", [name for name in METHODS if name != "forkserver"])
def test_a_map_style_dataset(pictures, tmp_path, method):
    """Batches of torch's DataLoader are the same without and with workers, crops included."""
    pytest.importorskip("torch")
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent("""
        import sys
        import torch
        import packhorse
        from torch.utils.data import DataLoader

        if __name__ == "__main__":
            dataset = packhorse.open(sys.argv[1])
            fields = {"image": packhorse.Image("jpg", 12, crop="random", flip=0.5), "label": "cls", "txt": "txt"}
            dataset[0], dataset.batch([1], fields)
            mine = dataset.torch(fields, seed=3)
            assert len(mine) == 24
            assert sum(1 for _ in mine) == 24 and int(mine[-1]["label"]) == int(mine[23]["label"])
            one = mine[2]
            assert one["image"].shape == (12, 12, 3)
            assert int(one["label"]) == 2
            assert one["txt"].decode() == "a picture, number 2 é"
            mine.set_epoch(1)
            epochs = []
            for workers in (0, 2):
                context = sys.argv[2] if workers else None
                loader = DataLoader(mine, batch_size=5, num_workers=workers, multiprocessing_context=context)
                epochs.append(list(loader))
            for here, there in zip(*epochs, strict=True):
                assert torch.equal(here["image"], there["image"])
                assert torch.equal(here["label"], there["label"])
                assert here["txt"] == there["txt"]
            assert torch.cat([batch["label"] for batch in epochs[0]]).tolist() == [n % 5 for n in range(24)]
            print("well")
        """)
    )
    done = subprocess.run([sys.executable, program, pictures._place, method], capture_output=True, text=True, timeout=HANG)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "well\n"


def test_a_transform(numbers):
    """A transform gets each sample of a map-style dataset."""
    pytest.importorskip("torch")
    mine = numbers.torch(transform=lambda sample: int(sample["cls"]) * 2)
    assert mine[4] == 8
    assert mine.__getitems__([1, 99]) == [2, 198]
    assert [mine[number] for number in (0, 50)] == [0, 100]


def test_a_sampler_of_torch(numbers):
    """torch's own shuffling and samplers work over a map-style dataset."""
    code = """
        loader = DataLoader(dataset.torch(), batch_size=10, shuffle=True, num_workers=2)
        found = numbers(loader)
        assert sorted(sum(found, [])) == list(range(100))
        assert sum(found, []) != list(range(100))
        print("well")
    """
    assert by_torch(code, numbers._place) == "well\n"


def test_batches_without_workers(numbers):
    """`DataLoader(loader.torch(), batch_size=None)` gives the loader's own batches, epoch by epoch."""
    code = """
        loader = dataset.loader(10, seed=4)
        wanted = [numbers(loader) for _ in range(3)]
        data = DataLoader(dataset.loader(10, seed=4).torch(), batch_size=None)
        assert len(data) == 10
        assert [numbers(data) for _ in range(3)] == wanted
        print("well")
    """
    assert by_torch(code, numbers._place) == "well\n"


@pytest.mark.parametrize("persistent", [False, True])
def test_batches_with_workers(numbers, persistent):
    """With two workers every sample comes once in an epoch; persistent workers go on to the next epoch by themselves."""
    code = """
        mine = dataset.loader(10, seed=4).torch()
        data = DataLoader(mine, batch_size=None, num_workers=2, persistent_workers=sys.argv[2] == "True")
        epochs = []
        for epoch in range(3):
            if sys.argv[2] == "False":
                mine.set_epoch(epoch)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                epochs.append(numbers(data))
            assert len(epochs[-1]) == 10
            assert sorted(sum(epochs[-1], [])) == list(range(100)), epochs[-1]
        assert epochs[0] != epochs[1] != epochs[2]
        wanted = [[dataset.loader(10, seed=4).at(step, rank, 2)["cls"].tolist() for step in range(5)] for rank in range(2)]
        assert sorted(epochs[0]) == sorted(wanted[0] + wanted[1])
        print("well")
    """
    assert by_torch(code, numbers._place, persistent) == "well\n"


def test_uneven_batches_with_workers(numbers):
    """With workers and `uneven` every sample comes once, whatever the sizes."""
    code = """
        for batch in (3, 7, 40, 60):
            mine = dataset.loader(batch, seed=4, remainder="uneven").torch()
            found = numbers(DataLoader(mine, batch_size=None, num_workers=2))
            assert sorted(sum(found, [])) == list(range(100)), (batch, found)
        print("well")
    """
    assert by_torch(code, numbers._place) == "well\n"


def test_workers_over_typed_formats(of_each_format):
    """Workers read every format, also after their parent did."""
    code = """
        assert len(dataset.batch(range(30))["cls"]) == 30
        loader = dataset.loader(5, seed=4)
        before = numbers(loader)
        data = DataLoader(loader.torch(), batch_size=None, num_workers=2)
        assert sorted(sum(numbers(data), [])) == list(range(30))
        data = DataLoader(dataset.torch(["cls"]), batch_size=4, num_workers=2)
        assert sum(numbers(data), []) == list(range(30))
        print("well")
    """
    assert by_torch(code, of_each_format._place) == "well\n"


@pytest.mark.parametrize("workers", [0, 2])
def test_states_of_torchdata(numbers, workers):
    """torchdata's StatefulDataLoader resumes inside of an epoch, without and with workers."""
    pytest.importorskip("torchdata.stateful_dataloader")
    code = """
        from torchdata.stateful_dataloader import StatefulDataLoader

        def make():
            return StatefulDataLoader(dataset.loader(5, seed=4).torch(), batch_size=None, num_workers=int(sys.argv[2]))

        wanted = numbers(make())
        assert sorted(sum(wanted, [])) == list(range(100))
        for taken in (0, 1, 7, 12, 19):
            data = make()
            batches = iter(data)
            first = [next(batches)["cls"].tolist() for _ in range(taken)]
            assert first == wanted[:taken]
            state = data.state_dict()
            again = make()
            again.load_state_dict(state)
            assert numbers(again) == wanted[taken:], taken
        print("well")
    """
    assert by_torch(code, numbers._place, workers) == "well\n"


@pytest.mark.parametrize("workers", [0, 2])
def test_states_of_torchdata_at_the_end_of_an_epoch(numbers, workers):
    """From a state after a whole epoch the next pass is a whole epoch too."""
    pytest.importorskip("torchdata.stateful_dataloader")
    code = """
        from torchdata.stateful_dataloader import StatefulDataLoader

        def make():
            return StatefulDataLoader(dataset.loader(5, seed=4).torch(), batch_size=None, num_workers=int(sys.argv[2]))

        data = make()
        first = numbers(data)
        again = make()
        again.load_state_dict(data.state_dict())
        second = numbers(again)
        assert len(second) == 20
        assert sorted(sum(second, [])) == list(range(100))
        if sys.argv[2] == "0":
            assert second == numbers(data) != first
        print("well")
    """
    assert by_torch(code, numbers._place, workers) == "well\n"


def test_states_of_torchdata_over_samples(numbers):
    """A map-style dataset resumes inside of an epoch too."""
    pytest.importorskip("torchdata.stateful_dataloader")
    code = """
        from torchdata.stateful_dataloader import StatefulDataLoader

        def make():
            return StatefulDataLoader(dataset.torch(), batch_size=5, num_workers=2)

        data = make()
        batches = iter(data)
        first = [next(batches)["cls"].tolist() for _ in range(6)]
        state = data.state_dict()
        again = make()
        again.load_state_dict(state)
        assert sum(first + numbers(again), []) == list(range(100))
        print("well")
    """
    assert by_torch(code, numbers._place) == "well\n"


def test_ranks_of_torch_distributed(numbers):
    """Two processes of torch.distributed share an epoch, by `place="auto"`, and have equal states."""
    pytest.importorskip("torch")
    code = """
        import json
        import os
        import sys
        import torch.distributed as dist
        import packhorse

        rank = int(os.environ["RANK"])
        dist.init_process_group("gloo")
        # The group decides, not the environment.
        os.environ["RANK"] = "7"
        loader = packhorse.open(sys.argv[1]).loader(10, seed=4)
        assert loader.place == (rank, 2), loader.place
        batches = iter(loader)
        found = [next(batches)["cls"].tolist() for _ in range(2)]
        states = [None, None]
        dist.all_gather_object(states, loader.state_dict())
        assert states[0] == states[1]
        found += [batch["cls"].tolist() for batch in batches]
        dist.destroy_process_group()
        print(json.dumps(found))
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    env = {**os.environ, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(code), numbers._place],
            env={**env, "RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        found = []
        for rank, process in enumerate(ranks):
            out, err = process.communicate(timeout=HANG)
            assert process.returncode == 0, err
            found.append(json.loads(out.splitlines()[-1]))
            assert found[rank] == [numbers.loader(10, seed=4).at(step, rank, 2)["cls"].tolist() for step in range(5)]
    finally:
        for process in ranks:
            process.kill()
            process.wait()
    assert sorted(sum(found[0] + found[1], [])) == list(range(100))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_persistent_workers_see_the_epoch(pictures, tmp_path, method):
    """Crops of each epoch differ, and are those of workers that start with it."""
    code = """
        if __name__ == "__main__":
            data = packhorse.open(sys.argv[1]).torch({"image": packhorse.Image("jpg", 16, crop="random", flip=0.5)}, seed=7)
            found = {}
            for persistent in (True, False):
                workers = DataLoader(
                    data, batch_size=4, num_workers=1, persistent_workers=persistent, multiprocessing_context=sys.argv[2]
                )
                for epoch in range(3):
                    data.set_epoch(epoch)
                    found[persistent, epoch] = next(iter(workers))["image"].clone()
            for epoch in range(3):
                assert torch.equal(found[True, epoch], found[False, epoch]), epoch
                assert epoch == 0 or not torch.equal(found[True, epoch], found[True, epoch - 1]), epoch
            assert data.epoch == 2
            print("well")
    """
    assert by_torch(code, pictures._place, method) == "well\n"


@forks
def test_a_state_is_loaded_for_one_epoch_of_workers(numbers):
    """`set_epoch` of a later epoch has all of its samples, though each epoch has workers of its own."""
    code = """
        dataset = packhorse.open(sys.argv[1])
        first = dataset.loader(4, seed=3)
        next(iter(first))
        state = first.state_dict()
        data = dataset.loader(4, seed=3, remainder="uneven").torch()
        data.load_state_dict(state)
        workers = DataLoader(data, batch_size=None, num_workers=2)
        counts = []
        for epoch in range(3):
            data.set_epoch(epoch)
            counts.append(sum(len(batch["cls"]) for batch in workers))
        assert counts[1:] == [len(dataset)] * 2 and counts[0] == len(dataset) - 4, counts
        print("well")
    """
    assert by_torch(code, numbers._place) == "well\n"


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_persistent_workers_of_a_loader_see_the_epoch(numbers, method):
    """A jump to another epoch gives the samples that new workers would read."""
    code = """
        if __name__ == "__main__":
            data = packhorse.open(sys.argv[1]).loader(4, seed=3, remainder="uneven").torch()
            found = {}
            for persistent in (True, False):
                workers = DataLoader(
                    data, batch_size=None, num_workers=2, persistent_workers=persistent, multiprocessing_context=sys.argv[2]
                )
                for turn, epoch in enumerate([0, 1, 5, 5, 2]):
                    data.set_epoch(epoch)
                    found[persistent, turn] = [batch["cls"].tolist() for batch in workers]
                if persistent:
                    # Without set_epoch they go on with the next.
                    after = [batch["cls"].tolist() for batch in workers]
            for turn in range(5):
                assert found[True, turn] == found[False, turn], turn
            assert found[True, 2] == found[True, 3] != found[True, 1]
            data.set_epoch(3)
            assert after == [batch["cls"].tolist() for batch in workers]
            print("well")
    """
    assert by_torch(code, numbers._place, method) == "well\n"


@forks
def test_an_error_ends_no_pass_of_torch(tmp_path):
    """The next `next` gives the next batch, as of the loader itself."""
    write(tmp_path / "bad", [{"__key__": f"{i:04}", "n": "sixty" if i == 60 else str(i)} for i in range(200)])
    code = """
        def drain(batches):
            samples = errors = 0
            while True:
                try:
                    samples += len(next(batches)["n"])
                except StopIteration:
                    return samples, errors
                except packhorse.Error:
                    errors += 1

        dataset = packhorse.open(sys.argv[1])
        new = lambda: dataset.loader(10, fields={"n": packhorse.Number("n")}, shuffle="sequential")
        found = [drain(iter(new())), drain(iter(new().torch()))]
        found += [drain(iter(DataLoader(new().torch(), batch_size=None, num_workers=n))) for n in (0, 2)]
        assert found == [(190, 1)] * 4, found
        print("well")
    """
    assert by_torch(code, str(tmp_path / "bad")) == "well\n"


def test_arrays_of_bytes_are_tensors(tmp_path):
    """Fields of bytes are bytes; arrays of bytes and Booleans, whose rows look the same, are arrays as those of other types."""
    torch = pytest.importorskip("torch")
    rows = [
        {"wave": np.arange(i + 1, dtype="u1"), "mask": np.ones(i + 1, bool), "ids": np.arange(i + 1, dtype="u2"), "raw": b"ab"}
        for i in range(4)
    ]
    with packhorse.Writer(tmp_path / "out", to="parquet", ragged=True) as out:
        for row in rows:
            out.write(row)
    dataset = packhorse.open(tmp_path / "out")
    batch = next(iter(dataset.loader(4, shuffle="sequential").torch()))
    for fields in (None, ["wave", "mask", "ids", "raw"]):
        for at, wanted in enumerate(rows):
            sample = dataset.torch(fields)[at]
            for found in (sample, {name: values[at] for name, values in batch.items()}):
                assert found["raw"] == b"ab"
                for name in ("wave", "mask", "ids"):
                    assert isinstance(found[name], torch.Tensor) and found[name].tolist() == wanted[name].tolist()


def test_lists_of_bytes_of_other_programs_are_tensors(tmp_path):
    """So are lists of bytes and Booleans in tables of other programs, and one-dimensional arrays in tars."""
    torch = pytest.importorskip("torch")
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    lists = {"mask": pa.array([[True], [False, True]], pa.list_(pa.bool_())), "wave": pa.array([[1, 2], [3]], pa.list_(pa.uint8()))}
    pyarrow.parquet.write_table(pa.table(lists), tmp_path / "lists.parquet")
    table = packhorse.open(tmp_path / "lists.parquet")
    arrays = [np.arange(2, dtype="u1"), np.arange(3, dtype="u1")]
    tars = write(tmp_path / "tars", [{"wave.npy": npy(array), "raw": b"ab"} for array in arrays])
    for at, wanted in enumerate(arrays):
        sample = tars.torch([packhorse.Ragged("wave.npy"), "raw"])[at]
        assert isinstance(sample["wave.npy"], torch.Tensor) and sample["wave.npy"].tolist() == wanted.tolist()
        assert sample["raw"] == b"ab"
    batch = next(iter(table.loader(2, shuffle="sequential").torch()))
    for at in range(2):
        for name, values in lists.items():
            for found in (table.torch()[at][name], batch[name][at]):
                assert isinstance(found, torch.Tensor) and found.tolist() == values[at].as_py()


def test_workers_see_the_epoch_of_a_copy(tmp_path):
    """Copies of a dataset of torch have an epoch of their own, which their persistent workers follow."""
    torch = pytest.importorskip("torch")
    import copy

    write(tmp_path / "out", [{"n": np.int64(n)} for n in range(4)], to="parquet")
    first = packhorse.open(tmp_path / "out").torch(["n"])
    for dataset in (first, copy.deepcopy(first), pickle.loads(pickle.dumps(first))):
        dataset.transform = lambda sample, of=dataset: of.epoch
        loader = torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=1, persistent_workers=True, multiprocessing_context="fork")
        seen = []
        for epoch in (3, 5):
            dataset.set_epoch(epoch)
            seen += list(loader)
        assert seen == [3] * 4 + [5] * 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_tells_where_the_parent_was_without_threads_of_its_own(tmp_path):
    """Workers of a DataLoader take the loader of the parent: a second one with all its threads would run for nothing."""
    write(tmp_path / "out", [{"n": np.int64(n)} for n in range(64)], to="parquet")
    program = f"""
        import os, pickle, time
        import packhorse
        loader = packhorse.open({str(tmp_path / "out")!r}).loader(8, threads=2)
        next(iter(loader))
        wanted = loader.state_dict()
        if os.fork() == 0:
            before = len(os.listdir("/proc/self/task"))
            moved = pickle.loads(pickle.dumps(loader))
            # One that opened the dataset ends at once; those of a loader stay.
            until = time.monotonic() + 10
            while len(os.listdir("/proc/self/task")) > before and time.monotonic() < until:
                time.sleep(0.01)
            assert len(os.listdir("/proc/self/task")) == before, "threads were started"
            assert moved.state_dict() == wanted
            os._exit(0)
        assert os.wait()[1] == 0
        """
    done = run_python(program)
    assert done.returncode == 0, done.stderr


def test_a_dataset_that_changed_since_another_process_opened_it(tmp_path):
    """Pickles and forked children have the samples that they were made with, or say that these are gone."""

    def samples(start):
        return [{"__key__": f"k{n}", "n": start + n} for n in range(6)]

    base = write(tmp_path / "out", samples(0), to="parquet", samples_per_shard=2)
    table = tmp_path / "table.csv"
    table.write_text("key,s\n" + "".join(f"k{n},{n}\n" for n in range(6)))
    views = {"whole": base, "reversed": base[::-1], "joined": base.join(table), "two": packhorse.concat([base[:2], base[4:]])}
    pickles = {name: pickle.dumps(view) for name, view in views.items()}
    for name, view in views.items():
        assert pickle.loads(pickles[name]).keys == view.keys
    table.write_text(table.read_text().replace("k1,1", "k1,100"))
    with pytest.raises(packhorse.ChangedError, match="joined"):
        pickle.loads(pickles["joined"])
    # A dataset that grew has the samples that it had.
    packhorse.append(tmp_path / "out", write_table(tmp_path / "more.csv"), progress=False)
    assert len(packhorse.open(tmp_path / "out")) == 7
    table.write_text("key,s\n" + "".join(f"k{n},{n}\n" for n in range(6)))
    assert [sample["s"] for sample in pickle.loads(pickles["joined"])] == list(range(6))
    again = pickle.loads(pickles["whole"])
    assert again.keys == base.keys and not again.is_whole and pickle.loads(pickle.dumps(again)).keys == base.keys
    for name in ("whole", "reversed", "two"):
        assert pickle.loads(pickles[name]).keys == views[name].keys
    write(tmp_path / "out", samples(50), to="parquet", samples_per_shard=2, replace=True)
    for name in ("whole", "reversed", "two"):
        with pytest.raises(packhorse.ChangedError, match="has changed since another process opened it"):
            pickle.loads(pickles[name])
    assert packhorse.open(tmp_path / "out")[0]["n"] == 50


@forks
def test_a_forked_child_tells_a_dataset_that_changed(tmp_path):
    code = """
        dataset = packhorse.open(sys.argv[1])[::-1]
        packhorse.pack([{"n": 7 + n} for n in range(4)], sys.argv[1], to="parquet", replace=True)
        def work():
            try:
                dataset[0]
            except packhorse.ChangedError:
                print("changed", flush=True)
        fork(work)
    """
    write(tmp_path / "out", [{"n": n} for n in range(4)], to="parquet")
    assert "changed" in ends_well(CHILD + textwrap.dedent(code), str(tmp_path / "out"))


def write_table(path):
    path.write_text("__key__,n\nk9,9\n")
    return path


def test_workers_that_read_the_same_are_told(numbers):
    """A loader in a worker of a DataLoader that someone else wrote reads all samples, and a new worker repeats the epoch of the one before."""
    by_torch(
        """
        class Own(torch.utils.data.IterableDataset):
            def __init__(self, **place):
                self.loader = dataset.loader(8, fields=["cls"], **place)

            def __iter__(self):
                with warnings.catch_warnings(record=True) as told:
                    warnings.simplefilter("always")
                    yield sum(batch.rows for batch in self.loader)
                yield [str(warning.message) for warning in told]

        def passes(loader, times=2, **settings):
            warnings.simplefilter("always")
            loader = DataLoader(loader, batch_size=None, num_workers=2, **settings)
            return [list(loader) for _ in range(times)]

        (found,) = passes(Own(), 1)
        assert found[:2] == [len(dataset) // 8 * 8] * 2 and all("loader.torch()" in told[0] for told in found[2:]), found
        (found,) = passes(Own(place=(0, 2)), 1)
        assert found[2:] == [[], []], found

        class Divided(Own):
            def __iter__(self):
                worker = torch.utils.data.get_worker_info()
                self.loader = dataset.subset(range(worker.id, len(dataset), 2)).loader(8, fields=["cls"])
                return super().__iter__()

        (found,) = passes(Divided(), 1)
        assert found[2:] == [[], []], found

        from packhorse.torch import TorchLoader

        class Told(TorchLoader):
            def __iter__(self):
                with warnings.catch_warnings(record=True) as told:
                    warnings.simplefilter("always")
                    for _ in super().__iter__():
                        pass
                yield [str(warning.message) for warning in told]

        def told(set_epoch=None, **settings):
            loader = Told(dataset.loader(8, fields=["cls"], **settings))
            warnings.simplefilter("always")
            data, found = DataLoader(loader, batch_size=None, num_workers=2), []
            for epoch in range(2):
                if set_epoch is not None:
                    set_epoch(loader, epoch)
                found += ["same order of samples" in text for worker in data for text in worker]
            return found

        assert told(shuffle="full") == told(lambda loader, epoch: loader.set_epoch(1), shuffle="full") == [True]
        assert told(lambda loader, epoch: loader.set_epoch(epoch), shuffle="full") == []
        assert told(lambda loader, epoch: loader.loader.set_epoch(epoch), shuffle="full") == told(shuffle="sequential") == []
        """,
        numbers._place,
    )
