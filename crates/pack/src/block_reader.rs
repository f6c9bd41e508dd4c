//! Reads blocks of samples and applies the transforms. Knows no threads.

use crate::OnError;
use crate::block_buffer::BlockBuffer;
use crate::inputs::Inputs;
use crate::joined_inputs::JoinedInputs;
use crate::keyed_source;
use crate::latency_probe::LatencyProbe;
use crate::plan::LABEL;
use crate::sample_block::{SampleBlock, Skip, add_counts};
use crate::spans::{self, TARGET};
use arrow_array::builder::make_view;
use arrow_array::{Array, ArrayRef, BinaryViewArray, Int64Array, LargeBinaryArray, RecordBatch, StringViewArray};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use packhorse_core::{
    DataType, Error, Field, KEY, Kind, Limits, Options, Pool, Registry, Result, Rows, Schema, SchemaRef, Source,
    key_column,
};
use packhorse_dataset::{FieldSource, PlanEntry, SkipRecord};
use packhorse_transform::{Counts, Transform};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use tracing::field::Empty;

/// Arrow views have signed 32-bit offsets: a larger blob is a block of its own.
const VIEW_LIMIT: u64 = i32::MAX as u64;

/// Sources by format, and by the root whose fields they select.
type OpenedSources = BTreeMap<(String, Option<u32>), Arc<dyn Source>>;

/// Reads and transforms blocks of samples; shared by all reading and transforming threads.
pub(crate) struct BlockReader<'a> {
    pub(crate) inputs: Inputs<'a>,
    pub(crate) schema: SchemaRef,
    pub(crate) transforms: Vec<&'a dyn Transform>,
    /// The first transform of rows of tables, where those of all samples do not convert them to the plan's columns.
    pub(crate) of_rows: Option<&'a dyn Transform>,
    /// For each decoded column its encoded field.
    pub(crate) decoded_from: HashMap<String, String>,
    pub(crate) registry: &'a Registry,
    pub(crate) limits: Limits,
    /// The limits of decoded values.
    pub(crate) inner: Limits,
    /// Whether the limits are the plan's own, so that values over them may be skipped.
    pub(crate) limits_decide: bool,
    /// Options of table inputs, by format.
    pub(crate) sources: BTreeMap<String, Options>,
    /// The fields to read of table inputs below a root, where not all are.
    pub(crate) selected: HashMap<u32, Vec<String>>,
    /// The columns that views add.
    pub(crate) joined: JoinedInputs,
    /// The sources used so far: each keeps its caches from run to run.
    pub(crate) opened: Mutex<OpenedSources>,
    /// Whether the transforms do more than decode and encode.
    pub(crate) heavy: bool,
    pub(crate) on_error: OnError,
    /// Whether inputs are read again to see that they are whole, and which of their rows are bad.
    pub(crate) thorough: bool,
    /// The pool of the blocks' memory.
    pub(crate) memory: Pool,
    pub(crate) latency: LatencyProbe,
}

impl BlockReader<'_> {
    /// Whether other threads should read ahead: heavy transforms run in parallel, and storage with latency needs many
    /// reads in flight. Otherwise handing blocks over only costs.
    pub(crate) fn serves(&self) -> bool {
        self.heavy || self.latency.is_high()
    }

    /// Applies the transforms to a block.
    pub(crate) fn transformed(&self, mut block: SampleBlock) -> Result<SampleBlock> {
        // Blocks that wait for a thread when a request to stop comes are not worth their time.
        self.inputs.check_cancel()?;
        let span = tracing::debug_span!(target: TARGET, "transform", samples = block.samples, bytes = Empty).entered();
        for rows in std::mem::take(&mut block.rows) {
            self.transform(rows, &mut block)?;
        }
        if !span.is_disabled() {
            span.record("bytes", spans::bytes(&block.rows));
        }
        Ok(block)
    }

    /// The source of a table input.
    pub(crate) fn source(&self, piece: &FieldSource) -> Result<Arc<dyn Source>> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let (id, fields) = (&piece.field, self.selected.get(&piece.root));
        let name = (id.clone(), fields.map(|_| piece.root));
        if let Some(source) = opened.get(&name) {
            return Ok(source.clone());
        }
        let none = Options::new();
        let options = self.sources.get(id).unwrap_or(&none);
        let source = keyed_source::source(&**self.registry.get(id)?, options, self.inner)?;
        let source: Arc<dyn Source> = fields.and_then(|fields| source.narrowed(fields)).unwrap_or(source).into();
        opened.insert(name, source.clone());
        Ok(source)
    }

    /// Reads and transforms a block on this thread.
    pub(crate) fn block(&self, entries: Vec<PlanEntry>) -> Result<SampleBlock> {
        let block = self.read(entries)?;
        if self.transforms.is_empty() { Ok(block) } else { self.transformed(block) }
    }

    /// Transforms a batch. After bad content under `on-error=skip`, bisects it to skip only the bad samples.
    fn transform(&self, rows: Rows, block: &mut SampleBlock) -> Result<()> {
        let (mut counts, mut bad) = (Counts::new(), None);
        let mut apply =
            |rows, t: &&dyn Transform| t.apply_counted(rows, &mut counts).inspect_err(|_| bad = t.count_of_bad());
        match self.transforms.iter().try_fold(rows.clone(), &mut apply) {
            Ok(done) => {
                block.rows.push(done);
                add_counts(&mut block.counts, counts);
            }
            Err(e) if !self.skips(&e) => {
                let e = self.with_sample(e, &rows);
                let piece = self.guilty(&block.entries, &e);
                return Err(piece.into_iter().fold(e, |e, piece| e.in_input(self.inputs.path(piece).display())));
            }
            Err(e) if rows.num_rows() == 1 => {
                let bad = bad.filter(|_| e.kind() == Kind::Content).map(|name| (name.to_owned(), 1));
                add_counts(&mut block.counts, bad.into_iter().collect());
                let e = self.with_sample(e, &rows);
                let skip = self.skip(self.guilty(&block.entries, &e), e);
                block.skipped.push(skip);
            }
            Err(_) => {
                let (head, tail) = (rows.num_rows() / 2, rows.num_rows() - rows.num_rows() / 2);
                self.transform(rows.slice(0, head), block)?;
                self.transform(rows.slice(head, tail), block)?;
            }
        }
        Ok(())
    }

    /// The error of the first of `rows` that the transforms refuse, with its sample.
    fn with_sample(&self, error: Error, rows: &Rows) -> Error {
        if error.sample().is_some() || error.kind() != Kind::Content {
            return error;
        }
        let apply = |rows: &Rows| self.transforms.iter().try_fold(rows.clone(), |rows, t| t.apply(rows));
        let mut rows = rows.clone();
        while rows.num_rows() > 1 {
            let half = rows.num_rows() / 2;
            let first = rows.slice(0, half);
            rows = if apply(&first).is_err() { first } else { rows.slice(half, rows.num_rows() - half) };
        }
        let Some(found) = apply(&rows).err() else { return error };
        match key_column(&rows) {
            Ok(keys) if found.sample().is_none() && !keys.is_empty() => found.in_sample(keys.value(0)),
            _ => found,
        }
    }

    /// The input that a transform's error is about, by the sample and the field (or decoded column) that it names.
    fn guilty<'a>(&self, entries: &'a [PlanEntry], error: &Error) -> Option<&'a FieldSource> {
        let sample = error.sample()?;
        // The samples of a run have keys that start with the run's, or keys of their own.
        let entry = entries.iter().find(|entry| entry.key == sample || entry.run().is_some())?;
        let field = error.field().map(|name| self.decoded_from.get(name).map_or(name, String::as_str));
        let named = entry.fields.iter().find(|piece| Some(piece.field.as_str()) == field);
        named.or(entry.fields.first())
    }

    /// Reads a block without transforming it.
    pub(crate) fn read(&self, entries: Vec<PlanEntry>) -> Result<SampleBlock> {
        let bytes: u64 = entries.iter().map(PlanEntry::bytes).sum();
        let mut block = SampleBlock::of(entries.len() as u64, bytes, Vec::new());
        let _span = tracing::debug_span!(target: TARGET, "read", samples = block.samples, bytes).entered();
        let waits = LatencyProbe::waits();
        let mut space = BlockBuffer::of(&self.memory, self.alignment_padding(&entries), bytes);
        let mut read = Vec::with_capacity(entries.len());
        for entry in entries {
            self.inputs.check_cancel()?;
            let start = space.used();
            let done = self.read_sample(&entry, &mut space);
            match done {
                Ok(ends) => read.push((entry, start, ends)),
                Err((piece, e)) if self.skips(&e) => {
                    space.truncate(start);
                    block.skipped.push(self.skip(Some(piece), e));
                }
                Err((_, e)) => return Err(e),
            }
        }
        self.latency.record(LatencyProbe::waits().saturating_sub(waits), block.samples);
        let large = space.used() as u64 > VIEW_LIMIT;
        let buffer = space.into_buffer();
        if !read.is_empty() {
            let rows = self.batch(&read, &buffer, large)?;
            block.rows.push(self.with_joined(rows, read.iter().map(|(entry, ..)| (entry, 0)))?);
        }
        if !self.transforms.is_empty() {
            block.entries = read.into_iter().map(|(entry, ..)| entry).collect();
        }
        Ok(block)
    }

    /// The rows with the columns that views add to them. Of each row its entry, and its number in that.
    pub(crate) fn with_joined<'e>(&self, rows: Rows, of: impl Iterator<Item = (&'e PlanEntry, u64)>) -> Result<Rows> {
        if self.joined.is_empty() {
            return Ok(rows);
        }
        let place = |(entry, at): (&PlanEntry, u64)| {
            let root = entry.fields.first().map(|piece| piece.root);
            root.zip(entry.joined).map(|(root, row)| (root, row.saturating_add(at)))
        };
        self.joined.add(self.registry, &self.inputs, rows, &of.map(place).collect::<Vec<_>>())
    }

    /// Bytes to leave free before a single sample, for the first transform.
    fn alignment_padding(&self, entries: &[PlanEntry]) -> usize {
        match entries {
            [one] if one.fields.len() == 1 => {
                self.transforms.first().map_or(0, |transform| transform.alignment_padding())
            }
            _ => 0,
        }
    }

    /// Whether an error may be skipped: only if it follows from the input and the plan alone, so that bytes are
    /// reproducible.
    pub(crate) fn skips(&self, error: &Error) -> bool {
        let follows = error.kind() == Kind::Content || error.kind() == Kind::Limit && self.limits_decide;
        self.on_error == OnError::Skip && follows
    }

    /// A sample that is skipped for `error`, which is about the input `piece`.
    pub(crate) fn skip(&self, piece: Option<&FieldSource>, error: Error) -> Skip {
        // Receipts must not depend on where the roots lie.
        let record = SkipRecord { input: piece.map(|piece| piece.path.clone()), ..SkipRecord::of(&error) };
        let error = piece.into_iter().fold(error, |e, piece| e.in_input(self.inputs.path(piece).display()));
        Skip { record, error }
    }

    /// Whether the rest of a table input may be skipped: also for data that this build can't read.
    pub(crate) fn skips_rest(&self, error: &Error) -> bool {
        self.skips(error) || self.on_error == OnError::Skip && error.kind() == Kind::Unsupported
    }

    /// Appends the fields of one sample to `space`; returns the end of each.
    pub(crate) fn read_sample<'e>(
        &self,
        entry: &'e PlanEntry,
        space: &mut BlockBuffer,
    ) -> Result<Vec<usize>, (&'e FieldSource, Error)> {
        if let Err(e) = self.limits.blob(entry.bytes())
            && let Some(largest) = entry.fields.iter().max_by_key(|piece| piece.len())
        {
            return Err((largest, e.in_input(self.inputs.path(largest).display()).in_sample(&entry.key)));
        }
        let mut ends = Vec::with_capacity(entry.fields.len());
        for piece in &entry.fields {
            self.inputs.read(piece, space).map_err(|e| (piece, e.in_sample(&entry.key)))?;
            ends.push(space.used());
        }
        Ok(ends)
    }

    /// Rows of the samples read, as views into `buffer`; without views for a single `large` sample.
    pub(crate) fn batch(&self, read: &[(PlanEntry, usize, Vec<usize>)], buffer: &Buffer, large: bool) -> Result<Rows> {
        let mut fields = Vec::with_capacity(self.schema.fields().len());
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(fields.capacity());
        for field in self.schema.fields() {
            let column: ArrayRef = match (field.name().as_str(), field.data_type()) {
                (KEY, _) => Arc::new(StringViewArray::from_iter_values(read.iter().map(|(e, ..)| &e.key))),
                ("cls", t) if *t == LABEL => {
                    Arc::new(read.iter().map(|(e, ..)| e.cls.map(i64::from)).collect::<Int64Array>())
                }
                (_, DataType::Utf8View) => {
                    Arc::new(read.iter().map(|(e, ..)| e.json.as_ref().map(|j| j.get())).collect::<StringViewArray>())
                }
                (name, _) if large => Arc::new(large_column(name, read, buffer)?),
                (name, _) => Arc::new(view_column(name, read, buffer)?),
            };
            let nullable = field.is_nullable() || column.null_count() > 0;
            fields.push(Field::new(field.name(), column.data_type().clone(), nullable));
            columns.push(column);
        }
        let schema = if large { Arc::new(Schema::new(fields)) } else { self.schema.clone() };
        RecordBatch::try_new(schema, columns).map_err(|e| Error::bug(format!("rows do not fit their schema: {e}")))
    }
}

/// The range of the field `name` of a sample in the buffer.
fn range_of(name: &str, (entry, start, ends): &(PlanEntry, usize, Vec<usize>)) -> Option<(usize, usize)> {
    let named = |i: &usize| entry.fields.get(*i).is_some_and(|p| p.field == name);
    // A plan has the fields of a sample in the order of their names.
    let guess = entry.fields.partition_point(|p| *p.field < *name);
    let i = Some(guess).filter(named).or_else(|| match entry.fields.is_sorted_by(|a, b| a.field < b.field) {
        true => None,
        false => entry.fields.iter().position(|p| p.field == name),
    })?;
    let from = i.checked_sub(1).map_or(Some(*start), |before| ends.get(before).copied())?;
    Some((from, *ends.get(i)?))
}

fn view_column(name: &str, read: &[(PlanEntry, usize, Vec<usize>)], buffer: &Buffer) -> Result<BinaryViewArray> {
    let ranges: Vec<Option<(usize, usize)>> = read.iter().map(|sample| range_of(name, sample)).collect();
    let view = |range: &Option<(usize, usize)>| {
        range.map_or(0, |(from, to)| make_view(buffer.get(from..to).unwrap_or_default(), 0, from as u32))
    };
    let views: ScalarBuffer<u128> = ranges.iter().map(view).collect::<Vec<_>>().into();
    let nulls = NullBuffer::from_iter(ranges.iter().map(Option::is_some));
    let nulls = Some(nulls).filter(|nulls| nulls.null_count() > 0);
    BinaryViewArray::try_new(views, vec![buffer.clone()], nulls).map_err(|e| Error::bug(e.to_string()))
}

/// One sample whose bytes no view can address.
fn large_column(name: &str, read: &[(PlanEntry, usize, Vec<usize>)], buffer: &Buffer) -> Result<LargeBinaryArray> {
    let [sample] = read else { return Err(Error::bug("a large sample is not alone in its block")) };
    let (range, nulls) = match range_of(name, sample) {
        Some(range) => (range, None),
        None => ((0, 0), Some(NullBuffer::new_null(1))),
    };
    let offsets = OffsetBuffer::new(vec![0, (range.1 - range.0) as i64].into());
    let values = buffer.slice_with_length(range.0, range.1 - range.0);
    LargeBinaryArray::try_new(offsets, values, nulls).map_err(|e| Error::bug(e.to_string()))
}
