//! From shards to batches: shuffled, decoded, each batch in one slab of memory; deterministic, and resumable at any
//! step.
//!
//! ```text
//! place ─open→ Dataset ─ Loader ─→ Batch, Batch, … (Device)        samples, any fields, any format of the registry
//!                          │
//!   order (position → shard, sample) ─ read ahead ─ decode and collate, straight into a slab
//!
//! .idx ── IntArray ─┬─ TokenFile ── Tokens ─┬─ TokenLoader ─→ Batch, …      tokens in training order
//! .bin ── mapped ──┘                       │
//! GptOrder, PackOrder, BlendOrder: Order
//! ```
//!
//! * **Datasets** ([`Dataset::open`]): sealed datasets, from their manifest and indexes alone; and third-party shards,
//!   whose headers are read once. Samples are numbered and can be read in any order ([`Reader`]).
//! * **Order**: [`packhorse_order::ShardOrder`] maps a position of an epoch to a sample, and
//!   [`packhorse_order::Sampler`] gives the positions that a rank takes at a step. There is no shuffle buffer: the
//!   content of a batch is a function of seed, epoch and position. [`Loader::state`] is the progress of all ranks;
//!   resuming from it is immediate, even with other numbers of ranks or batch sizes. A skipped sample keeps its
//!   position.
//! * **Threads**: some read ahead, bounded in bytes ([`LoaderOptions::budget`]), others decode and fill slabs, which
//!   are reused: if samples are ranges of bytes, nothing is allocated for a batch once all slabs exist. Batches come in
//!   order, whichever thread fills them.
//! * **A batch** is one slab whose [`Layout`] is computed once: dense fields begin at multiples of 256 bytes, ragged values
//!   follow one another without padding, with their offsets among the dense fields.
//!
//!   ```text
//!   jpg [B, 224, 224, 3] u8 │ cls [B] i64 │ txt.offsets [B + 1] i64 │ txt, as many bytes as there are
//!   ```
//!
//! * **Tokens** are read straight from the files, because a sample is a few runs of tokens at random positions:
//!   `tokens`, `[batch, length + 1]`, as `u16`, `i32` or `i64` ([`TokenType`]), and the requested [`Companions`]. The
//!   documents of a row are the segments of the order. This crate knows no format: the facade parses the `.idx`.
//! * **Memory maps** ([`Access`]) are for sealed files, which must not be truncated or written while they are mapped.

mod access;
mod ahead;
mod batch;
mod batch_decoder;
mod batch_metadata;
mod batch_samples;
mod bench;
pub mod cache;
mod coalesce;
mod condition;
mod condition_classes;
mod condition_text;
mod cores;
mod count;
mod counters;
mod dataset;
mod device;
pub mod diagnose;
mod epoch_order;
mod fields;
mod fill;
mod first_value;
mod folds;
mod forecast;
mod free_slabs;
mod gather;
mod held_samples;
mod host;
mod int_array;
mod isolation;
mod joined_columns;
mod keys;
mod layout;
mod loader;
mod loader_builder;
mod loader_options;
mod loader_stats;
mod mapping;
mod memory;
mod next;
mod null_loader;
mod on_error;
mod opened;
mod parallel;
mod pipeline;
mod prefetch_queue;
mod random_access;
mod range_reads;
mod readahead;
mod reader;
mod reads_ahead;
mod remainder;
mod requested_columns;
mod ring;
mod sample_block;
mod sample_work;
mod shard_caches;
mod spans;
mod steps;
mod stream;
mod table;
mod token_file;
mod token_loader;
mod token_loader_builder;
mod token_options;
mod token_ranges;
mod token_state;
mod token_type;
mod tokens;
mod work;

pub use access::Access;
pub use ahead::{Ahead, Batches};
pub use batch::Batch;
pub use batch_decoder::BatchDecoder;
pub use batch_metadata::BatchMetadata;
pub use batch_samples::{BatchSample, BatchSamples};
pub use bench::{Measured, measure};
pub use condition::Condition;
pub use cores::allowed_cpus;
pub use counters::LoaderCounters;
pub use dataset::{Dataset, OpenOptions};
pub use device::Device;
pub use fields::{Axes, FieldKind, FieldOptions, Normalize};
pub use forecast::{Demand, Forecast, SampleCost};
pub use gather::Gather;
pub use held_samples::HeldSamples;
pub use host::{Host, HostSlab};
pub use int_array::IntArray;
pub use isolation::isolated;
pub use layout::{ALIGN, Layout, SlabField};
pub use loader::Loader;
pub use loader_builder::LoaderBuilder;
pub use loader_options::LoaderOptions;
pub use loader_stats::{LoaderStats, Metric};
pub use next::Next;
pub use null_loader::NullLoader;
pub use on_error::OnError;
pub use random_access::RandomAccess;
pub use reader::{ReadOptions, Reader, Verify, Wants};
pub use remainder::Remainder;
pub use requested_columns::Column;
pub use sample_block::{SampleBlock, Value};
pub use shard_caches::CacheOptions;
pub use stream::Pipe;
pub use token_file::TokenFile;
pub use token_loader::TokenLoader;
pub use token_loader_builder::TokenLoaderBuilder;
pub use token_options::{Companions, LossMask, TokenOptions};
pub use token_state::TokenState;
pub use token_type::TokenType;
pub use tokens::Tokens;
