"""The orders of samples in shards, implemented independently from the specification at the head of src/shards/mod.rs.

Each line of standard input is JSON: {"counts", "shuffle", "seed", "epoch", "positions"}; each line of standard output
the [shard, sample] of the positions, and the draws of lanes 0 to 3 of sample 5.
"""

import json
import sys

MASK = (1 << 64) - 1
G = 0x9E3779B97F4A7C15


def mix(x):
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def at(key, n):
    return mix((key + (n + 1) * G) & MASK)


def key(seed, tag, *words):
    key = at(seed, int.from_bytes(tag.encode(), "little"))
    for word in words:
        key = at(key, word)
    return key


def shards_of(counts, shuffle, seed, epoch):
    shards = [shard for shard, count in enumerate(counts) if count]
    return shards if shuffle == "sequential" else permuted(shards, key(seed, "shards..", epoch))


def permuted(shards, outputs):
    drawn = 0
    for i in range(len(shards) - 1, 0, -1):
        while True:
            product = at(outputs, drawn) * (i + 1)
            drawn += 1
            if product & MASK >= (1 << 64) % (i + 1):
                break
        j = product >> 64
        shards[i], shards[j] = shards[j], shards[i]
    return shards


def feistel(x, bits, k):
    low_bits = bits - bits // 2
    high, low = x >> low_bits, x & ((1 << low_bits) - 1)
    for r in range(8):
        round_key = (k + (r + 1) * G) & MASK
        if r % 2 == 0:
            high ^= mix(round_key ^ low) & ((1 << bits // 2) - 1)
        else:
            low ^= mix(round_key ^ high) & ((1 << low_bits) - 1)
    return high << low_bits | low


def permutation(n, k):
    bits = max(4, (n - 1).bit_length())

    def of(x):
        x = feistel(x, bits, k)
        return x if x < n else of(x)

    return of


def in_windows(counts, here, window, k, of_runs, position):
    """The samples of a block as a list, run by run."""
    length = -(-window // 64)
    samples = [[[shard, at] for at in range(counts[shard])] for shard in here]
    runs = [of[i : i + length] for of in samples for i in range(0, len(of) // length * length, length)]
    rest = [sample for of in samples for sample in of[len(of) // length * length :]]
    runs += [rest[i : i + length] for i in range(0, len(rest), length)]
    mixed = permutation(len(runs) - 1, of_runs) if len(runs) > 1 else None
    ordered = [runs[mixed(i)] for i in range(len(runs) - 1)] + runs[-1:]
    number, first = position // (64 * length), position // (64 * length) * 64 * length
    inside = [sample for run in ordered[64 * number : 64 * number + 64] for sample in run]
    return inside[permutation(len(inside), at(k, number))(position - first)]


def on_nodes(counts, shuffle, seed, epoch, position):
    words = shuffle.split(":")
    nodes, epochs, of_node = int(words[1]), int(words[-1]), ":".join(words[2:-2])
    held, load = [[] for _ in range(nodes)], [0] * nodes
    for shard in permuted([shard for shard, count in enumerate(counts) if count], key(seed, "nodes...", epoch // epochs)):
        node = load.index(min(load))
        held[node].append(shard)
        load[node] += counts[shard]

    def sample(node, at):
        own = [counts[shard] for shard in held[node]]
        shard, place = look_up(own, of_node, at_(key(seed, "of.node.", 0), node), epoch, at)
        return [held[node][shard], place]

    quotas = [len(range(node, sum(counts), nodes)) for node in range(nodes)]
    node, at = position % nodes, position // nodes
    if at < load[node]:
        return sample(node, at)
    spare = [(giver, at) for giver in range(nodes) for at in range(quotas[giver], load[giver])]
    before = sum(max(0, quotas[taker] - load[taker]) for taker in range(node))
    return sample(*spare[before + at - load[node]])


at_ = at


def look_up(counts, shuffle, seed, epoch, position):
    if shuffle.startswith("nodes"):
        return on_nodes(counts, shuffle, seed, epoch, position)
    shards = shards_of(counts, shuffle, seed, epoch)
    group = {"sequential": 1, "full": len(shards)}.get(shuffle) or int(shuffle.split(":")[1])
    for block in range(0, len(shards), group):
        here = shards[block : block + group]
        n = sum(counts[shard] for shard in here)
        if position >= n:
            position -= n
            continue
        k = key(seed, "samples.", epoch, block // group)
        if ":window:" in shuffle:
            of_runs = key(seed, "runs....", epoch, block // group)
            return in_windows(counts, here, int(shuffle.split(":")[3]), k, of_runs, position)
        if shuffle != "sequential":
            position = permutation(n, k)(position)
        for shard in here:
            if position < counts[shard]:
                return [shard, position]
            position -= counts[shard]
    raise IndexError(position)


for line in sys.stdin:
    q = json.loads(line)
    order = (q["counts"], q["shuffle"], q["seed"], q["epoch"])
    sample = key(q["seed"], "augment.", q["epoch"], 5)
    print(json.dumps([[look_up(*order, at) for at in q["positions"]], [at(sample, lane) for lane in range(4)]]))
