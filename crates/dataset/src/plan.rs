//! The plan: the assignment of samples to shards, in order.
//!
//! On disk, `plan.jsonl.zst` is a chain of Zstandard frames (RFC 8878), which `zstd -dc` reads as JSON lines:
//!
//! ```text
//! frame 0      the header, one line
//! frame 1…S    one frame per shard, one line per entry
//! frame S+1    what scan skipped, one line each
//! frame S+2    the table, one line: digests and totals, then the extents of the frames
//! trailer      a skippable frame with the table's extent
//! ```
//!
//! A task reads only the trailer, the table, the header and its own frames.

use crate::{FieldRecord, FileRecord, JoinedRecord, PathText};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// The plan's file name.
pub const PLAN: &str = "plan.jsonl.zst";

/// The file name of a plan: [`PLAN`] for number 0, and for those of shards that were added later `plan-000001.jsonl.zst`
/// and so on.
pub fn plan_name(number: usize) -> String {
    if number == 0 { PLAN.to_owned() } else { format!("plan-{number:06}.jsonl.zst") }
}

/// Whether a file name is that of a plan ([`plan_name`]).
pub fn is_plan_name(name: &str) -> bool {
    let number = name.strip_prefix("plan-").and_then(|rest| rest.strip_suffix(".jsonl.zst"));
    name == PLAN
        || number.and_then(|number| number.parse().ok()).is_some_and(|number| number > 0 && plan_name(number) == name)
}

/// The sink of a plan or dataset.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SinkRecord {
    /// Format id.
    pub format: String,
    /// Revision of the format's bytes.
    pub revision: u32,
    /// Its settings.
    pub options: BTreeMap<String, String>,
}

/// How inputs of typed rows are read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceRecord {
    /// Format id.
    pub format: String,
    /// Its settings.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
}

/// A field of bytes and the columns it is decoded to or encoded from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodecRecord {
    /// The field that holds the bytes.
    pub field: String,
    /// Format id of the bytes.
    pub format: String,
    /// Revision of the format.
    pub revision: u32,
    /// The columns.
    pub columns: Vec<FieldRecord>,
}

/// A field of the inputs that can't be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OmissionRecord {
    /// Its name in the inputs: a branch, a dataset, a member of a compound type.
    pub field: String,
    /// Why it can't be read.
    pub reason: String,
    /// Number of inputs with this field.
    pub inputs: u64,
    /// The first such input by name, relative to its root.
    pub first: PathText,
}

/// A view among the inputs that differs from its dataset in its fields.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedView {
    /// The folder of its dataset, an index into [`PlanHeader::roots`].
    pub root: u32,
    /// The folder of the view, if that has columns of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<u32>,
    /// The fields that are read; all if there is no list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fields: Option<Vec<String>>,
    /// The columns that the view adds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joined: Option<JoinedRecord>,
}

/// The decisions that all tasks share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanHeader {
    /// Version of this layout.
    pub packhorse_plan: u32,
    /// The dataset's name, for companions that need one.
    pub name: String,
    /// The sink that writes the shards.
    pub sink: SinkRecord,
    /// The transforms in order, each with its revision.
    pub transforms: Vec<String>,
    /// Files in the dataset's folder that the transforms need.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileRecord>,
    /// Settings for order, shard sizes and labels; informative, and compared when packing resumes.
    pub choices: BTreeMap<String, String>,
    /// How inputs of typed rows are read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<SourceRecord>,
    /// Fields decoded right after reading.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decode: Vec<CodecRecord>,
    /// Columns encoded after the transforms, for sinks that take bytes only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub encode: Vec<CodecRecord>,
    /// The schema before the transforms, after decoding.
    pub schema: Vec<FieldRecord>,
    /// Fields of the inputs that can't be read, and are missing in the schema.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub omitted: Vec<OmissionRecord>,
    /// Class names; a label is an index into them.
    pub classes: Vec<String>,
    /// Split names in order; empty without splits.
    pub splits: Vec<String>,
    /// Views among the inputs that have other fields than their datasets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub views: Vec<PlannedView>,
    /// Folders that paths are relative to. Not part of the digest: inputs may move.
    pub roots: Vec<PathText>,
}

impl PlanHeader {
    /// The layout version that this build writes and reads.
    pub const VERSION: u32 = 1;
}

/// The source of one field of a sample.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldSource {
    /// The field.
    #[serde(rename = "f")]
    pub field: String,
    /// Index into [`PlanHeader::roots`].
    #[serde(rename = "r")]
    pub root: u32,
    /// The input's path relative to its root.
    #[serde(rename = "p")]
    pub path: PathText,
    /// The input's length in bytes.
    #[serde(rename = "n")]
    pub size: u64,
    /// The input's modification time in nanoseconds since 1970. Not part of the digest.
    #[serde(rename = "t")]
    pub mtime: i64,
    /// Offset and length of the field in the (decompressed) input; absent for the whole input.
    #[serde(rename = "x", default, skip_serializing_if = "Option::is_none")]
    pub extent: Option<(u64, u64)>,
    /// For typed rows: the first item, one past the last, and their approximate size in bytes.
    #[serde(rename = "i", default, skip_serializing_if = "Option::is_none")]
    pub items: Option<(u64, u64, u64)>,
    /// Whether the items are positions in the input (bytes of a text file) rather than samples. A range of them holds any
    /// number of samples.
    #[serde(rename = "u", default, skip_serializing_if = "is_false")]
    pub by_position: bool,
    /// Number of samples in such items, if scan counted them.
    #[serde(rename = "s", default, skip_serializing_if = "Option::is_none")]
    pub samples: Option<u64>,
    /// For a compressed input with items by position: where decompression starts to reach the first item. Not part of
    /// the digest: it follows from the input.
    #[serde(rename = "d", default, skip_serializing_if = "Option::is_none")]
    pub seek_point: Option<SeekPoint>,
}

/// Where to start decompressing an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeekPoint {
    /// The decompressed length of the input in bytes.
    #[serde(rename = "n")]
    pub len: u64,
    /// File offset of the frame that is decompressed first.
    #[serde(rename = "o")]
    pub offset: u64,
    /// Decompressed offset of that frame's first byte.
    #[serde(rename = "s")]
    pub start: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
pub(crate) fn is_false(flag: &bool) -> bool {
    !flag
}

impl FieldSource {
    /// Length of the field in bytes; approximate for typed rows.
    pub fn len(&self) -> u64 {
        match (self.items, self.extent) {
            (Some((.., bytes)), _) => bytes,
            (None, Some((_, len))) => len,
            (None, None) => self.size,
        }
    }

    /// Whether the field has length 0.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A planned sample, or a run of samples of one typed input.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PlanEntry {
    /// The key, unique in the dataset. For a run: the prefix before each sample's number or position, unless the
    /// input has keys.
    pub key: String,
    /// The label, an index into [`PlanHeader::classes`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cls: Option<u32>,
    /// The metadata row, a JSON object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub json: Option<Box<RawValue>>,
    /// The row of its first sample in the joined columns of its view ([`PlanHeader::views`]).
    #[serde(rename = "j", default, skip_serializing_if = "Option::is_none")]
    pub joined: Option<u64>,
    /// The fields, sorted by name.
    #[serde(rename = "in")]
    pub fields: Vec<FieldSource>,
}

impl PlanEntry {
    /// The input and items of a run; `None` for a single sample.
    pub fn run(&self) -> Option<(&FieldSource, std::ops::Range<u64>)> {
        let source = self.fields.first()?;
        source.items.map(|(from, to, _)| (source, from..to))
    }

    /// Whether the number of samples is unknown.
    pub fn uncounted(&self) -> bool {
        self.fields.first().is_some_and(|source| source.by_position && source.samples.is_none())
    }

    /// Number of samples; 0 if unknown.
    pub fn samples(&self) -> u64 {
        match self.run() {
            None => 1,
            Some((source, _)) if source.by_position => source.samples.unwrap_or(0),
            Some((_, items)) => items.end.saturating_sub(items.start),
        }
    }

    /// Input bytes.
    pub fn bytes(&self) -> u64 {
        self.fields.iter().map(FieldSource::len).sum()
    }

    /// The rest of a run, from item `start` on.
    pub fn from_item(&self, start: u64) -> Self {
        let mut rest = self.clone();
        let skipped = self.run().map_or(0, |(_, items)| start.saturating_sub(items.start));
        rest.joined = self.joined.map(|row| row + skipped);
        for (from, to, bytes) in rest.fields.iter_mut().filter_map(|piece| piece.items.as_mut()) {
            let left = to.saturating_sub(start.max(*from)) as f64 / to.saturating_sub(*from).max(1) as f64;
            *bytes = (*bytes as f64 * left) as u64;
            *from = start.max(*from);
        }
        rest
    }

    /// Hashes the parts of this entry that belong to the logical digest: all but root folders and times. Strings are
    /// length-prefixed; numbers are little-endian u64.
    pub(crate) fn digest_into(&self, hasher: &mut blake3::Hasher) {
        let mut bytes = Vec::with_capacity(256);
        text(&mut bytes, self.key.as_bytes());
        number(&mut bytes, self.cls.map_or(0, |label| u64::from(label) + 1));
        text(&mut bytes, self.json.as_ref().map_or("", |json| json.get()).as_bytes());
        number(&mut bytes, self.fields.len() as u64);
        for source in &self.fields {
            text(&mut bytes, source.field.as_bytes());
            number(&mut bytes, source.root.into());
            match &source.path {
                PathText::Text(path) => text(&mut bytes, path.as_bytes()),
                other => text(&mut bytes, &other.to_bytes()),
            }
            number(&mut bytes, source.size);
            let (offset, len) = source.extent.unwrap_or((u64::MAX, source.size));
            number(&mut bytes, offset);
            number(&mut bytes, len);
            if let Some((from, to, _)) = source.items {
                number(&mut bytes, from);
                number(&mut bytes, to);
            }
        }
        if let Some(row) = self.joined {
            number(&mut bytes, row);
        }
        hasher.update(&bytes);
    }

    /// The inputs' modification times, as their digest takes them.
    pub(crate) fn mtimes(&self) -> impl Iterator<Item = [u8; 8]> {
        self.fields.iter().map(|source| source.mtime.to_le_bytes())
    }
}

fn text(out: &mut Vec<u8>, bytes: &[u8]) {
    number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn number(out: &mut Vec<u8>, n: u64) {
    out.extend_from_slice(&n.to_le_bytes());
}
