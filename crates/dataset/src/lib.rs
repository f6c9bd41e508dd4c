//! packhorse's documents on disk, each versioned: partial listing, plan, receipt, manifest, member index, and view.
//!
//! This crate owns their bytes, digests and validity. It knows no shard format, starts no threads, and does not know
//! how packing happens. `docs/documents.md` specifies the layouts for other tools.

mod digest;
mod frames;
mod index;
mod listing;
mod manifest;
mod not_sealed;
mod own_digest;
mod part_error;
mod plan;
mod plan_reader;
mod plan_writer;
mod receipt;
mod sample_rows;
mod saved_index;
mod schema;
mod selection;
mod text;
mod view;

pub use digest::{Digest, RootDigest};
pub use index::{INDEX_SUFFIX, decode_index, encode_index};
pub use listing::{
    LISTING_SUFFIX, LISTINGS, ListedDataset, ListedFault, ListedFiles, ListedMembers, ListedTable, ListingEnd,
    ListingHeader, ListingReader, ListingRecord, ListingWriter, TableKind, listed_part, listing_name,
};
pub use manifest::{AppendRecord, CACHE_MARK, FileRecord, MANIFEST, Manifest, PART, PartOf, ShardRecord, SplitRecord};
pub use not_sealed::{is_of_packing, not_sealed, staged};
pub use part_error::{ERRORS, PartError};
pub use plan::{
    CodecRecord, FieldSource, OmissionRecord, PLAN, PlanEntry, PlanHeader, PlannedView, SeekPoint, SinkRecord,
    SourceRecord, is_plan_name, plan_name,
};
pub use plan_reader::{Entries, PlanReader, ShardFrame};
pub use plan_writer::{EncodedFrame, PlanWriter};
pub use receipt::{RECEIPT_SUFFIX, Receipt, SKIPPED, SkipRecord};
pub use sample_rows::SampleRows;
pub use saved_index::{INDEX_FOLDER, IndexedFiles, SavedIndex};
pub use schema::FieldRecord;
pub use selection::{SampleRun, decode_selection, encode_selection};
pub use text::PathText;
pub use view::{DatasetView, JOINED, JOINED_FORMAT, JoinedRecord, SELECTION, STAGED_BASE, VIEW};
