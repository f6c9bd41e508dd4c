//! Samples by their keys. Keys are read from member indexes, or with the rows of typed formats.

use crate::{Dataset, ReadOptions, Reader, SampleBlock, Wants};
use packhorse_core::{Code, Error, Field, FieldType, Result, counted, unescape};
use std::collections::HashMap;
use std::sync::Arc;

/// Samples whose keys are read at a time, and about the bytes that they may have in tables.
const AT_ONCE: u64 = 1 << 16;
const BYTES: u64 = 64 << 20;
/// Rows that are read before their size in memory is known.
const FIRST: u64 = 8;

/// Missing keys that an error names.
const SHOWN: usize = 3;

impl Dataset {
    /// Calls `each` with the number and the key of every sample, in order. A sample without a key of its own is named
    /// after its shard and its position there.
    ///
    /// Errors: a shard that can't be opened or read; the first error of `each`.
    pub fn each_key(&self, mut each: impl FnMut(u64, &str) -> Result<()>) -> Result<()> {
        let samples = self.len();
        let alone = self.keys_alone()?;
        // Tars have an index of their keys; rows of tables are read whole.
        let is_table = alone.shards().iter().any(|shard| shard.is_table());
        let (stored, mut at_once) = (alone.mean(), if is_table { FIRST } else { AT_ONCE });
        let reader = Reader::new(alone, Vec::new(), ReadOptions::in_order());
        let (mut wants, mut block) = (Wants::default(), SampleBlock::default());
        let mut from = 0;
        while from < samples {
            let to = samples.min(from.saturating_add(at_once));
            reader.read(from..to, &mut wants, &mut block)?;
            for (row, number) in (from..to).enumerate() {
                if let Some(fault) = block.fault(row) {
                    return Err(fault.clone());
                }
                each(number, block.key(row).unwrap_or_default())?;
            }
            from = to;
            if is_table {
                at_once = (BYTES / stored.max(block.mean())).clamp(1, AT_ONCE);
            }
        }
        Ok(())
    }

    /// The same samples with little more than their keys: with a field of numbers, since a file without keys needs one.
    pub(crate) fn keys_alone(&self) -> Result<Self> {
        let is_small = |field: &&Arc<Field>| {
            matches!(FieldType::of(field), Ok(FieldType::Scalar(_))) && self.joined_column(field.name()).is_none()
        };
        match self.schema().fields().iter().find(is_small) {
            Some(field) => self.select(&[field.name()]),
            None => Ok(self.clone()),
        }
    }

    /// The numbers of the samples with these keys, ascending, and the keys that no sample has. A key may also be given
    /// before it was escaped (`my photo` for `my%20photo`).
    ///
    /// Errors: those of [`each_key`](Self::each_key).
    pub fn find_keys<'k>(&self, keys: &'k [String]) -> Result<(Vec<u64>, Vec<&'k str>)> {
        let mut wanted: HashMap<&str, bool> = keys.iter().map(|key| (key.as_str(), false)).collect();
        let mut numbers = Vec::new();
        self.each_key(|number, key| {
            let plain = if key.contains('%') && !wanted.contains_key(key) { unescape(key) } else { key.into() };
            if let Some(found) = wanted.get_mut(&*plain) {
                *found = true;
                numbers.push(number);
            }
            Ok(())
        })?;
        let missing = keys.iter().map(String::as_str).filter(|key| wanted.get(key) == Some(&false));
        Ok((numbers, missing.collect()))
    }

    /// The samples with these keys, in the order of the dataset.
    ///
    /// Errors: those of [`numbers_of_keys`](Self::numbers_of_keys).
    pub fn with_keys(&self, keys: &[String]) -> Result<Self> {
        self.subset(self.numbers_of_keys(keys)?)
    }

    /// The numbers of the samples with these keys, ascending.
    ///
    /// Errors: a key that no sample has (kind `Config`; the message counts them and names some); those of
    /// [`each_key`](Self::each_key).
    pub fn numbers_of_keys(&self, keys: &[String]) -> Result<Vec<u64>> {
        let (numbers, missing) = self.find_keys(keys)?;
        let Some(first) = missing.first() else { return Ok(numbers) };
        let shown: Vec<String> = missing.iter().take(SHOWN).map(|key| format!("\"{key}\"")).collect();
        let more = if missing.len() > SHOWN { ", …" } else { "" };
        let (lost, all) = (missing.len(), counted(keys.len() as u64, "key"));
        let are = if lost == 1 { "is" } else { "are" };
        let message = format!("{lost} of {all} {are} not in the dataset: {}{more}", shown.join(", "));
        let error = Error::config(message).with_code(Code::BadRequest).in_sample(first);
        Err(error.hint("`packhorse head` shows keys; samples are chosen by their places too (`numbers`)"))
    }
}
