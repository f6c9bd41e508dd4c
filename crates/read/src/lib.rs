//! Shards to batches: shuffled, decoded, each batch in one slab of memory; exact, and going on from anywhere.
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
//! * **Datasets** ([`Dataset::open`]): what `packhorse seal` sealed, from its manifest and its indexes alone; and third-party
//!   shards, whose headers are read once. Samples are numbered, and any of them can be read at any time ([`Reader`]).
//! * **Order**: [`packhorse_order::ShardOrder`] says what stands at a position of an epoch, and
//!   [`packhorse_order::Sampler`] which positions a rank takes at a step. There is no shuffle buffer: what a batch holds is a
//!   function of seed, epoch and position. [`Loader::state`] is how far all ranks have come; going on from it takes no time,
//!   and ranks and batch may be others then. A sample that is left out keeps its position.
//! * **Threads**: some read ahead, bounded in bytes ([`LoaderOptions::budget`]), some decode and fill slabs, which are used
//!   again: where samples are ranges of bytes, no memory is taken for a batch once all slabs are there. Batches come in
//!   order, whichever thread fills them.
//! * **A batch** is one slab whose [`Layout`] is computed once: dense fields begin at multiples of 256 bytes, ragged values
//!   follow one another without padding, with their offsets among the dense fields.
//!
//!   ```text
//!   jpg [B, 224, 224, 3] u8 │ cls [B] i64 │ txt.offsets [B + 1] i64 │ txt, as many bytes as there are
//!   ```
//!
//! * **Tokens** are read straight from the files, since a sample is a handful of runs of tokens at random places:
//!   `tokens`, `[batch, length + 1]`, as `u16`, `i32` or `i64` ([`TokenType`]), and what [`Companions`] ask for. Documents of a
//!   row are what the order calls segments. This crate knows no format: that the numbers are those of an `.idx` is the
//!   facade's business.
//! * **Memory maps** ([`Access`]) are for files that were sealed: they must not be truncated or written while they are
//!   mapped.

mod access;
mod ahead;
mod batch;
mod batch_metadata;
mod bench;
pub mod cache;
mod coalesce;
mod cores;
mod dataset;
mod device;
mod epoch_order;
mod fields;
mod fill;
mod host;
mod int_array;
mod layout;
mod loader;
mod loader_builder;
mod loader_options;
mod mapping;
mod null_loader;
mod opened;
mod parallel;
mod pipeline;
mod prefetch_queue;
mod ranges;
mod reader;
mod remainder;
mod ring;
mod sample_block;
mod sample_work;
mod shard_caches;
mod steps;
mod stream;
mod table;
mod token_file;
mod token_loader;
mod token_loader_builder;
mod token_options;
mod token_state;
mod token_type;
mod tokens;
mod work;

pub use access::Access;
pub use ahead::{Ahead, Batches};
pub use batch::Batch;
pub use batch_metadata::BatchMetadata;
pub use bench::{Measured, measure};
pub use dataset::{Dataset, OpenOptions};
pub use device::Device;
pub use fields::{FieldKind, FieldOptions, OnError};
pub use host::{Host, HostSlab};
pub use int_array::IntArray;
pub use layout::{ALIGN, Layout, SlabField};
pub use loader::Loader;
pub use loader_builder::LoaderBuilder;
pub use loader_options::LoaderOptions;
pub use null_loader::NullLoader;
pub use reader::{Column, ReadOptions, Reader, Verify, Wants};
pub use remainder::Remainder;
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
