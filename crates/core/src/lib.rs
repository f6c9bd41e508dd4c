//! The vocabulary that all crates of packhorse share.
//!
//! This crate owns the shape in which data moves ([`Rows`]), the traits of a format ([`Format`],
//! [`Source`], [`Sink`], [`ShardWriter`]), where bytes come from and go to ([`Input`], [`Outlet`],
//! [`Store`]), and how things go wrong ([`Error`]). It knows bytes, shapes and errors. It starts no
//! threads, prints nothing, knows no plan and no single format.

mod byte_budget;
mod cancel;
mod canonical;
mod checksum;
mod codec;
mod contain;
mod counted;
mod error;
mod event;
mod expansion;
mod field_type;
mod findings;
mod format;
mod glob;
mod half_text;
mod huggingface;
mod indexer;
mod input;
pub mod json;
mod limits;
mod listed_members;
mod memory;
mod name;
mod options;
mod outlet;
mod quote_tracker;
mod registry;
mod row_starts;
mod rows;
mod scan_cache;
mod split_mix;
mod store;
mod suggest;
mod summary;
mod table;
mod value_sizes;
mod values;

pub use arrow_schema::{DataType, Field, Schema, SchemaRef};
pub use byte_budget::{ByteBudget, ByteShare, HeldBytes};
pub use cancel::{Cancel, LargeStep};
pub use canonical::{canonical, with_nulls};
pub use checksum::{Crc32c, crc32c};
pub use codec::{Codec, PackedValue};
pub use contain::{contain, is_contained, silence_contained};
pub use counted::counted;
pub use error::{Code, Context, Error, Kind, Result, found};
pub use event::{Event, Observer};
pub use expansion::Expansion;
pub use field_type::{
    CLASSES, ENCODING, FieldType, HUGGINGFACE, LOGICAL, NUMPY, PACKED, TABLE, UNTYPED, numpy_type, with_metadata,
};
pub use findings::{Consumer, Finding, Findings};
pub use format::{ArchiveMember, Extent, Format, FormatInfo, InputTable, RowCheck, Sealed, ShardWriter, Sink, Source};
pub use glob::{glob_matches, like_groups};
pub use half_text::{nearest_half, shortest_half};
pub use huggingface::{HUGGINGFACE_CONFIG, class_label, class_names, write_huggingface_config};
pub use indexer::Indexer;
pub use input::{BegunRead, Input, MemoryInput, read_full};
pub use limits::Limits;
pub use memory::{Memory, Pool, aligned, passed_over};
pub use name::{MemberName, NameFault, escape, folder_key, member_name, split_base, split_name, unescape};
pub use options::Options;
pub use outlet::{InputRange, Outlet, PatchableWriter, ScratchFile, copy_ranges};
pub use quote_tracker::QuoteTracker;
pub use registry::{Registry, shard_number};
pub use row_starts::{RowStart, RowStarts};
pub use rows::{KEY, Rows, Sample, is_blob, key_column, value_bytes};
pub use scan_cache::ScanCache;
pub use split_mix::SplitMix64;
pub use store::{DirEntry, FileKind, FileStat, Store, StoreFile};
pub use suggest::{nearest, nearest_path, some_of};
pub use summary::{Members, ShardMember, ShardSummary};
pub use table::{Blocks, Omission, Table, TableInfo, blocks};
pub use value_sizes::{add_sizes, compacted, held_bytes, owned, rows_bytes};
pub use values::{
    array_of, bytes_of, common_number, element_width, named_number, number_bytes, number_kind, numpy_number, swap_bytes,
};
