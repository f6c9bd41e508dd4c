//! Reads runs, consecutive rows of a table input, block by block.

use crate::bad_rows::BadRows;
use crate::block_reader::BlockReader;
use crate::on_error::OnError;
use crate::ordered_transformer::OrderedTransformer;
use crate::plan::LABEL;
use crate::sample_block::SampleBlock;
use crate::spans::blocks;
use crate::steps::assembled;
use arrow_array::builder::StringViewBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::ByteViewType;
use arrow_array::{ArrayRef, GenericByteViewArray, Int64Array, StringViewArray, UInt64Array};
use arrow_select::take::take_record_batch;
use packhorse_core::{
    Blocks, Error, Field, FieldType, KEY, Kind, Result, Rows, Table, compacted, counted, key_column, rows_bytes,
};
use packhorse_dataset::{FieldSource, PlanEntry};
use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Arc;

impl BlockReader<'_> {
    /// Reads the rows of `entries`, which are [near](follows) each other, and hands them on in order, block by block.
    pub(crate) fn run(&self, entries: &[PlanEntry], mut out: OrderedTransformer<'_>) -> Result<()> {
        let first = entries.first().and_then(PlanEntry::run);
        let Some((piece, _)) = first else { return Err(Error::bug("the entry is not a run")) };
        let opened = self.inputs.table(piece)?;
        let source = self.source(piece)?;
        // Of a damaged stream, what comes before the damage may be altered.
        let checks = self.thorough && self.on_error == OnError::Skip;
        let whole = if checks { self.inputs.check_stream(piece) } else { Ok(()) };
        let done = match whole.and_then(|()| opened.table(&*source)) {
            Ok(table) => self.near(entries, &*table, &mut out),
            Err(e) => entries.iter().try_for_each(|entry| self.blocks(entry, None, Err(e.clone()), &mut out)),
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

    /// Reads several entries at once, with the rows between them. An entry that can't be read so is read alone.
    fn near(&self, entries: &[PlanEntry], table: &dyn Table, out: &mut OrderedTransformer<'_>) -> Result<()> {
        let runs: Option<Vec<Range<u64>>> = entries.iter().map(|entry| entry.run().map(|(_, items)| items)).collect();
        let runs = runs.ok_or_else(|| Error::bug("an entry is not a run"))?;
        let (mut next, mut rest) = (0, Vec::new());
        if let [first, .., last] = &runs[..] {
            let mut at = first.start;
            rest = runs.clone();
            let mut whole = true;
            for rows in shown(table.rows(first.start..last.end), entries) {
                let Ok(rows) = rows else {
                    whole = false;
                    break;
                };
                self.inputs.check_cancel()?;
                let (end, mut of) = (at + rows.num_rows() as u64, Vec::new());
                while let (Some(wanted), Some(entry)) = (rest.get_mut(next), entries.get(next)) {
                    let (from, to) = (wanted.start.max(at), wanted.end.min(end));
                    if from >= to {
                        break;
                    }
                    of.extend((from..to).map(|item| (entry, item)));
                    wanted.start = to;
                    next += usize::from(to == wanted.end);
                }
                self.part(&taken(&rows, of.iter().map(|(_, item)| item - at))?, of.iter().copied(), out)?;
                at = end;
            }
            if whole && at != last.end {
                return Err(gave(at - first.start, last.end - first.start));
            }
        }
        for (at, entry) in entries.iter().enumerate().skip(next) {
            let entry = rest.get(at).map_or(entry.clone(), |left| entry.from_item(left.start));
            let items = entry.run().map_or(0..0, |(_, items)| items);
            self.blocks(&entry, Some(table), table.rows(items), out)?;
        }
        Ok(())
    }

    /// Hands on rows, given the entry and the item of each; the entries [follow](follows) each other.
    fn part<'e>(
        &self,
        rows: &Rows,
        of: impl Iterator<Item = (&'e PlanEntry, u64)> + Clone,
        out: &mut OrderedTransformer<'_>,
    ) -> Result<()> {
        let Some((entry, _)) = of.clone().next() else { return Ok(()) };
        let Some((piece, _)) = entry.run() else { return Err(Error::bug("the entry is not a run")) };
        let samples = rows.num_rows() as u64;
        let rows = named(&compact(&self.chosen(rows, piece)?)?, entry, of.clone().map(|(_, item)| item))?;
        let first = |entry: &PlanEntry| entry.run().map_or(0, |(_, items)| items.start);
        let rows = self.with_joined(rows, of.map(|(entry, item)| (entry, item.saturating_sub(first(entry)))))?;
        let rows = self.conformed(rows)?;
        out.push(self, SampleBlock::of_run(rows, samples, share(piece, samples), entry))
    }

    /// The rows with the columns of the plan, if no later step gives them these.
    fn conformed(&self, rows: Rows) -> Result<Rows> {
        match self.of_rows {
            Some(step) => step.apply(rows),
            None => Ok(rows),
        }
    }

    /// The rows without fields that are not selected.
    fn chosen(&self, rows: &Rows, piece: &FieldSource) -> Result<Rows> {
        let Some(fields) = self.selected.get(&piece.root) else { return Ok(rows.clone()) };
        let schema = rows.schema();
        let is_kept = |name: &String| name == KEY || fields.contains(name);
        let kept = schema.fields().iter().enumerate().filter(|(_, field)| is_kept(field.name()));
        let kept: Vec<usize> = kept.map(|(at, _)| at).collect();
        rows.project(&kept).map_err(|e| Error::bug(e.to_string()))
    }

    fn blocks<'t>(
        &self,
        entry: &PlanEntry,
        table: Option<&'t dyn Table>,
        found: Result<Blocks<'t>>,
        out: &mut OrderedTransformer<'_>,
    ) -> Result<()> {
        let found = shown(found, std::slice::from_ref(entry));
        match entry.run().is_some_and(|(piece, _)| piece.by_position) {
            true => self.placed(entry, found, out),
            false => self.numbered(entry, table, found, out),
        }
    }

    /// Rows whose number is planned. Bad ones are skipped, as far as reading parts of the run again finds which these are.
    fn numbered<'t>(
        &self,
        entry: &PlanEntry,
        table: Option<&'t dyn Table>,
        mut blocks: Blocks<'t>,
        out: &mut OrderedTransformer<'_>,
    ) -> Result<()> {
        let Some((piece, items)) = entry.run() else { return Err(Error::bug("the entry is not a run")) };
        let (mut at, mut bad) = (items.start, BadRows::new(items.end));
        loop {
            match self.sound(entry, &mut at, blocks, out)? {
                None if at == bad.until => bad.passed(at),
                None => return Err(gave(at - items.start, items.end - items.start)),
                Some(error) => {
                    // Without another way in, the start of the next good sample is unknown.
                    let again = table.filter(|_| self.thorough && self.skips_rest(&error));
                    let lost = match again {
                        Some(table) if !self.inputs.is_streamed(piece) => {
                            bad.failed(at, table, &|e| self.skips_rest(e))?
                        }
                        // A stream is read once more, up to the row that the error names.
                        Some(table) => {
                            if let Some(row) = error.row().filter(|row| at < *row && *row < items.end) {
                                let sound = shown(table.rows(at..row), std::slice::from_ref(entry));
                                self.sound(entry, &mut at, sound, out)?;
                            }
                            items.end - at
                        }
                        None => items.end - at,
                    };
                    if lost > 0 {
                        self.lost(entry, at..at + lost, error, out)?;
                        at += lost;
                    }
                }
            }
            let Some(table) = table.filter(|_| at < items.end) else { return Ok(()) };
            blocks = shown(table.rows(at..bad.until), std::slice::from_ref(entry));
        }
    }

    /// Hands on the rows from item `at` to the first error that may be skipped, which is returned.
    fn sound(
        &self,
        entry: &PlanEntry,
        at: &mut u64,
        blocks: Blocks<'_>,
        out: &mut OrderedTransformer<'_>,
    ) -> Result<Option<Error>> {
        for rows in blocks {
            self.inputs.check_cancel()?;
            match rows {
                Ok(rows) => {
                    let end = *at + rows.num_rows() as u64;
                    self.part(&rows, (*at..end).map(|item| (entry, item)), out)?;
                    *at = end;
                }
                Err(e) if self.skips_rest(&e) => return Ok(Some(e)),
                Err(e) => return Err(e),
            }
        }
        Ok(None)
    }

    /// Skips these items for `error`.
    fn lost(&self, entry: &PlanEntry, items: Range<u64>, error: Error, out: &mut OrderedTransformer<'_>) -> Result<()> {
        let Some((piece, _)) = entry.run() else { return Err(Error::bug("the entry is not a run")) };
        let (samples, first) = (items.end - items.start, row_key(&entry.key, items.start));
        let mut block = SampleBlock::of(samples, share(piece, samples), Vec::new());
        let (reason, error) = match samples {
            1 => (error.text().into_owned(), error),
            _ => {
                let rest = format!("so samples {} to {} are left out", items.start, items.end - 1);
                (format!("{} ({rest})", error.text()), error.remark(rest))
            }
        };
        let mut skip = self.skip(Some(piece), error.in_sample(&first));
        (skip.record.reason, skip.record.samples, skip.record.sample) = (reason, samples, Some(first));
        block.skipped.push(skip);
        out.push(self, block)
    }

    /// Rows of a range of positions, whose number is not planned. Bad ones are skipped one by one.
    fn placed(&self, entry: &PlanEntry, blocks: Blocks<'_>, out: &mut OrderedTransformer<'_>) -> Result<()> {
        let Some((piece, _)) = entry.run() else { return Err(Error::bug("the entry is not a run")) };
        let mut left = piece.len();
        for rows in blocks {
            self.inputs.check_cancel()?;
            match rows {
                Ok(rows) => {
                    let bytes = (rows_bytes(&rows) as u64).min(left);
                    left -= bytes;
                    let samples = rows.num_rows() as u64;
                    let rows = self.conformed(placed(&rows, entry)?)?;
                    out.push(self, SampleBlock::of_run(rows, samples, bytes, entry))?;
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

/// Blocks of runs of one input, whose reading is shown. An input that can't be opened fails at its first row.
fn shown<'t>(found: Result<Blocks<'t>>, entries: &[PlanEntry]) -> Blocks<'t> {
    let piece = entries.first().and_then(|entry| entry.fields.first());
    let name = piece.map_or_else(String::new, |piece| piece.path.to_path().display().to_string());
    blocks(found.unwrap_or_else(|e| Box::new(std::iter::once(Err(e)))), name)
}

/// The most bytes of rows between two runs that are read together: about what decoding a block again costs.
const NEAR: u64 = 1 << 20;

/// Whether the run `next` is so near behind the run `last` of the same input that both are read together.
pub(crate) fn follows(last: &PlanEntry, next: &PlanEntry) -> bool {
    let (Some((a, before)), Some((b, after))) = (last.run(), next.run()) else { return false };
    let counted = !a.by_position && !b.by_position && a.seek_point.is_none() && b.seek_point.is_none();
    fn json(entry: &PlanEntry) -> Option<&str> {
        entry.json.as_ref().map(|json| json.get())
    }
    let same = (a.root, &a.path, &a.field) == (b.root, &b.path, &b.field);
    let same = same && (&last.key, last.cls, json(last)) == (&next.key, next.cls, json(next));
    let row = a.len() / (before.end - before.start).max(1);
    let near = |gap: u64| gap.saturating_mul(row.max(1)) <= NEAR;
    counted && same && after.start.checked_sub(before.end).is_some_and(near)
}

fn share(piece: &FieldSource, samples: u64) -> u64 {
    let (from, to, bytes) = piece.items.unwrap_or((0, 1, 0));
    (bytes as f64 * samples as f64 / (to - from).max(1) as f64) as u64
}

/// The key of row `item` of the table with this key.
pub(crate) fn row_key(table: &str, item: u64) -> String {
    // Each row has one: it is not grown piece by piece.
    let mut key = String::with_capacity(table.len() + 21);
    key.push_str(table);
    // Writing to a String can't fail.
    let _ = write!(key, "/{item:09}");
    key
}

/// These rows of a block.
fn taken(rows: &Rows, at: impl ExactSizeIterator<Item = u64>) -> Result<Rows> {
    if at.len() == rows.num_rows() {
        return Ok(rows.clone());
    }
    let at: UInt64Array = at.collect();
    take_record_batch(rows, &at).map_err(|e| Error::bug(e.to_string()))
}

/// Bytes of a column's values that are not worth a copy.
const SMALL: usize = 64 << 10;

/// The rows without the memory of others: a view of a value keeps all values that it was read with, and a sink may gather
/// a few rows of many blocks.
fn compact(rows: &Rows) -> Result<Rows> {
    fn is_sparse<T: ByteViewType + ?Sized>(column: &GenericByteViewArray<T>) -> bool {
        let held: usize = column.data_buffers().iter().map(|buffer| buffer.len()).sum();
        held > SMALL && held / 4 > column.total_buffer_bytes_used()
    }
    let sparse = |column: &ArrayRef| {
        column.as_string_view_opt().is_some_and(is_sparse) || column.as_binary_view_opt().is_some_and(is_sparse)
    };
    if !rows.columns().iter().any(sparse) {
        return Ok(rows.clone());
    }
    let own = |column: &ArrayRef| if sparse(column) { compacted(column) } else { Ok(Arc::clone(column)) };
    let columns = rows.columns().iter().map(own).collect::<Result<_>>()?;
    Rows::try_new(rows.schema(), columns).map_err(|e| Error::bug(e.to_string()))
}

/// The rows with the input's own keys, or keys made of their numbers.
fn named(rows: &Rows, entry: &PlanEntry, numbers: impl Iterator<Item = u64>) -> Result<Rows> {
    match key_column(rows) {
        Ok(keys) => {
            let keys = keys.clone();
            completed(rows, keys, entry)
        }
        Err(_) => completed(rows, StringViewArray::from_iter_values(numbers.map(|i| row_key(&entry.key, i))), entry),
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

/// The error of an input that gives other samples than were planned.
fn gave(found: u64, planned: u64) -> Error {
    let message = format!("gave {found} of the {} planned; plan again into a new folder", counted(planned, "sample"));
    Error::new(Kind::Changed, message)
}
