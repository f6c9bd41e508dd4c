//! The order of samples in shards: maps a position of an epoch to a sample of a shard.
//!
//! There is no shuffle buffer and no generator state: every answer is a pure function of seed, epoch and position, so
//! any position of any epoch is reached directly. All arithmetic is modulo 2^64.
//!
//! * **Numbers** ([`SplitMix64`](packhorse_core::SplitMix64)): `mix` is the output function of SplitMix64 (Steele, Lea,
//!   Flood, 2014; `x ^= x >> 30`, `x *= 0xbf58476d1ce4e5b9`, `x ^= x >> 27`, `x *= 0x94d049bb133111eb`, `x ^= x >> 31`), `G` its step
//!   `0x9e3779b97f4a7c15`. `at(key, n) = mix(key + (n + 1)·G)` is output `n` of the generator seeded with `key`, and
//!   `key(seed, tag, a, b, …) = at(… at(at(at(seed, tag), a), b) …)`, where `tag` is eight ASCII letters, the first one
//!   the lowest byte.
//! * **Shards** without samples are left out. The others are permuted by the Fisher-Yates shuffle: for `i` from the
//!   last down to 1, shard `i` is exchanged with `j`, uniform in `0..=i`, derived from the outputs `at(key(seed,
//!   "shards..", epoch), 0)`, 1, 2, … (`j` is the high half of `output·(i + 1)`; an output whose low half is below
//!   `2^64 mod (i + 1)` is rejected: Lemire, 2019).
//! * **Blocks**: every `shards` consecutive shards form block 0, 1, … ([`Shuffle::Blocks`]); the last may have fewer.
//! * **Samples** of a block are numbered shard after shard, and permuted by a Feistel network of 8 rounds on `bits`
//!   bits, where `bits` is the least number from 4 on with `2^bits >=` the number of samples. `high` is the upper `bits
//!   / 2` bits, `low` the rest, and `k = key(seed, "samples.", epoch, block)`. Round `r` changes `high ^= at'(low)` if
//!   `r` is even and `low ^= at'(high)` if it is odd, `at'(x) = mix((k + (r + 1)·G) ^ x)`, truncated to the bits of
//!   that half. A result that is too large is permuted again (cycle walking: Black, Rogaway, 2002).
//! * **Windows** ([`Shuffle::Windows`]): the samples of a shard are cut into runs of `R`, a 64th of the window's samples
//!   rounded up; 64 runs make a window. The
//!   whole runs of a block are numbered shard after shard. The rests of the shards follow, joined and cut into runs in the same
//!   way. All runs but the last are permuted by `key(seed, "runs....", epoch, block)`. In this order the samples of window 0, 1, …
//!   are permuted by `at(k, window)`, with `k` as above.
//! * **Nodes** ([`Shuffle::Nodes`]): the shards are permuted as above with `key(seed, "nodes...", epoch / epochs)`, and then
//!   given one after the other to the node with the fewest samples (ties: the lowest number). Node `n` orders the samples
//!   of its shards, numbered as they were given, in blocks or windows as above, with the seed `at(key(seed, "of.node.", 0), n)`.
//!   Position `p` is sample `p / nodes` of node `p % nodes`. Samples beyond the positions of a node are numbered node after
//!   node; they fill the positions of nodes that hold too few, node after node. Of a whole step of `L` positions per node
//!   that begins at position `b`, the ranks of node `n` take `b + (n - b) mod nodes + nodes·i` for `i` in `0..L`.
//! * **Augmentation** draws `at(at(key(seed, "augment.", epoch), sample), lane)`.
//!
//! [`ORDER_VERSION`] is the version of this specification. Tests pin its results.

mod augment_rng;
mod keys;
mod mix;
mod nodes;
mod order;
mod permutation;
mod rank;
mod shuffle;
mod starts;
mod state;

pub use augment_rng::{AugmentRng, draw};
pub use mix::{Mix, Mixed, SLOTS};
pub use nodes::NodeOrder;
pub use order::{Block, MOST_SAMPLES, ShardOrder};
pub use rank::{Rank, is_on_one_node, local_rank_from_environment};
pub use shuffle::{RUNS, Shuffle};
pub use state::OrderState;

/// The version of the order of samples: a new version may give another order for the same seed.
pub const ORDER_VERSION: u32 = 1;
