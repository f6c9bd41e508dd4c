//! The summary of a written shard, and where its members are.

use crate::{Error, Result};
use std::collections::BTreeMap;

/// Where every member of a shard is: samples in order, members of a sample in the order of fields.
///
/// Stored by column, since a shard may hold a million members.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    fields: Vec<String>,
    keys: String,
    key_ends: Vec<u64>,
    member_ends: Vec<u64>,
    field: Vec<u16>,
    offset: Vec<u64>,
    len: Vec<u64>,
    crc: Vec<u32>,
    /// Empty where they follow from the members.
    bounds: Vec<u64>,
}

/// One member: a field of a sample as bytes in a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardMember<'a> {
    /// The field's name.
    pub field: &'a str,
    /// Where its bytes start in the shard's data file.
    pub offset: u64,
    /// How many bytes.
    pub len: u64,
    /// CRC-32C (Castagnoli, RFC 3720) of the bytes.
    pub crc32c: u32,
}

impl Members {
    /// No samples; `fields` are the names that members may refer to, by position.
    pub fn new(fields: Vec<String>) -> Self {
        Self { fields, ..Self::default() }
    }

    /// Starts the next sample.
    pub fn push_sample(&mut self, key: &str) {
        self.keys.push_str(key);
        self.key_ends.push(self.keys.len() as u64);
        self.member_ends.push(self.field.len() as u64);
    }

    /// Adds a member to the last sample; `field` is a position in the list given to [`Members::new`].
    pub fn push_member(&mut self, field: u16, offset: u64, len: u64, crc32c: u32) {
        self.field.push(field);
        self.offset.push(offset);
        self.len.push(len);
        self.crc.push(crc32c);
        if let Some(end) = self.member_ends.last_mut() {
            *end = self.field.len() as u64;
        }
    }

    /// Sets the checksums of all members, in their order.
    ///
    /// Errors (kind `Bug`): not one for each member.
    pub fn set_checksums(&mut self, checksums: Vec<u32>) -> Result<()> {
        if checksums.len() != self.len() {
            return Err(Error::bug(format!("{} checksums of {} members", checksums.len(), self.len())));
        }
        self.crc = checksums;
        Ok(())
    }

    /// The same with the offset of each sample's first header, and the end of the last sample: for shards of others,
    /// whose headers have any length.
    pub fn with_bounds(self, bounds: Vec<u64>) -> Self {
        Self { bounds, ..self }
    }

    /// The offsets given to [`Members::with_bounds`]; empty without them.
    pub fn bounds(&self) -> &[u64] {
        &self.bounds
    }

    /// The names of the fields.
    pub fn fields(&self) -> &[String] {
        &self.fields
    }

    /// How many samples.
    pub fn samples(&self) -> usize {
        self.key_ends.len()
    }

    /// How many members, over all samples.
    pub fn len(&self) -> usize {
        self.field.len()
    }

    /// Whether there is no member.
    pub fn is_empty(&self) -> bool {
        self.field.is_empty()
    }

    /// The key of sample `i`.
    pub fn key(&self, i: usize) -> Option<&str> {
        let end = usize::try_from(*self.key_ends.get(i)?).ok()?;
        self.keys.get(start(&self.key_ends, i)?..end)
    }

    /// The members of sample `i`; none past the end.
    pub fn of(&self, i: usize) -> impl Iterator<Item = ShardMember<'_>> {
        let range = start(&self.member_ends, i)
            .zip(self.member_ends.get(i).and_then(|end| usize::try_from(*end).ok()))
            .map_or(0..0, |(from, to)| from..to);
        range.filter_map(|m| self.member(m))
    }

    /// Member `m` of the shard, counted over all samples.
    pub fn member(&self, m: usize) -> Option<ShardMember<'_>> {
        Some(ShardMember {
            field: self.fields.get(usize::from(*self.field.get(m)?))?,
            offset: *self.offset.get(m)?,
            len: *self.len.get(m)?,
            crc32c: *self.crc.get(m)?,
        })
    }

    /// Key and members of every sample, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, impl Iterator<Item = ShardMember<'_>>)> {
        (0..self.samples()).filter_map(|i| Some((self.key(i)?, self.of(i))))
    }
}

fn start(ends: &[u64], i: usize) -> Option<usize> {
    match i.checked_sub(1) {
        None => Some(0),
        Some(before) => usize::try_from(*ends.get(before)?).ok(),
    }
}

/// What a [`ShardWriter`](crate::ShardWriter) returns for a complete shard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShardSummary {
    /// The shard's name without an extension. Writers leave it empty; the caller fills it in.
    pub name: String,
    /// The split it belongs to, if the dataset has splits.
    pub split: Option<String>,
    /// Samples written.
    pub samples: u64,
    /// Bytes of the data file.
    pub bytes: u64,
    /// Notes of the sink to itself, for when the dataset is sealed.
    pub notes: BTreeMap<String, String>,
    /// Counts in other units than samples (`tokens`), by name; summed over shards.
    pub counts: BTreeMap<String, u64>,
    /// Where the members are, for formats that keep each field's bytes together.
    pub members: Option<Members>,
}
