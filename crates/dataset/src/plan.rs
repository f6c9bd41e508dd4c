//! The plan: which sample goes to which shard, and in which order.
//!
//! On disk it is `plan.jsonl.zst`, a chain of Zstandard frames (RFC 8878) that `zstd -dc` reads as
//! JSON lines:
//!
//! ```text
//! frame 0      the header, one line
//! frame 1…S    a frame a shard: a line a sample
//! frame S+1    what scan left out: a line each
//! frame S+2    the table: digest and totals, then where each frame lies: one line
//! trailer      a skippable frame: where the table lies
//! ```
//!
//! A task reads the trailer, the table, the header and its own frames, and nothing else.

use crate::{FieldRecord, FileRecord, PathText};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// The file's name in a dataset's folder.
pub const PLAN: &str = "plan.jsonl.zst";

/// What writes the shards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SinkRecord {
    /// The format's name.
    pub format: String,
    /// The revision of its bytes.
    pub revision: u32,
    /// Its settings.
    pub options: BTreeMap<String, String>,
}

/// How inputs of typed rows are read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceRecord {
    /// The format's name.
    pub format: String,
    /// Its settings.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
}

/// A field whose bytes are decoded into columns, or columns that are encoded as bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodecRecord {
    /// The field that holds the bytes.
    pub field: String,
    /// The format of the bytes.
    pub format: String,
    /// The revision of the format.
    pub revision: u32,
    /// The columns.
    pub columns: Vec<FieldRecord>,
}

/// Something that inputs hold and the dataset lacks, since it can't be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OmissionRecord {
    /// Its name in the inputs: a branch, a dataset, a member of a compound type.
    pub field: String,
    /// Why it can't be read.
    pub reason: String,
    /// How many inputs hold it.
    pub inputs: u64,
    /// The first of them in the order of names, relative to its root.
    pub first: PathText,
}

/// Everything that holds for all shards, so that no two tasks decide differently.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanHeader {
    /// The version of this layout.
    pub packhorse_plan: u32,
    /// The dataset's name, in companions that want one.
    pub name: String,
    /// What writes the shards.
    pub sink: SinkRecord,
    /// What happens to the samples on the way, each with its revision, in order.
    pub transforms: Vec<String>,
    /// Files in the dataset's folder that the transforms need.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileRecord>,
    /// How samples were ordered, cut into shards and labelled: for people, and so that a resume can
    /// say what differs.
    pub choices: BTreeMap<String, String>,
    /// How inputs of typed rows are read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<SourceRecord>,
    /// Fields that are decoded as soon as they are read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decode: Vec<CodecRecord>,
    /// Columns that are encoded for a sink that takes bytes only, after the transforms.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub encode: Vec<CodecRecord>,
    /// The schema that sources deliver, decoded, before the transforms.
    pub schema: Vec<FieldRecord>,
    /// What the inputs hold and this schema lacks, by field.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub omitted: Vec<OmissionRecord>,
    /// The class list: a label is a position in it.
    pub classes: Vec<String>,
    /// The splits, in order; empty without splits.
    pub splits: Vec<String>,
    /// Where relative paths start. Not part of the digest: inputs may move.
    pub roots: Vec<PathText>,
}

impl PlanHeader {
    /// The version this build writes and reads.
    pub const VERSION: u32 = 1;
}

/// Where one field of a sample comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldSource {
    /// The field.
    #[serde(rename = "f")]
    pub field: String,
    /// The root that the path is relative to, a position in [`PlanHeader::roots`].
    #[serde(rename = "r")]
    pub root: u32,
    /// The input, relative to its root.
    #[serde(rename = "p")]
    pub path: PathText,
    /// The input's length in bytes.
    #[serde(rename = "n")]
    pub size: u64,
    /// The input's modification time, nanoseconds since 1970. Not part of the digest.
    #[serde(rename = "t")]
    pub mtime: i64,
    /// Offset and length of the field's bytes in the (decompressed) input; absent: all of it.
    #[serde(rename = "x", default, skip_serializing_if = "Option::is_none")]
    pub extent: Option<(u64, u64)>,
    /// The items of an input of typed rows: the first, the one past the last, and about how many bytes
    /// they are.
    #[serde(rename = "i", default, skip_serializing_if = "Option::is_none")]
    pub items: Option<(u64, u64, u64)>,
    /// Whether the items are positions in the input (bytes of a text file) rather than samples. A range of them holds any
    /// number of samples.
    #[serde(rename = "u", default, skip_serializing_if = "is_false")]
    pub by_position: bool,
    /// How many samples such items hold, where scan counted them.
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
    /// The field's length in bytes; of typed rows, about their bytes.
    pub fn len(&self) -> u64 {
        match (self.items, self.extent) {
            (Some((.., bytes)), _) => bytes,
            (None, Some((_, len))) => len,
            (None, None) => self.size,
        }
    }

    /// Whether the field holds no byte.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// One planned sample, or a run of samples of one input of typed rows.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PlanEntry {
    /// Its key, unique over the dataset. Of a run: what stands before the number or place of each sample,
    /// unless the input has keys of its own.
    pub key: String,
    /// Its label, a position in [`PlanHeader::classes`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cls: Option<u32>,
    /// Its metadata row, a JSON object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub json: Option<Box<RawValue>>,
    /// Its fields in the order of their names.
    #[serde(rename = "in")]
    pub fields: Vec<FieldSource>,
}

impl PlanEntry {
    /// The items of an input of typed rows; `None` for a sample whose fields are bytes.
    pub fn run(&self) -> Option<(&FieldSource, std::ops::Range<u64>)> {
        let source = self.fields.first()?;
        source.items.map(|(from, to, _)| (source, from..to))
    }

    /// Whether it is not known how many samples it holds.
    pub fn uncounted(&self) -> bool {
        self.fields.first().is_some_and(|source| source.by_position && source.samples.is_none())
    }

    /// How many samples; none where they are not counted.
    pub fn samples(&self) -> u64 {
        match self.run() {
            None => 1,
            Some((source, _)) if source.by_position => source.samples.unwrap_or(0),
            Some((_, items)) => items.end.saturating_sub(items.start),
        }
    }

    /// Bytes of input.
    pub fn bytes(&self) -> u64 {
        self.fields.iter().map(FieldSource::len).sum()
    }

    /// Feeds what the logical digest holds of this entry: everything but roots' folders and times.
    /// Texts are preceded by their length; numbers are little-endian u64.
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
        hasher.update(&bytes);
    }

    /// Feeds the times that the plan saw.
    pub(crate) fn mtimes_into(&self, hasher: &mut blake3::Hasher) {
        for source in &self.fields {
            hasher.update(&source.mtime.to_le_bytes());
        }
    }
}

fn text(out: &mut Vec<u8>, bytes: &[u8]) {
    number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn number(out: &mut Vec<u8>, n: u64) {
    out.extend_from_slice(&n.to_le_bytes());
}
