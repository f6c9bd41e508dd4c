"""Ctrl-C, and memory that stays where it is."""

import io
import os
import signal
import socket
import subprocess
import sys
import tarfile
import textwrap
import threading
import warnings

import packhorse
import pytest
from conftest import encoded, picture, run_well, write

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT for one process")


@pytest.fixture
def silent():
    """The address of a server that takes connections and never answers, and an event of the first one."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        asked, kept = threading.Event(), []

        def serve():
            while True:
                try:
                    kept.append(server.accept()[0])
                except OSError:
                    return
                asked.set()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}", asked
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join(10)
        for connection in kept:
            connection.close()


def interrupted(code, *args, when=None):
    """Starts a program, waits for its line "waits" (or for `when`), sends it SIGINT, and returns its exit code and stderr."""
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, args)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell's job in the background has it ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        assert process.stdout.readline() == "waits\n", process.communicate(timeout=30)
        assert when is None or when.wait(30)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
        return process.returncode, err
    finally:
        process.kill()
        process.wait()


def ended_by_ctrl_c(ended):
    """Whether a program ended by KeyboardInterrupt."""
    code, err = ended
    assert code in (-signal.SIGINT, 130), err
    assert err.rstrip().endswith("KeyboardInterrupt"), err


def test_ctrl_c_in_a_for(tmp_path):
    """A `for` that runs and runs ends by KeyboardInterrupt."""
    code = """
        import sys
        import packhorse

        with packhorse.Writer(sys.argv[1], to="webdataset", samples_per_shard=1) as writer:
            for number in range(20):
                writer.write({"cls": number})
        loader = packhorse.open(sys.argv[1]).loader(2, threads=1, readers=1, ahead=1)
        print("waits", flush=True)
        while True:
            for batch in loader:
                pass
    """
    ended_by_ctrl_c(interrupted(code, tmp_path / "shards"))


def test_ctrl_c_in_a_large_batch(tmp_path):
    """Decoding many samples at once ends by KeyboardInterrupt."""
    code = """
        import io, sys, threading, time
        import packhorse
        from PIL import Image

        picture = io.BytesIO()
        Image.effect_noise((1200, 1200), 60).convert("RGB").save(picture, "JPEG")
        packhorse.pack([{"jpg": picture.getvalue()}], sys.argv[1])
        dataset = packhorse.open(sys.argv[1])
        fields = {"image": packhorse.Image("jpg", 64)}
        dataset.batch([0], fields)
        threading.Timer(0.3, lambda: print("waits", flush=True)).start()
        dataset.batch([0] * 5000, fields)
    """
    ended_by_ctrl_c(interrupted(code, tmp_path / "shards"))


def test_ctrl_c_while_opening(silent):
    """Opening shards of a server that does not answer ends by KeyboardInterrupt."""
    place, asked = silent
    code = """
        import sys
        import packhorse

        print("waits", flush=True)
        packhorse.open(sys.argv[1] + "/x.tar")
    """
    ended_by_ctrl_c(interrupted(code, place, when=asked))


def test_ctrl_c_while_packing_from_a_server(silent, tmp_path):
    """Packing from a server that does not answer ends by KeyboardInterrupt."""
    place, asked = silent
    code = """
        import sys
        import packhorse

        print("waits", flush=True)
        packhorse.pack(sys.argv[1] + "/x.tar", sys.argv[2], to="webdataset")
    """
    ended_by_ctrl_c(interrupted(code, place, tmp_path / "shards", when=asked))
    assert not (tmp_path / "shards" / "dataset.json").exists()


SERVED = """
    import http.server, os, sys, threading, time
    import packhorse

    folder, stuck = sys.argv[1], threading.Event()

    class Answers(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass
        def do_GET(self):
            if stuck.is_set():
                told.set()
                time.sleep(600)
            path = os.path.join(folder, os.path.basename(self.path))
            if not os.path.isfile(path):
                self.send_error(404)
                return
            data = open(path, "rb").read()
            size, asked = len(data), self.headers.get("Range")
            if asked:
                start, _, stop = asked.removeprefix("bytes=").partition("-")
                start, stop = (int(start), min(int(stop or size), size - 1)) if start else (max(size - int(stop), 0), size - 1)
                self.send_response(206)
                self.send_header("Content-Range", f"bytes {start}-{stop}/{size}")
                data = data[start : stop + 1]
            else:
                self.send_response(200)
            self.send_header("Accept-Ranges", "bytes")
            self.send_header("ETag", '"one"')
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(data)
        do_HEAD = do_GET

    told = threading.Event()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    dataset = packhorse.open(f"http://127.0.0.1:{server.server_port}/shard-{{000000..000019}}.tar")
"""


@pytest.fixture(scope="module")
def tars(tmp_path_factory):
    """Twenty tars as any program writes them, of 5 samples each."""
    folder = tmp_path_factory.mktemp("tars")
    for shard in range(20):
        with tarfile.open(folder / f"shard-{shard:06}.tar", "w") as tar:
            for number in range(5):
                member = tarfile.TarInfo(f"k{shard * 5 + number:03}.cls")
                text = str(shard * 5 + number).encode()
                member.size = len(text)
                tar.addfile(member, io.BytesIO(text))
    return folder


def test_a_dataset_of_a_server(tars):
    """Shards of an HTTP server are loaded as those of a folder."""
    code = """
    assert len(dataset) == 100
    found = [n for batch in dataset.loader(10) for n in batch["cls"].tolist()]
    assert sorted(found) == list(range(100))
    print("ends")
    """
    assert run_well(textwrap.dedent(SERVED) + textwrap.dedent(code), tars, timeout=30) == "ends\n"


@pytest.mark.parametrize(
    "work", ["for batch in dataset.loader(10): pass", "dataset[50]", "dataset.batch([50])", "list(dataset)"]
)
def test_ctrl_c_while_a_server_is_silent(tars, work):
    """What waits for a server that stops answering ends by KeyboardInterrupt."""
    code = """
    stuck.set()
    threading.Thread(target=lambda: (told.wait(), print("waits", flush=True)), daemon=True).start()
    """
    ended_by_ctrl_c(interrupted(textwrap.dedent(SERVED) + textwrap.dedent(code) + work, tars))


def test_ctrl_c_in_a_batch_out_of_turn(tars):
    """`at` of a loader ends by KeyboardInterrupt while the server is silent, and does not change the loader."""
    code = """
    loader = dataset.loader(10, threads=1, readers=1, ahead=1)
    first = next(iter(loader))
    state = loader.state_dict()
    stuck.set()
    threading.Thread(target=lambda: (told.wait(), print("waits", flush=True)), daemon=True).start()
    try:
        loader.at(9)
    except KeyboardInterrupt:
        assert loader.state_dict() == state and len(loader) == 10
        raise
    """
    ended_by_ctrl_c(interrupted(textwrap.dedent(SERVED) + textwrap.dedent(code), tars))


def test_ctrl_c_in_a_large_batch_out_of_turn(tmp_path):
    """`at` ends by KeyboardInterrupt while it decodes many samples of local shards."""
    code = """
        import io, sys, threading
        import packhorse
        from PIL import Image

        picture = io.BytesIO()
        Image.effect_noise((1200, 1200), 60).convert("RGB").save(picture, "JPEG")
        packhorse.pack([{"jpg": picture.getvalue()}], sys.argv[1])
        dataset = packhorse.open(sys.argv[1]).subset([0] * 5000)
        loader = dataset.loader(5000, fields={"image": packhorse.Image("jpg", 64)}, threads=1, ahead=1)
        threading.Timer(1, lambda: print("waits", flush=True)).start()
        loader.at(0)
    """
    ended_by_ctrl_c(interrupted(code, tmp_path / "shards"))


def test_ctrl_c_in_a_local_view_of_a_server(tmp_path):
    """The shards of a view may be on a server that is silent."""
    shards = tmp_path / "shards"
    write(shards, ({"cls": number} for number in range(20)), samples_per_shard=10)
    code = """
    dataset.take(15).write_view(sys.argv[2])
    view = packhorse.open(sys.argv[2])
    assert int(view[3]["cls"]) == 3
    stuck.set()
    threading.Thread(target=lambda: (told.wait(), print("waits", flush=True)), daemon=True).start()
    view[12]
    """
    served = textwrap.dedent(SERVED).replace("shard-{{000000..000019}}.tar", "dataset.json")
    ended_by_ctrl_c(interrupted(served + textwrap.dedent(code), shards, tmp_path / "view"))


@pytest.mark.parametrize("silent", [True, False])
def test_ctrl_c_in_a_stream_of_arrow(tars, silent):
    """What takes a stream of Arrow stops at Ctrl-C, whether the server is silent or answers."""
    pytest.importorskip("pyarrow")
    code = """
    import pyarrow
    try:
        if SILENT:
            stuck.set()
            threading.Thread(target=lambda: (told.wait(), print("waits", flush=True)), daemon=True).start()
            pyarrow.table(dataset)
        else:
            print("waits", flush=True)
            while True:
                pyarrow.table(dataset)
    except pyarrow.ArrowInvalid as error:
        assert "interrupted: KeyboardInterrupt" in str(error), error
        time.sleep(60)
    """
    code = textwrap.dedent(code).replace("SILENT", str(silent))
    ended_by_ctrl_c(interrupted(textwrap.dedent(SERVED) + code, tars))


def test_ctrl_c_while_a_writer_closes(tmp_path):
    """A writer that is interrupted while it closes leaves no dataset."""
    code = """
        import sys, threading
        import numpy, packhorse

        values = numpy.random.default_rng(0).integers(0, 50, 4_000_000, dtype=numpy.uint8)
        writer = packhorse.Writer(sys.argv[1], to="parquet", compression="zstd", level=22, shard_size="100GB", memory="1GB", jobs=1)
        with writer:
            for number in range(30):
                writer.write({"data": values})
            threading.Timer(0.2, lambda: print("waits", flush=True)).start()
    """
    ended_by_ctrl_c(interrupted(code, tmp_path / "out"))
    assert not list((tmp_path / "out").glob("[!.]*"))
    with packhorse.Writer(tmp_path / "out", to="parquet") as writer:
        writer.write({"data": b"x"})
    assert len(packhorse.open(tmp_path / "out")) == 1


def test_ctrl_c_while_packing_a_generator(tmp_path):
    """Packing a generator ends by KeyboardInterrupt and leaves no dataset."""
    code = """
        import sys
        import packhorse

        def samples():
            number = 0
            while True:
                if number == 1000:
                    print("waits", flush=True)
                yield {"cls": number, "data": bytes(1000)}
                number += 1

        packhorse.pack(samples(), sys.argv[1])
    """
    ended_by_ctrl_c(interrupted(code, tmp_path / "out"))
    assert not (tmp_path / "out" / "packhorse.json").exists()
    assert not list((tmp_path / "out").glob("*.tar"))


def test_ctrl_c_while_packing_files(tmp_path):
    """Packing files ends by KeyboardInterrupt, and the same call goes on later."""
    for number in range(50):
        (tmp_path / f"in{number:02}.txt").write_text(str(number))
    code = """
        import sys, time
        import packhorse

        def tell(totals):
            print("waits", flush=True)
            time.sleep(60)

        packhorse.pack(sys.argv[1], sys.argv[2], to="webdataset", progress=tell)
    """
    ended_by_ctrl_c(interrupted(code, tmp_path, tmp_path / "out"))


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs /proc")
def test_memory_stays(tmp_path):
    """Thousands of batches need no more memory than hundreds."""
    code = """
        import os, sys
        import numpy as np
        import packhorse

        def resident():
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

        with packhorse.Writer(sys.argv[1], to="webdataset", samples_per_shard=100) as writer:
            for number in range(600):
                writer.write({"cls": number, "npy": np.full(1000, number, np.float32), "txt": "text " * (number % 50)})
        loader = packhorse.open(sys.argv[1]).loader(4)
        seen, start = 0, 0
        while seen < 10_300:
            for batch in loader:
                total = np.asarray(batch["npy"]).sum() + len(batch["txt"].bytes()) + len(batch.keys) + sum(batch["cls"].tolist())
                array = batch["npy"][1]
                capsule = array.__dlpack__()
                seen += 1
                if seen == 300:
                    start = resident()
        print((resident() - start) // 1000)
    """
    grown = int(run_well(code, tmp_path / "shards"))
    assert grown < 20_000, f"{grown} kB more"


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs /proc")
def test_memory_stays_without_loaders(numbers):
    """Samples, batches by number and loaders that are dropped leave no memory behind."""
    code = """
        import os, sys
        import packhorse

        def resident():
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

        dataset = packhorse.open(sys.argv[1])
        for turn in range(220):
            if turn == 20:
                start = resident()
            for number in range(0, 100, 5):
                dataset[number]
            dataset.batch(range(100))
            dataset[3:9].keys
            next(iter(dataset.loader(10)))
        print((resident() - start) // 1000)
    """
    grown = int(run_well(code, numbers._place))
    assert grown < 20_000, f"{grown} kB more"


class Late(Exception):
    """What a handler of a signal raises."""


def ring(*_):
    raise Late


@pytest.mark.parametrize("seconds", [0.0005, 0.002, 0.005, 0.01, 0.02, 0.05, 0.2])
def test_an_exception_of_a_signal_loses_no_batch(tmp_path, seconds):
    """A batch that was not handed over comes next; states and the number of batches are as without the exception."""
    data = write(tmp_path / "d", ({"__key__": f"k{n:02}", "jpg": encoded(picture(n, 500, 400)), "cls": n} for n in range(24)))
    fields = {"image": packhorse.Image("jpg", 64), "cls": "cls"}
    order = [batch.numbers for batch in data.loader(2, fields={"cls": "cls"}, seed=2)]
    loader = data.loader(2, fields=fields, threads=1, ahead=1, seed=2)
    handler = signal.signal(signal.SIGALRM, ring)
    try:
        batches, got, after = iter(loader), [], 0
        while True:
            try:
                signal.setitimer(signal.ITIMER_REAL, seconds)
                batch = next(batches, None)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except Late:
                signal.setitimer(signal.ITIMER_REAL, 0)
                if loader.state_dict()["consumed"] > 2 * len(got):
                    # The signal came when the batch had been handed over.
                    got.append(order[len(got)])
                    after += 1
                    continue
                assert loader.state_dict()["consumed"] == 2 * len(got)
                batch = next(batches, None)
            if batch is None:
                break
            got.append(batch.numbers)
            assert loader.state_dict()["consumed"] == 2 * len(got)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
    assert got == order and loader.is_at_end() and after <= 2


def test_a_warning_that_is_an_error_loses_no_batch(tmp_path):
    """Skipped samples are told by warnings, which may be errors."""
    samples = ({"__key__": f"k{n:02}", "jpg": b"no picture" if n == 7 else encoded(picture(n)), "cls": n} for n in range(20))
    data = write(tmp_path / "d", samples)
    loader = data.loader(2, fields={"image": packhorse.Image("jpg", 16), "cls": "cls"}, on_error="skip", shuffle="sequential", remainder="uneven")
    got, raised = [], 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            batches = iter(loader)
        except UserWarning:
            # Threads may have come to the sample already.
            raised, batches = 1, iter(loader)
        while True:
            try:
                batch = next(batches, None)
            except UserWarning:
                raised += 1
                continue
            if batch is None:
                break
            got += batch.numbers
    assert raised == 1 and got == [n for n in range(20) if n != 7]
