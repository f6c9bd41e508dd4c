//! Reads runs, consecutive rows of a table input, block by block.

use crate::block_reader::BlockReader;
use crate::ordered_transformer::OrderedTransformer;
use crate::plan::LABEL;
use crate::sample_block::SampleBlock;
use crate::steps::assembled;
use arrow_array::builder::StringViewBuilder;
use arrow_array::{ArrayRef, Int64Array, StringViewArray};
use packhorse_core::{Blocks, Error, Field, FieldType, KEY, Kind, Result, Rows, counted, key_column};
use packhorse_dataset::{FieldSource, PlanEntry};
use std::sync::Arc;

impl BlockReader<'_> {
    /// Reads the rows of `entry` and hands them on in order, block by block.
    pub(crate) fn run(&self, entry: &PlanEntry, mut out: OrderedTransformer<'_>) -> Result<()> {
        let Some((piece, items)) = entry.run() else { return Err(Error::bug("the entry is not a run")) };
        let opened = self.inputs.table(piece)?;
        let source = self.source(&piece.field)?;
        let done = match opened.table(&*source) {
            Ok(table) => self.blocks(entry, table.rows(items), &mut out),
            Err(e) => self.blocks(entry, Err(e), &mut out),
        };
        let path = self.inputs.path(piece);
        let done = done.and_then(|()| self.inputs.check(&opened, piece));
        if done.as_ref().err().is_none_or(|e| e.kind() == Kind::Content) {
            self.inputs.leave(opened, piece);
        }
        done.and_then(|()| out.finish()).map_err(|e| match e.input() {
            None => e.in_input(path.display()),
            Some(_) => e,
        })
    }

    fn blocks(&self, entry: &PlanEntry, blocks: Result<Blocks<'_>>, out: &mut OrderedTransformer<'_>) -> Result<()> {
        // An input that can't be opened fails at its first row.
        let blocks = blocks.unwrap_or_else(|e| Box::new(std::iter::once(Err(e))));
        match entry.run().is_some_and(|(piece, _)| piece.by_position) {
            true => self.placed(entry, blocks, out),
            false => self.numbered(entry, blocks, out),
        }
    }

    /// Rows whose number is planned. After a fault the rest of the run is skipped.
    fn numbered(&self, entry: &PlanEntry, blocks: Blocks<'_>, out: &mut OrderedTransformer<'_>) -> Result<()> {
        let Some((piece, items)) = entry.run() else { return Err(Error::bug("the entry is not a run")) };
        let mut at = items.start;
        for rows in blocks {
            self.inputs.check_cancel()?;
            match rows {
                Ok(rows) => {
                    let samples = rows.num_rows() as u64;
                    let rows = named(&rows, entry, at)?;
                    at += samples;
                    out.push(self, SampleBlock::of_run(rows, samples, share(piece, samples), entry))?;
                }
                Err(e) if self.skips_rest(&e) => {
                    // The start of the next good sample is unknown.
                    let lost = items.end - at;
                    let mut block = SampleBlock::of(lost, share(piece, lost), Vec::new());
                    let rest = format!("so samples {at} to {} are left out", items.end - 1);
                    let reason = format!("{} ({rest})", e.text());
                    let mut skip = self.skip(Some(piece), e.remark(rest).in_sample(key(entry, at)));
                    (skip.record.reason, skip.record.samples) = (reason, lost);
                    skip.record.sample = Some(key(entry, at));
                    block.skipped.push(skip);
                    return out.push(self, block);
                }
                Err(e) => return Err(e),
            }
        }
        let changed =
            || format!("gave {at} of the {} planned; plan again into a new folder", counted(items.end, "sample"));
        if at == items.end { Ok(()) } else { Err(Error::new(Kind::Changed, changed())) }
    }

    /// Rows of a range of positions, whose number is not planned. Bad ones are skipped one by one.
    fn placed(&self, entry: &PlanEntry, blocks: Blocks<'_>, out: &mut OrderedTransformer<'_>) -> Result<()> {
        let Some((piece, _)) = entry.run() else { return Err(Error::bug("the entry is not a run")) };
        let mut left = piece.len();
        for rows in blocks {
            self.inputs.check_cancel()?;
            match rows {
                Ok(rows) => {
                    let bytes = (rows.get_array_memory_size() as u64).min(left);
                    left -= bytes;
                    let samples = rows.num_rows() as u64;
                    out.push(self, SampleBlock::of_run(placed(&rows, entry)?, samples, bytes, entry))?;
                }
                Err(e) if self.skips(&e) => {
                    let mut block = SampleBlock::of(1, 0, Vec::new());
                    block.skipped.push(self.skip(Some(piece), e));
                    out.push(self, block)?;
                }
                Err(e) => return Err(e),
            }
        }
        // Bytes that are in no row, such as the names of JSON fields.
        out.push(self, SampleBlock::of(0, left, Vec::new()))
    }
}

fn share(piece: &FieldSource, samples: u64) -> u64 {
    let (from, to, bytes) = piece.items.unwrap_or((0, 1, 0));
    (bytes as f64 * samples as f64 / (to - from).max(1) as f64) as u64
}

/// The key of row `item` of a run.
fn key(entry: &PlanEntry, item: u64) -> String {
    format!("{}/{item:09}", entry.key)
}

/// The rows with the input's own keys, or keys made of their numbers.
fn named(rows: &Rows, entry: &PlanEntry, first: u64) -> Result<Rows> {
    match key_column(rows) {
        Ok(keys) => {
            let keys = keys.clone();
            completed(rows, keys, entry)
        }
        Err(_) => {
            let numbers = first..first + rows.num_rows() as u64;
            completed(rows, StringViewArray::from_iter_values(numbers.map(|i| key(entry, i))), entry)
        }
    }
}

/// The rows with keys made of the input's name and their positions.
fn placed(rows: &Rows, entry: &PlanEntry) -> Result<Rows> {
    let mut name = String::with_capacity(entry.key.len() + 32);
    let mut keys = StringViewBuilder::with_capacity(rows.num_rows());
    for place in key_column(rows)?.iter() {
        name.clear();
        [&entry.key, "/", place.unwrap_or_default()].iter().for_each(|part| name.push_str(part));
        keys.append_value(&name);
    }
    completed(rows, keys.finish(), entry)
}

/// The rows with these keys, and with the label and the metadata of the run.
fn completed(rows: &Rows, keys: StringViewArray, entry: &PlanEntry) -> Result<Rows> {
    let n = rows.num_rows();
    let schema = rows.schema();
    let fields = schema.fields().iter().map(|f| f.as_ref().clone()).zip(rows.columns().to_vec());
    let mut columns: Vec<(Field, ArrayRef)> = fields.filter(|(field, _)| field.name() != KEY).collect();
    columns.push((FieldType::Text.field(KEY, false), Arc::new(keys)));
    if let Some(label) = entry.cls {
        columns.push((Field::new("cls", LABEL, false), Arc::new(Int64Array::from_value(i64::from(label), n))));
    }
    if let Some(json) = &entry.json {
        let rows = StringViewArray::from_iter_values(std::iter::repeat_n(json.get(), n));
        columns.push((FieldType::Text.field("json", false), Arc::new(rows)));
    }
    assembled(columns)
}
