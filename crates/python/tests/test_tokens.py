"""Tokens: documents are those of the tokenizer, samples those of the order, states exact."""

import json
import os
import pickle
import subprocess
import sys

import numpy as np
import packhorse as ph
import pytest
from conftest import run_python, run_well

tokenizers = pytest.importorskip("tokenizers")
TEXTS = [f"the quick brown fox number {number} jumps over the lazy dog " * (1 + number % 5) for number in range(200)]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """A tokenizer, and the folder of the token files of `TEXTS`."""
    folder = tmp_path_factory.mktemp("tokens")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=300, special_tokens=["[UNK]"])
    tokenizer.train_from_iterator(TEXTS, trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "text.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    packed = ph.tokenize(folder / "text.jsonl", folder / "packed", folder / "tokenizer.json")
    assert packed.samples == len(TEXTS)
    return tokenizer, folder / "packed"


def test_documents_are_those_of_the_tokenizer(corpus):
    """Every document has the numbers that the package `tokenizers` gives."""
    tokenizer, place = corpus
    dataset = ph.TokenDataset(place)
    # To count them makes no list.
    assert len(dataset) == len(TEXTS) and dataset._lengths is None
    assert len(list(dataset)) == len(TEXTS)
    for number, text in enumerate(TEXTS):
        assert dataset[number].tolist() == tokenizer.encode(text).ids
    assert dataset[-1].tolist() == dataset[len(TEXTS) - 1].tolist()
    assert pickle.loads(pickle.dumps(dataset))[3].tolist() == dataset[3].tolist()
    with pytest.raises(IndexError):
        dataset[len(TEXTS)]


def samples(loader):
    return [row.tolist() for batch in loader for row in batch["tokens"].numpy()]


def test_ranks_share_the_samples_of_one_order(corpus):
    """Samples have one token more than inputs; two ranks have all that one has, and each once."""
    dataset = ph.TokenDataset(corpus[1])
    alone = samples(dataset.loader(4, 32, seed=5, place=(0, 1)))
    assert {len(sample) for sample in alone} == {33}
    shared = [samples(dataset.loader(2, 32, seed=5, place=(rank, 2))) for rank in (0, 1)]
    together = [sample for step in range(0, len(shared[0]), 2) for rank in shared for sample in rank[step : step + 2]]
    assert together == alone[: len(together)] and len(alone) - len(together) < 4
    assert samples(dataset.loader(4, 32, seed=6, place=(0, 1))) != alone


def test_rows_of_padding_fill_the_last_step(corpus):
    """With `pad` every rank has full batches; rows of padding come after the samples."""
    dataset = ph.TokenDataset(corpus[1])
    batches = [list(dataset.loader(7, 31, seed=5, remainder="pad", pad=0, place=(rank, 3))) for rank in range(3)]
    assert {len(batch["tokens"]) for rank in batches for batch in rank} == {7}
    kept = [list(dataset.loader(7, 31, seed=5, remainder="uneven", place=(rank, 3)))[-1]["tokens"] for rank in range(3)]
    for rank, last in zip(batches, kept):
        rows = rank[-1]["tokens"].tolist()
        assert rows[: len(last)] == last.tolist() and not any(map(any, rows[len(last) :]))
    assert sum(map(len, kept)) < 21


def test_states_continue_with_the_next_sample(corpus):
    """At every tenth step, on another batch size, and in a pickled loader; another order is refused."""
    dataset = ph.TokenDataset(corpus[1])
    alone = samples(dataset.loader(1, 32, seed=5, place=(0, 1)))
    loader = dataset.loader(3, 32, seed=5, place=(0, 1))
    for step, _ in enumerate(loader):
        if step % 10 == 0:
            other = dataset.loader(2, 32, seed=5, place=(0, 1), remainder="uneven")
            other.load_state_dict(loader.state_dict())
            assert samples(pickle.loads(pickle.dumps(other))) == alone[3 * (step + 1) :]
    with pytest.raises(ph.StateError):
        dataset.loader(3, 64, seed=5, place=(0, 1)).load_state_dict(loader.state_dict())


def test_a_state_of_another_seed_or_corpus_is_refused(corpus, tmp_path):
    """Though it has as many samples."""
    _, place = corpus
    state = ph.TokenDataset(place).loader(3, 32, seed=5, place=(0, 1)).state_dict()
    with pytest.raises(ph.StateError, match="another seed"):
        ph.TokenDataset(place).loader(3, 32, seed=6, place=(0, 1)).load_state_dict(state)
    (tmp_path / "text.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in reversed(TEXTS)))
    ph.tokenize(tmp_path / "text.jsonl", tmp_path / "packed", place.parent / "tokenizer.json")
    reversed_ = ph.TokenDataset(tmp_path / "packed").loader(3, 32, seed=5, place=(0, 1))
    assert reversed_.state_dict()["samples"] == state["samples"]
    with pytest.raises(ph.StateError, match="other documents"):
        reversed_.load_state_dict(state)
    with pytest.raises(ph.ConfigError, match="the state: is not a state"):
        reversed_.load_state_dict({"step": 3})


def test_a_diagnosis_leaves_the_order_where_it_is(corpus):
    loader = ph.TokenDataset(corpus[1]).loader(4, 16, samples=4000)
    next(iter(loader))
    before, left = loader.state_dict(), len(loader)
    ph.diagnose(loader, lambda batch: None, seconds=0.5, rounds=1)
    assert loader.state_dict() == before and len(loader) == left


def test_an_order_that_has_ended_says_so(corpus):
    """A second `for` has no batch, and a batch that is too large none either."""
    dataset = ph.TokenDataset(corpus[1])
    loader = dataset.loader(8, 32, seed=5, place=(0, 1))
    assert len(list(loader)) > 0
    with pytest.warns(UserWarning, match="no batch is left"):
        assert list(loader) == []
    with pytest.warns(UserWarning, match="a smaller batch fits"):
        assert list(dataset.loader(10_000_000, 32, place=(0, 1))) == []


@pytest.mark.parametrize("workers", [0, 2])
def test_tokens_in_a_data_loader(corpus, workers):
    """torch's `DataLoader` gives the loader's batches; each of two workers is a rank of its own."""
    torch = pytest.importorskip("torch")
    dataset = ph.TokenDataset(corpus[1])
    loader = dataset.loader(2, 32, seed=5, place=(0, 1), companions=["position_ids"])
    batches = list(torch.utils.data.DataLoader(loader.torch(), batch_size=None, num_workers=workers))
    assert batches[0]["position_ids"].shape == (2, 32)
    found = [tuple(row) for batch in batches for row in batch["tokens"].tolist()]
    wanted = [tuple(row) for row in samples(dataset.loader(2, 32, seed=5, place=(0, 1)))]
    assert found == wanted[: len(found)] if workers == 0 else sorted(found) == sorted(wanted[: len(found)])
    assert len(wanted) - len(found) < 4
    with pytest.raises(TypeError):
        loader.torch().set_epoch(1)


def test_new_workers_of_tokens_begin_again(corpus):
    """Workers that are made for each pass have no epoch to begin with, which they say."""
    code = """
        import itertools, sys
        import packhorse
        from torch.utils.data import DataLoader
        def passes(**how):
            loader = DataLoader(packhorse.TokenDataset(sys.argv[1]).loader(2, 16).torch(), batch_size=None, **how)
            return [[b["tokens"].tolist() for b in itertools.islice(loader, 2)] for _ in range(2)]
        one, two = passes(num_workers=2)
        assert one == two
        print("new", file=sys.stderr)
        for how in (dict(num_workers=0), dict(num_workers=2, persistent_workers=True)):
            one, two = passes(**how)
            assert one != two
    """
    pytest.importorskip("torch")
    done = run_python(code, str(corpus[1]), timeout=60)
    assert done.returncode == 0, done.stderr
    first, others = done.stderr.split("new\n")
    assert first.count("UserWarning") == 1 and "persistent_workers=True" in first
    assert "UserWarning" not in others, others


def test_slices_and_names_of_files(corpus):
    """A slice is a list of documents, and either file names the pair."""
    dataset = ph.TokenDataset(corpus[1])
    assert [document.tolist() for document in dataset[3:9:2]] == [dataset[number].tolist() for number in (3, 5, 7)]
    file = next(corpus[1].glob("*.bin"))
    assert len(ph.TokenDataset(file)) == len(ph.TokenDataset(file.with_suffix(".idx"))) == len(dataset)


def test_companions_are_fields(corpus):
    """Positions count from 0 in each document, and cumulative lengths end with all tokens."""
    dataset = ph.TokenDataset(corpus[1])
    names = ["position_ids", "segment_ids", "loss_mask", "cu_seqlens"]
    batch = next(iter(dataset.loader(4, 32, place=(0, 1), companions=names)))
    assert set(batch) == {"tokens", *names}
    positions, segments = batch["position_ids"].numpy(), batch["segment_ids"].numpy()
    assert (positions[:, 0] == 0).all() and (np.diff(segments, axis=1) >= 0).all()
    assert batch["cu_seqlens"].tolist()[-1] == 4 * 32
    with pytest.raises(ValueError, match="companions"):
        dataset.loader(4, 32, companions=["positions"])


def test_missing_files_are_named(tmp_path):
    """A place without tokens is an error that says so."""
    with pytest.raises(ph.Error):
        ph.TokenDataset(tmp_path / "nothing")


def test_a_pair_of_another_length_is_refused(corpus, tmp_path):
    """Tokens that the index does not count would shift all documents after them."""
    for file in corpus[1].glob("shard-000000.*"):
        (tmp_path / file.name).write_bytes(file.read_bytes() + b"\0\0" * (file.suffix == ".bin"))
    with pytest.raises(ph.ContentError, match="its index ends at byte"):
        ph.TokenDataset(tmp_path / "shard-000000")


def test_json_lines_under_another_name(corpus, tmp_path):
    """With `from_="text"` the first line tells that they are JSON."""
    lines = (corpus[1].parent / "text.jsonl").read_bytes()
    (tmp_path / "part-00000").write_bytes(lines)
    ph.tokenize(tmp_path / "part-00000", tmp_path / "out", corpus[1].parent / "tokenizer.json", from_="text")
    ours, wanted = ph.TokenDataset(tmp_path / "out"), ph.TokenDataset(corpus[1])
    assert [a.tolist() for a in ours] == [a.tolist() for a in wanted]


def test_a_blend_with_an_empty_member_is_refused(corpus, tmp_path):
    """Its share of the index would be another member's."""
    (tmp_path / "one.jsonl").write_text(json.dumps({"text": "one"}) + "\n")
    ph.tokenize(tmp_path / "one.jsonl", tmp_path / "one", corpus[1].parent / "tokenizer.json")
    blend = ["0.5", tmp_path / "one/shard-000000", "0.5", corpus[1] / "shard-000000"]
    command = [sys.executable, "-m", "packhorse", "order", *map(str, blend), "--seq-length", "8", "--out", str(tmp_path / "order")]
    ended = subprocess.run([*command, "--samples", "10,10,10"], capture_output=True, text=True)
    assert ended.returncode == 2 and "one/shard-000000: no sequence falls into" in ended.stderr, ended


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_knows_the_state_while_its_parent_waits_for_tokens(corpus):
    """Another thread of the parent waits for tokens that do not come when the child is forked."""
    code = """
        import http.server, os, signal, sys, threading, time
        import packhorse

        silent, asked = threading.Event(), threading.Event()

        class Answers(http.server.SimpleHTTPRequestHandler):
            def log_message(self, *_):
                pass
            def do_GET(self):
                if silent.is_set() and self.path.endswith(".bin"):
                    asked.set()
                    time.sleep(600)
                return super().do_GET()

        os.chdir(sys.argv[1])
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        tokens = packhorse.TokenDataset(f"http://127.0.0.1:{server.server_port}/{sys.argv[2]}")
        silent.set()
        loader = tokens.loader(4, 16, threads=1)
        threading.Thread(target=lambda: list(loader), daemon=True).start()
        assert asked.wait(30)
        time.sleep(0.3)
        if (child := os.fork()) == 0:
            signal.alarm(30)
            os._exit(loader.state_dict()["consumed"])
        assert os.waitpid(child, 0)[1] == 0
        print("well", flush=True)
        os._exit(0)
    """
    _, place = corpus
    assert run_well(code, place, next(place.glob("*.idx")).stem, timeout=60) == "well\n"
