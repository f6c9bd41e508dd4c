"""Datasets in an object store, packed and read from Python."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import packhorse as ph

server = pytest.importorskip("moto.server")


@pytest.fixture(scope="module", params=["s3", "gs"])
def bucket(request: pytest.FixtureRequest) -> Iterator[str]:
    """A bucket of a server in this process. It speaks S3, and as much of Google Cloud Storage as is the same."""
    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    running.start()
    host, port = running.get_host_and_port()
    settings = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "GOOGLE_BASE_URL": f"http://{host}:{port}",
        "GOOGLE_BEARER_TOKEN": "token",
    }
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    from urllib.request import Request, urlopen

    urlopen(Request(f"http://{host}:{port}/bucket", method="PUT")).close()
    yield f"{request.param}://bucket"
    running.stop()
    for name, value in before.items():
        os.environ.pop(name) if value is None else os.environ.update({name: value})


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    for number in range(50):
        (folder / f"{number:03}.bin").write_bytes(bytes([number]) * (1000 + number))
    return folder


def test_a_dataset_in_a_bucket_is_that_of_a_folder(bucket: str, files: Path, tmp_path: Path) -> None:
    here, there = str(tmp_path / "here"), f"{bucket}/there"
    packed = [ph.pack(files, out, "webdataset", samples_per_shard=20) for out in (here, there)]
    assert packed[0].root == packed[1].root
    near, far = ph.open(here), ph.open(there)
    assert len(far) == 50 and all(bytes(far[at]["bin"]) == bytes(near[at]["bin"]) for at in range(50))
    assert bytes(far[7]["bin"]) == bytes([7]) * 1007
    assert not ph.verify(there, full=True).damages
    tables = ph.convert(there, f"{bucket}/tables", "parquet")
    assert tables.samples == 50 and len(ph.open(f"{bucket}/tables")) == 50


def test_a_missing_bucket_is_an_error(bucket: str, files: Path) -> None:
    with pytest.raises(ph.Error, match="no-such-bucket"):
        ph.pack(files, bucket.replace("bucket", "no-such-bucket") + "/x", "webdataset")
    with pytest.raises(ph.Error, match="nothing"):
        ph.verify(f"{bucket}/nothing")
