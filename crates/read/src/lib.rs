//! Batches of tokens, in training order, each in one slab of memory.
//!
//! ```text
//! .idx ── Numbers (lengths, pointers) ─┬─ TokenFile ── Tokens ─┐
//! .bin ── mapped, or by ranges ────────┘                       ├─ TokenLoader ─→ Batch, Batch, … (Device)
//! GptSamples, PackSamples, BlendSamples: Order ────────────────┘
//! ```
//!
//! * **What is read**: files of tokens, little-endian, of which the caller says where each sequence lies
//!   ([`TokenFile`]). This crate knows no format: that the numbers are those of an `.idx` is the
//!   facade's business, which knows `packhorse-tokens`, and datatrove's or bare files need nothing else here.
//!   Rows of a `Source` would be the other way, but those are blocks of consecutive documents, and a sample is
//!   a handful of runs of tokens at random places.
//! * **By memory map** where the input is a file of this machine, and by `Input::read_at` where it is none or where
//!   [`Access::Ranges`] is asked for: the ranges of a batch are sorted, neighbours read as one. Files must not be
//!   truncated or written while they are mapped. One that is cut short is an error that names it and the sample.
//! * **A batch** is `tokens`, `[batch, length + 1]`, as `u16`, `i32` or `i64` ([`Wire`]), and what
//!   [`Companions`] ask for, in one slab whose [`Layout`] is computed once: fields begin at multiples of 256 bytes.
//!
//!   ```text
//!   tokens │ position_ids │ segment_ids │ loss_mask │ cu_seqlens (as much of it as there is)
//!   ```
//!
//! * **Documents** of a row are what the order calls segments: for GPT datasets the sequences of the `.idx`, as Megatron
//!   has it; not what lies between tokens of end of text.
//! * **Order**: rank `r` takes samples as Megatron's sequential sampler has it ([`packhorse_order::Sampler`]).
//!   [`LoaderState`] is the number of samples all ranks have taken: going on from it takes no time, and ranks and
//!   batch may be others then.
//! * **Threads** fill batches some way ahead, into slabs that are used again: no memory is taken for a batch once all
//!   are there.

mod access;
mod batch;
mod blend_samples;
mod device;
mod fill;
mod gpt_samples;
mod host;
mod layout;
mod loader;
mod mapping;
mod numbers;
mod options;
mod pack_samples;
mod ranges;
mod ring;
mod state;
mod token_file;
mod tokens;
mod wire;

pub use access::Access;
pub use batch::Batch;
pub use blend_samples::BlendSamples;
pub use device::Device;
pub use gpt_samples::GptSamples;
pub use host::{Host, HostSlab};
pub use layout::{ALIGN, Layout, SlabField};
pub use loader::TokenLoader;
pub use numbers::Numbers;
pub use options::{Companions, LoaderOptions, LossMask, Remainder};
pub use pack_samples::PackSamples;
pub use state::LoaderState;
pub use token_file::TokenFile;
pub use tokens::Tokens;
pub use wire::Wire;
