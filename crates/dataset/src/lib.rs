//! packhorse's documents on disk, each versioned: the plan, the receipt of a shard, the manifest of
//! a dataset, and the index of a shard's members.
//!
//! This crate owns their bytes, their digests, and what makes them valid. It knows no format of
//! shards, starts no threads, and does not know how packing happens. `docs/documents.md` tells the
//! same layouts to readers who write their own tools.

mod digest;
mod index;
mod manifest;
mod plan;
mod plan_reader;
mod plan_writer;
mod receipt;
mod schema;
mod text;

pub use digest::{Digest, RootDigest};
pub use index::{INDEX_SUFFIX, decode_index, encode_index};
pub use manifest::{FileRecord, MANIFEST, Manifest, PART, PartOf, ShardRecord, SplitRecord};
pub use plan::{
    CodecRecord, FieldSource, OmissionRecord, PLAN, PlanEntry, PlanHeader, SeekPoint, SinkRecord, SourceRecord,
};
pub use plan_reader::{Entries, PlanReader, ShardFrame};
pub use plan_writer::PlanWriter;
pub use receipt::{RECEIPT_SUFFIX, Receipt, SKIPPED, SkipRecord};
pub use schema::FieldRecord;
pub use text::PathText;
