//! The order of samples in shards: which sample of which shard stands at a position of an epoch.
//!
//! Nothing is shuffled in memory and nothing is drawn in turn: every answer is a function of numbers, so that any
//! position, epoch and rank is reached at once. All arithmetic is modulo 2^64.
//!
//! * **Numbers**: `mix` is the output function of SplitMix64 (Steele, Lea, Flood, 2014; `x ^= x >> 30`, `x *=
//!   0xbf58476d1ce4e5b9`, `x ^= x >> 27`, `x *= 0x94d049bb133111eb`, `x ^= x >> 31`), `G` its step
//!   `0x9e3779b97f4a7c15`. `at(key, n) = mix(key + (n + 1)·G)` is output `n` of the generator seeded with `key`, and
//!   `key(seed, tag, a, b, …) = at(… at(at(at(seed, tag), a), b) …)`, where `tag` is eight letters, the first of them
//!   the lowest byte.
//! * **Shards** without samples are left out. The others, in their own order, are permuted by Fisher and Yates: for `i`
//!   from the last down to 1 it is exchanged with `j`, even in `0..=i`, of the outputs `at(key(seed, "shards..",
//!   epoch), 0)`, 1, 2, … in turn (`j` is the high half of `output·(i + 1)`, and an output whose low half is below
//!   `2^64 mod (i + 1)` is passed over: Lemire, 2019).
//! * **Blocks**: each `G` shards in a row are block 0, 1, …; the last may have fewer.
//! * **Samples** of a block are numbered shard after shard, and permuted by a Feistel network on `bits` bits, 8 rounds,
//!   `bits` the least from 4 on with `2^bits >=` their number. `high` is the upper `bits / 2` bits, `low` the others,
//!   `k = key(seed, "samples.", epoch, block)`. Round `r` changes `high ^= at'(low)` if `r` is even and `low ^=
//!   at'(high)` if it is odd, `at'(x) = mix((k + (r + 1)·G) ^ x)`, as many of its lowest bits as that half has. What
//!   comes out too large goes in again (cycle walking: Black, Rogaway, 2002).
//! * **Augmentation** draws `at(at(key(seed, "augment.", epoch), sample), lane)`.
//!
//! [`ORDER_VERSION`] is the version of all this. The tests pin what comes of it.

mod augment_rng;
mod keys;
mod mix;
mod order;
mod permutation;
mod rank;
mod shuffle;
mod starts;
mod state;

pub use augment_rng::{AugmentRng, draw};
pub use mix::{Mix, Mixed, SLOTS};
pub use order::{Block, MOST_SAMPLES, ShardOrder};
pub use rank::Rank;
pub use shuffle::Shuffle;
pub use state::OrderState;

/// The version of the order of samples: a new version may give another order for the same seed.
pub const ORDER_VERSION: u32 = 1;
