//! Training orders: which sample of which shard stands at a position, and which tokens make sample `k`.
//!
//! * **Samples in shards**: [`ShardOrder`] maps a position of an epoch to a sample, [`Mix`] interleaves several
//!   datasets, [`Sampler`] gives the positions of a rank, [`OrderState`] is the progress of all ranks, and
//!   [`AugmentRng`] gives random numbers for augmentation. The algorithm is packhorse's own: `shards/mod.rs` specifies
//!   it, and [`ORDER_VERSION`] is its version. The rest of this page is about tokens.
//! * **Token indices**: those that Megatron-LM, Megatron-DeepSpeed, NeMo and BlendCorpus derive from the lengths of the
//!   sequences in an `.idx` file, number for number, and an index of best-fit packing. Tokens are neither read nor
//!   moved. Everything is a pure function of its arguments, without files or clock. Work runs on rayon's pool; the
//!   result does not depend on the number of threads.
//! * **Specification**: `GPTDataset`, `BlendedDataset` and the helpers of Megatron Core 0.16
//!   (<https://github.com/NVIDIA/Megatron-LM>), BlendCorpus (<https://github.com/zhenghh04/blendcorpus>), numpy's
//!   `RandomState` and `numpy.save`.
//! * **Data flow**:
//!
//!   ```text
//!   lengths ─┬─ GptIndex ─── GptOrder ──┐
//!            │    └ GptDescription: the files that Megatron then finds in its cache
//!            ├─ PackIndex ── PackOrder ─┤
//!   weights ─┴─ BlendIndex ─────────────┴─ BlendOrder      Order::sample(k) → Segments → cu_seqlens, position_ids
//!               CorpusBlend (BlendCorpus)                   Sampler: which k a rank takes
//!   ```
//!
//! * **The arrays on disk** are `.npy` files, which [`read_npy`] reads in place from a mapping.
//! * **Floating point**: weights, their sums and the errors of a blend are 64-bit, operation by operation as in
//!   Megatron's helpers on x86-64. A compiler that fuses multiplication and addition (the default of GCC on 64-bit ARM)
//!   makes the helpers themselves give other results.
//! * **Seeds** are below 2^32: numpy's `RandomState` takes no other integers.
//! * **Revision**: 1.

mod array;
mod blend;
mod blend_order;
mod blend_scheduler;
mod cache;
mod capacity;
mod corpus;
mod gpt;
mod gpt_order;
mod json;
mod mask;
mod npy;
mod order;
mod pack;
mod pack_order;
mod plan;
mod random_state;
mod sampler;
mod samples;
mod shards;
mod shuffle;
mod small_blend_scheduler;
mod split;
mod sum;

pub use array::{Array, IntView, Ints};
pub use blend::{BlendIndex, BlendRequest, SURPLUS};
pub use blend_order::BlendOrder;
pub use cache::{BlendDescription, BlendWeights, CacheFile, GptDescription};
pub use corpus::{Corpus, CorpusBlend, CorpusFile, CorpusOptions};
pub use gpt::GptIndex;
pub use gpt_order::GptOrder;
pub use json::Json;
pub use mask::{cu_seqlens, position_ids, segment_ids};
pub use npy::read_npy;
pub use order::{Order, Segment};
pub use pack::PackIndex;
pub use pack_order::PackOrder;
pub use plan::{GptOptions, GptPlan};
pub use random_state::RandomState;
pub use sampler::Sampler;
pub use shards::{
    AugmentRng, Block, MOST_SAMPLES, Mix, Mixed, NodeOrder, ORDER_VERSION, OrderState, RUNS, Rank, SLOTS, ShardOrder,
    Shuffle, draw, is_on_one_node, local_rank_from_environment,
};
pub use shuffle::shuffle;
pub use split::{Split, Splits};
pub use sum::{normalized, pairwise_sum};
