"""The command: `python -m packhorse`."""

import io
import signal
import subprocess
import sys
import tarfile
import time

import packhorse
import pytest


def command(*args, **settings):
    """Runs the command; returns what it did."""
    settings = {"capture_output": True, "text": True, "timeout": 120, **settings}
    return subprocess.run([sys.executable, "-m", "packhorse", *map(str, args)], **settings)


def inputs(folder, count=300):
    """A folder of texts."""
    folder.mkdir()
    for number in range(count):
        (folder / f"t{number:04}.txt").write_text(f"text {number}")
    return folder


def test_version():
    """`--version` writes the version of the package."""
    done = command("--version")
    assert done.returncode == 0
    assert done.stdout.split()[:2] == ["packhorse", packhorse.__version__]
    assert done.stderr == ""


def test_pack_by_the_command(tmp_path):
    """`pack` writes a dataset that the package opens."""
    folder = inputs(tmp_path / "in")
    done = command("pack", folder, "--to", "webdataset", "--out", tmp_path / "out", "--samples-per-shard", 100)
    assert done.returncode == 0, done.stderr
    dataset = packhorse.open(tmp_path / "out")
    assert len(dataset) == 300
    assert dataset[7]["txt"] == b"text 7"
    assert packhorse.verify(tmp_path / "out", full=True)
    assert command("verify", tmp_path / "out").returncode == 0


def test_exit_codes(tmp_path):
    """Bad flags end with 2, other errors with another code than 0; errors go to stderr."""
    for args in (["pack", "--nope"], ["nope"], ["pack", tmp_path, "--shard-count", "many"]):
        done = command(*args)
        assert done.returncode == 2, args
        assert done.stderr
        assert done.stdout == ""
    done = command("verify", tmp_path / "gone")
    assert done.returncode not in (0, None)
    assert "gone" in done.stderr
    assert "Traceback" not in done.stderr


def test_ctrl_c_ends_the_command_without_a_traceback(tmp_path):
    """The command's own line is all that it says."""
    folder = inputs(tmp_path / "in", 20_000)
    args = ["pack", folder, "--to", "webdataset", "--out", tmp_path / "out", "--samples-per-shard", 10, "--jobs", 1]
    command_line = [sys.executable, "-m", "packhorse", *map(str, args)]
    with subprocess.Popen(command_line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while process.poll() is None and not list((tmp_path).glob("out/*.receipt.json")):
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "Traceback" not in err, err


def test_output_through_a_pipe_is_complete(tmp_path):
    """All of a long listing comes through a pipe, up to its last line."""
    packhorse.pack(inputs(tmp_path / "in", 3000), tmp_path / "out", to="webdataset")
    (shard,) = (tmp_path / "out").glob("*.tar")
    done = command("ls", shard)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) >= 3000
    assert all(any(f"t{number:04}" in line for line in lines[number : number + 5]) for number in (0, 1500, 2995))
    assert done.stdout.endswith("\n")
    help_ = command("--help")
    assert help_.returncode == 0
    assert "verify" in help_.stdout


def test_bytes_through_a_pipe(tmp_path):
    """`cat` writes a member's bytes to a pipe, all of them."""
    data = bytes(range(256)) * 4000
    with packhorse.Writer(tmp_path / "out") as writer:
        writer.write({"__key__": "k", "bin": data})
    (shard,) = (tmp_path / "out").glob("*.tar")
    done = command("cat", shard, "k.bin", text=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == data


def test_a_pipe_that_is_closed(tmp_path):
    """A reader that leaves early is not an error of Python."""
    packhorse.pack(inputs(tmp_path / "in", 3000), tmp_path / "out", to="webdataset")
    (shard,) = (tmp_path / "out").glob("*.tar")
    process = subprocess.Popen(
        [sys.executable, "-m", "packhorse", "ls", str(shard)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process.stdout.read(10)
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    assert process.wait(60) is not None
    assert b"Traceback" not in err
    assert b"panicked" not in err


def test_fields_that_readers_make_are_found(tmp_path):
    """webdataset refuses a member `a.__url__`, and so says `verify --for webdataset`."""
    wds = pytest.importorskip("webdataset")
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        for name in ["a.txt", "a.__url__"]:
            member = tarfile.TarInfo(name)
            member.size = 1
            tar.addfile(member, io.BytesIO(b"x"))
    with pytest.raises(ValueError, match="duplicate"):
        list(wds.WebDataset(str(tmp_path / "a.tar"), shardshuffle=False))
    ended = command("verify", tmp_path / "a.tar", "--for", "webdataset")
    assert ended.returncode == 3 and "a.__url__ is a field that the reader makes itself" in ended.stdout, ended
