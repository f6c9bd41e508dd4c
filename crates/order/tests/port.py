"""The training order, written from its description with numpy alone: an oracle for the Rust crate.

`port.py cases DIR` writes random cases and what must come of them: DIR/cases.jsonl, and .npy files.
With MEGATRON_CORE set to an unpacked megatron-core wheel the C++ helper in it is called as well, and its
results must agree with this port.
"""

import hashlib
import importlib.util
import glob
import json
import math
import os
import sys

import numpy as np


def split_matrix(text):
    weights = [float(w) for w in text.replace(" ", "").split(",")]
    weights += [0.0] * (3 - len(weights))
    array = np.array(weights)
    shares = (array / np.sum(array)).tolist()
    bounds = [0]
    for share in shares:
        bounds.append(bounds[-1] + share)
    return [(a, b) if b > a else None for a, b in zip(bounds, bounds[1:])]


def sequence_ids(matrix, part, count):
    begin, end = matrix[part]
    return np.arange(int(round(begin * float(count))), int(round(end * float(count))), dtype=np.int32)


def split_by_sizes(text, part, count):
    weights = [float(w) for w in text.split(",")]
    weights += [0.0] * (3 - len(weights))
    total = sum(weights)
    bounds = [0]
    for weight in weights:
        bounds.append(bounds[-1] + int(round(weight / total * float(count))))
    off = bounds[-1] - count
    bounds = [0] + [b - off for b in bounds[1:]]
    return np.arange(bounds[part], bounds[part + 1], dtype=np.int32)


def sample_rows(lengths, documents, seq, extra, samples):
    """The walk, a sample at a time: each looks for the document in which its last token lies."""
    ends = np.cumsum(lengths[documents], dtype=np.int64)
    rows = np.zeros((samples + 1, 2), dtype=np.int64)
    targets = np.arange(1, samples + 1, dtype=np.int64) * seq + extra
    at = np.searchsorted(ends, targets, side="left")
    inside = at < len(documents)
    last = len(documents) - 1
    rows[1:, 0] = np.where(inside, at, last)
    at = np.minimum(at, last)
    starts = ends[at] - lengths[documents[at]]
    rows[1:, 1] = np.where(inside, targets - extra - starts, int(lengths[documents[last]]) - extra)
    return rows


def gpt(lengths, ids, seed, seq, wanted, extra=1, drop_last=True, wide=False):
    total = int(np.sum(lengths[ids], dtype=np.int64))
    epochs = 1
    if wanted is not None:
        while epochs * total < wanted * seq + extra:
            epochs += 1
    separate, before = False, None
    if epochs > 1:
        before = ((epochs - 1) * total - extra) // seq
        each = (total - extra) // seq
        assert 0 <= wanted - before <= each + 1
        separate = wanted - before < int(0.80 * each)
    random = np.random.RandomState(seed)
    documents = np.tile(ids, epochs).astype(np.int32)
    first = len(ids) * (epochs - 1) if separate else len(documents)
    random.shuffle(documents[:first])
    if separate:
        random.shuffle(documents[first:])
    if drop_last:
        samples = (epochs * total - extra) // seq
    else:
        samples = math.ceil(np.float32(epochs * total - extra) / np.float32(seq))
    rows = sample_rows(lengths, documents, seq, extra, samples)
    if not wide:
        rows = rows.astype(np.int32)
    together = before if separate else samples
    parts = [np.arange(0, together, dtype=np.uint32), np.arange(together, samples, dtype=np.uint32)]
    for part in parts:
        random.shuffle(part)
    if HELPER and not wide:
        theirs = HELPER.build_sample_idx_int32(lengths, documents, seq, epochs, total, drop_last, extra)
        assert np.array_equal(theirs, rows), "the port and Megatron's helper differ"
    return documents, rows, np.concatenate(parts)


def normalize(weights):
    array = np.array(weights, dtype=np.float64)
    return (array / np.sum(array)).tolist()


def blend(weights, size, kind=np.int16):
    weights = np.array(weights, dtype=np.float64)
    given = np.zeros(len(weights))
    dataset, sample = np.zeros(size, dtype=kind), np.zeros(size, dtype=np.int64)
    for i in range(size):
        k = int(np.argmax(weights * max(float(i), 1.0) - given))
        dataset[i], sample[i] = k, given[k]
        given[k] += 1
    if HELPER and kind == np.int16:
        theirs = np.zeros(size, dtype=np.int16), np.zeros(size, dtype=np.int64)
        HELPER.build_blending_indices(*theirs, weights, len(weights), size, False)
        assert np.array_equal(theirs[0], dataset) and np.array_equal(theirs[1], sample)
    return dataset, sample


def exhaustive(sizes):
    total = sum(sizes)
    weights = np.array([size / total for size in sizes])
    given = np.zeros(len(sizes))
    open_ = np.ones(len(sizes), dtype=bool)
    dataset, sample = np.zeros(total, dtype=np.int16), np.zeros(total, dtype=np.int64)
    for i in range(total):
        errors = np.where(open_, weights * max(float(i), 1.0) - given, -np.inf)
        k = int(np.argmax(errors))
        dataset[i], sample[i] = k, given[k]
        given[k] += 1
        open_[k] = given[k] < sizes[k]
    if HELPER:
        theirs = np.zeros(total, dtype=np.int16), np.zeros(total, dtype=np.int64)
        HELPER.build_exhaustive_blending_indices(*theirs, np.array(sizes, dtype=np.int64), len(sizes))
        assert np.array_equal(theirs[0], dataset) and np.array_equal(theirs[1], sample)
    return dataset, sample


def requests(weights, size, surplus=0.005):
    weights = normalize(weights)
    targets = [math.ceil(size * w) for w in weights]
    return weights, [int(math.ceil(t * (1 + surplus))) for t in targets], sum(targets)


def corpus(files, size, blended, seed):
    """BlendCorpus: (requests, corpora by name, blend over them)."""
    total = 0.0
    for weight, _ in files:
        total += weight
    asked = [int(math.ceil(size * (weight / total) * 1.005)) for weight, _ in files]
    corpora = []
    for name in sorted({name for _, name in files}):
        sizes = np.array([n for n, (_, of) in zip(asked, files) if of == name])
        count = int(np.sum(sizes))
        if blended:
            dataset, sample = blend(sizes / count, count, np.int64)
        else:
            dataset = np.repeat(np.arange(len(sizes), dtype=np.int64), sizes)
            sample = np.concatenate([np.arange(n, dtype=np.int64) for n in sizes])
        order = np.arange(count)
        if seed is not None:
            np.random.RandomState(seed=seed).shuffle(order)
        corpora.append((name, dataset, sample, order))
    weights = np.array([len(c[1]) / sum(asked) for c in corpora])
    return asked, corpora, blend(weights / np.sum(weights), sum(asked), np.int64)


def identifiers(path, wanted, part, seed, seq, split, tokenizer):
    matrix = split_matrix(split) if split is not None else None
    return {
        "class": "GPTDataset",
        "dataset_path": path,
        "num_samples": wanted,
        "index_split": ["train", "valid", "test"][part],
        "random_seed": seed,
        "sequence_length": seq,
        "split": split,
        "split_matrix": matrix,
        "tokenizer": tokenizer,
    }


def description(value):
    text = json.dumps(value, indent=4)
    return text, hashlib.md5(text.encode()).hexdigest()


def bits(values):
    """Floats as 64-bit patterns: not every JSON reader brings back the last digit."""
    return np.atleast_1d(np.asarray(values, dtype=np.float64)).view(np.uint64).tolist()


def helper():
    root = os.environ.get("MEGATRON_CORE")
    found = glob.glob(f"{root}/megatron/core/datasets/helpers_cpp*.so") if root else []
    if not found:
        return None
    spec = importlib.util.spec_from_file_location("helpers_cpp", found[0])
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


HELPER = helper()


def make_lengths(random, kind, count):
    if kind == 0:
        return random.integers(1, 60, count, dtype=np.int32)
    if kind == 1:  # many empty ones
        return (random.integers(0, 5, count) * random.integers(0, 2, count)).astype(np.int32)
    if kind == 2:  # longer than any sample
        return random.integers(0, 9000, count, dtype=np.int32)
    return np.minimum(random.lognormal(5, 1.5, count), 2**20).astype(np.int32)


def gpt_cases(out, random):
    splits = ["969,30,1", "98,2,0", "1", "100, 0, 0", "7,2,1", "0.9,0.05,0.05", "50,50", "0,1", "0,0,1"]
    for number in range(72):
        count = [40, 333, 5000, 20011][number % 4]
        lengths = make_lengths(random, number % 5 % 4, count)
        split = splits[number % len(splits)]
        matrix = split_matrix(split)
        part = [k for k in range(3) if matrix[k] is not None][number % 2 % sum(m is not None for m in matrix)]
        seq = int([1 + random.integers(1, 9), 64, 1024, 2048][number // 4 % 4])
        ids = sequence_ids(matrix, part, count)
        total = int(lengths[ids].sum()) if len(ids) else 0
        if total < 2:
            matrix, part, split = split_matrix("1"), 0, "1"
            ids = sequence_ids(matrix, 0, count)
            total = int(lengths[ids].sum())
        share = [None, 0.3, 1.0, 1.2, 1.95, 3.5, 2.0][number % 7]
        wanted = None if share is None else max(1, int(share * total / seq))
        extra, drop_last, wide = int(number % 3 != 2), number % 5 != 4, number % 6 == 5
        if wide:
            extra, drop_last = 1, True
        one_gpt(out, number, lengths, split, part, ids, dict(
            seed=int(random.integers(0, 2**32)), seq=seq, wanted=wanted, extra=extra, drop_last=drop_last, wide=wide))


def one_gpt(out, name, lengths, split, part, ids, options):
    np.save(f"{out}/gpt-{name}-lengths.npy", lengths)
    for what, array in zip(("document", "sample", "shuffle"), gpt(lengths, ids, **options)):
        np.save(f"{out}/gpt-{name}-{what}.npy", array)
    print(json.dumps(dict(
        kind="gpt", name=str(name), split=split, part=part, ids=[int(ids[0]), int(ids[-1]) + 1] if len(ids) else [0, 0],
        **options)))


def large_cases(out, random):
    # So many tokens that the 32-bit sample count is off: long sequences, few of them.
    for number in range(8):
        lengths = random.integers(2**30, 2**31 - 1, 9 + number, dtype=np.int32)
        ids = np.arange(len(lengths), dtype=np.int32)
        seq = int(random.integers(3000, 70000)) | 1
        one_gpt(out, f"large{number}", lengths, "1", 0, ids, dict(
            seed=number, seq=seq, wanted=None, extra=number % 2, drop_last=False, wide=False))
    count = int(os.environ.get("PACKHORSE_DOCUMENTS", 10_000_000))
    lengths = np.minimum(random.lognormal(5.5, 1.4, count), 2**20).astype(np.int32)
    one_gpt(out, "many", lengths, "969,30,1", 0, sequence_ids(split_matrix("969,30,1"), 0, count), dict(
        seed=1234, seq=4096, wanted=int(lengths.sum() * 1.9 / 4096), extra=1, drop_last=True, wide=False))


def save_blend(out, name, arrays):
    for what, array in zip(("dataset", "sample"), arrays):
        np.save(f"{out}/{name}-{what}.npy", array)


def blend_cases(out, random):
    for number in range(30):
        count = [1, 2, 7, 16, 17, 130, 500, 1100][number % 8]
        weights = [np.ones(count), random.random(count) + 1e-9, random.integers(1, 50, count).astype(float),
                   random.lognormal(0, 3, count)][number % 4].tolist()
        once, asked, size = requests(weights, int(random.integers(1, 4000)))
        save_blend(out, f"blend-{number}", blend(normalize(once), size))
        print(json.dumps(dict(kind="blend", name=str(number), weights=bits(weights), once=bits(once),
                              twice=bits(normalize(once)),
                              asked=asked, size=size)))
    for number in range(6):
        sizes = random.integers(1, 400, [1, 3, 20, 50, 2, 90][number]).tolist()
        save_blend(out, f"exhaustive-{number}", exhaustive(sizes))
        print(json.dumps(dict(kind="exhaustive", name=str(number), sizes=sizes)))
    for number in range(8):
        files = [(float(random.random() + 0.01), f"c{random.integers(0, 5)}") for _ in range(3 + 4 * number)]
        size, seed = int(random.integers(10, 3000)), [None, 7][number % 2]
        asked, corpora, top = corpus(files, size, number // 2 % 2 == 1, seed)
        save_blend(out, f"corpus-{number}", top)
        for name, dataset, sample, order in corpora:
            save_blend(out, f"corpus-{number}-{name}", (dataset, sample))
            np.save(f"{out}/corpus-{number}-{name}-order.npy", order)
        print(json.dumps(dict(kind="corpus", name=str(number), files=[(bits(w), c) for w, c in files], asked=asked, seed=seed,
                              blended=number // 2 % 2 == 1, wanted=size, names=[c[0] for c in corpora])))


def other_cases(random):
    for _ in range(40):
        values = random.lognormal(0, 6, int(random.integers(0, 700)))
        print(json.dumps(dict(kind="sum", values=bits(values), sum=bits(np.sum(values)))))
    for _ in range(60):
        weights = ",".join(str(round(float(w), 3)) for w in random.random(3) * random.integers(0, 2, 3) + [0.001, 0, 0])
        count = int(random.integers(1, 100000))
        matrix = split_matrix(weights)
        ranges = [None if m is None else [int(round(m[0] * float(count))), int(round(m[1] * float(count)))] for m in matrix]
        by_size = [[int(s[0]), int(s[-1]) + 1] if len(s) else None
                   for s in (split_by_sizes(weights, part, count) for part in range(3))]
        print(json.dumps(dict(kind="split", text=weights, count=count, ranges=ranges, by_size=by_size)))
    for seed in (0, 1, 5489, 2**31, 2**32 - 1):
        state = np.random.RandomState(seed)
        tops = [1, 2, 3, 1000, 2**31, 2**32 - 2, 2**32, 2**33 + 5, 2**40, 2**63 - 2] * 3
        print(json.dumps(dict(kind="draws", seed=seed, tops=tops, draws=[int(state.randint(0, t + 1)) if t > 2**32 - 1
                              else int(shuffle_draw(state, t)) for t in tops])))
    tokenizer = {"class": "x.Tök\u0001", "tokenizer_path": ["a\"b\\", "\U0001f600"], "vocab": "50257"}
    datasets = []
    for number in range(12):
        split = [None, "969, 30, 1", "1", "1,0,1"][number % 4]
        case = dict(path=f"/data/ü{number}_text_document", wanted=[None, 17][number % 2], part=number % 4 // 3 * 2,
                    seed=number, seq=2048, split=split, tokenizer=[tokenizer, None][number % 5 == 4])
        value = identifiers(**case)
        datasets.append(value)
        text, md5 = description(value)
        print(json.dumps(dict(kind="description", text=text, md5=md5, **case)))
    for weights, size in ((normalize(np.random.RandomState(1).rand(12) * 1e-5), 100), (list(range(1, 13)), None)):
        value = dict([("class", "BlendedDataset"), ("datasets", datasets), ("split", "train"), ("weights", weights),
                      ("size", size)])
        text, md5 = description(value)
        print(json.dumps(dict(kind="blend description", weights=weights if size is None else bits(weights), size=size, text=text, md5=md5)))


def shuffle_draw(state, top):
    """What a shuffle would draw for place `top`, through the generator's own functions."""
    mask = (1 << top.bit_length()) - 1
    interface = state._bit_generator.ctypes
    while True:
        value = interface.next_uint32(interface.state) & mask
        if value <= top:
            return value


def main():
    out = sys.argv[2]
    with open(f"{out}/cases.jsonl", "w") as sys.stdout:
        random = np.random.default_rng(20261121)
        other_cases(random)
        blend_cases(out, random)
        gpt_cases(out, random)
        large_cases(out, random)


if __name__ == "__main__":
    main()
