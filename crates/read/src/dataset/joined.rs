//! Columns that a view adds to the samples of a dataset: a table with one row for each of its samples.

use super::{Dataset, SampleRun};
use arrow_array::UInt32Array;
use arrow_select::take::take_record_batch;
use packhorse_core::{
    Code, Error, Field, FieldType, Input, KEY, Limits, MemoryInput, Options, Outlet, PatchableWriter, Registry, Result,
    Rows, Schema, SchemaRef, Table, canonical, counted,
};
use packhorse_dataset::{Digest, FieldRecord, FileRecord, JOINED, JOINED_FORMAT, JoinedRecord, SampleRows};
use std::io::Write;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// Rows that are read at a time.
const AT_ONCE: u64 = 4096;

/// Joined columns, and the samples of their rows.
pub(crate) struct Joined {
    samples: SampleRows,
    /// The columns, without keys.
    pub(crate) schema: SchemaRef,
    table: Box<dyn Table>,
    name: String,
    pub(crate) digest: Digest,
}

impl Joined {
    /// The file of `record`, whose rows are those of the distinct samples of `runs`.
    ///
    /// Errors: `Content` for a file of another length or number of rows.
    pub(crate) fn open(
        registry: &Registry,
        input: Arc<dyn Input>,
        record: &JoinedRecord,
        runs: &[SampleRun],
    ) -> Result<Self> {
        let name = input.name().to_owned();
        let damaged = |e: Error| e.hint("make the view again with `packhorse view`").in_input(&name);
        if input.len() != Some(record.file.bytes) {
            let message = format!("has not the {} that view.json records", counted(record.file.bytes, "byte"));
            return Err(damaged(Error::content(message)));
        }
        let source = registry.get(&record.format)?.source(&Options::new(), Limits::default())?;
        let table = source.open(input).map_err(damaged)?;
        let samples = SampleRows::of(runs);
        let info = table.info().map_err(damaged)?;
        if info.items != samples.len() {
            let message = format!("has {} for {}", counted(info.items, "row"), counted(samples.len(), "sample"));
            return Err(damaged(Error::content(message)));
        }
        let recorded = FieldRecord::schema(&record.columns)?;
        let is_recorded = |field: &Arc<Field>| {
            recorded.field_with_name(field.name()).is_ok_and(|own| own.data_type() == field.data_type())
        };
        // In the order of the file's columns.
        let schema = info.schema;
        if schema.fields().len() != recorded.fields().len() || !schema.fields().iter().all(is_recorded) {
            return Err(damaged(Error::content("has other columns than view.json records")));
        }
        Ok(Self { samples, schema, table, digest: record.file.blake3, name })
    }

    /// The row of sample `at` of a shard.
    pub(crate) fn row(&self, shard: u32, at: u64) -> Option<u64> {
        self.samples.row(shard, at)
    }

    /// Block `number` of the rows.
    pub(crate) fn block(&self, number: u64) -> Result<Vec<Rows>> {
        let from = number.saturating_mul(AT_ONCE);
        let rows = self.table.rows(from..from.saturating_add(AT_ONCE).min(self.samples.len()));
        rows.and_then(|rows| rows.collect()).map_err(|e| e.in_input(&self.name))
    }

    /// The block that has a row, and the row's position in it.
    pub(crate) fn place(row: u64) -> (u64, usize) {
        (row / AT_ONCE, (row % AT_ONCE) as usize)
    }

    /// These rows, which ascend; `columns` are positions in the schema. `last` keeps a block from call to call.
    fn take(&self, rows: &[u64], columns: &[usize], last: &mut Option<(u64, Vec<Rows>)>) -> Result<Vec<Rows>> {
        let mut taken = Vec::new();
        for same in rows.chunk_by(|a, b| Self::place(*a).0 == Self::place(*b).0) {
            let Some((number, _)) = same.first().map(|row| Self::place(*row)) else { continue };
            let block = match last.take() {
                Some((known, block)) if known == number => block,
                _ => self.block(number)?,
            };
            let (mut start, mut rest) = (0, same);
            for piece in &block {
                let end = start + piece.num_rows();
                let (here, later) = rest.split_at(rest.partition_point(|row| Self::place(*row).1 < end));
                let places: UInt32Array = here.iter().map(|row| (Self::place(*row).1 - start) as u32).collect();
                let names: Vec<&str> = columns.iter().map(|at| self.schema.field(*at).name().as_str()).collect();
                let found: Option<Vec<usize>> = names.iter().map(|name| piece.schema().index_of(name).ok()).collect();
                let found = found.ok_or_else(|| Error::content("lacks a column").in_input(&self.name))?;
                let piece = piece.project(&found).and_then(|piece| take_record_batch(&piece, &places));
                taken.push(piece.map_err(|e| Error::bug(e.to_string()))?);
                (start, rest) = (end, later);
            }
            *last = Some((number, block));
        }
        Ok(taken)
    }
}

/// The file of joined columns of `schema`, in memory.
fn encoded(
    registry: &Registry,
    schema: &SchemaRef,
    rows: impl Iterator<Item = Result<Rows>>,
) -> Result<(JoinedRecord, Vec<u8>)> {
    let sink = registry.get(JOINED_FORMAT)?.sink(&Options::new())?;
    sink.accept(schema)?;
    let mut file = FileInMemory::default();
    let mut writer = sink.create(schema, &mut file)?;
    let mut count = 0;
    for rows in rows {
        let rows = rows?;
        count += rows.num_rows() as u64;
        writer.push(&rows)?;
    }
    writer.finish()?;
    let bytes = std::mem::take(&mut *file.0.lock().unwrap_or_else(PoisonError::into_inner));
    let file = FileRecord { name: JOINED.to_owned(), bytes: bytes.len() as u64, blake3: Digest::of(&bytes) };
    let columns = FieldRecord::of(schema);
    Ok((JoinedRecord { file, format: JOINED_FORMAT.to_owned(), rows: count, columns }, bytes))
}

/// A file that is written to memory.
#[derive(Default)]
struct FileInMemory(Arc<Mutex<Vec<u8>>>);

impl Outlet for FileInMemory {
    fn stream(&mut self, _: &str) -> Result<Box<dyn Write + Send>> {
        Ok(Box::new(Self(Arc::clone(&self.0))))
    }

    fn patchable(&mut self, _: &str) -> Result<Box<dyn PatchableWriter>> {
        Err(Error::unsupported("this output takes only streams"))
    }
}

impl Write for FileInMemory {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Dataset {
    /// The samples of this dataset in the order of its shards, each once.
    pub fn distinct(&self) -> Result<Self> {
        self.with_runs(SampleRows::of(&self.runs).runs().to_vec())
    }

    /// The same samples with the columns of `rows`, which has one row for each sample of [`distinct`](Self::distinct), in
    /// their order. Readers see them as fields. They are kept in memory, compressed, until a
    /// [view](Self::write_view) is written, which stores them in its folder.
    ///
    /// Errors (kind `Config`): a name that the dataset has already, another number of rows; `Unsupported` for a type that is
    /// not a number, a Boolean or text.
    pub fn with_columns(&self, schema: &SchemaRef, rows: impl Iterator<Item = Result<Rows>>) -> Result<Self> {
        for field in schema.fields() {
            if self.schema.column_with_name(field.name()).is_some() || field.name() == KEY {
                let message = format!("the dataset has a field {} already", field.name());
                let hint = "give the column another name, or select the fields of the dataset without that one";
                return Err(Error::config(message).with_code(Code::ColumnsDiffer).in_field(field.name()).hint(hint));
            }
            if !matches!(FieldType::of(field), Ok(FieldType::Scalar(_) | FieldType::Text)) {
                let message = format!("column {} is of type {}", field.name(), field.data_type());
                return Err(Error::unsupported(message).hint("join columns of numbers, Booleans or text"));
            }
        }
        // Text may be of any of Arrow's types.
        let delivered = |field: &Arc<Field>| {
            Ok(FieldType::of(field)?.field(field.name(), field.is_nullable()).with_metadata(field.metadata().clone()))
        };
        let fields = schema.fields().iter().map(delivered).collect::<Result<Vec<_>>>()?;
        let schema = &SchemaRef::new(Schema::new(fields));
        let rows = rows.map(|rows| {
            let rows = rows?;
            let columns = schema.fields().iter().map(|field| {
                let lacks = || Error::config("is in the schema, and the rows lack it").with_code(Code::ColumnsDiffer);
                let column = rows.column_by_name(field.name()).ok_or_else(lacks);
                column
                    .and_then(|column| canonical(&FieldType::of(field)?, column))
                    .map_err(|e| e.in_field(field.name()))
            });
            let columns = columns.collect::<Result<Vec<_>>>()?;
            Rows::try_new(Arc::clone(schema), columns).map_err(|e| Error::content(e.to_string()))
        });
        let (record, bytes) = encoded(&self.registry, schema, rows)?;
        let samples = SampleRows::of(&self.runs).len();
        if record.rows != samples {
            let (rows, samples) = (counted(record.rows, "row"), counted(samples, "sample"));
            return Err(Error::config(format!("{rows} were given for {samples}: each needs one, in their order")));
        }
        let input = Arc::new(MemoryInput::new(JOINED, bytes));
        self.join(Joined::open(&self.registry, input, &record, &self.runs)?)
    }

    /// The same samples with the columns of `joined`.
    pub(super) fn join(&self, joined: Joined) -> Result<Self> {
        // Views store the fields that a column was joined in the place of.
        let is_other = |field: &&Arc<Field>| joined.schema.column_with_name(field.name()).is_none();
        let fields =
            self.schema.fields().iter().filter(is_other).chain(joined.schema.fields()).cloned().collect::<Vec<_>>();
        let schema = Arc::new(Schema::new(fields));
        let joined = self.joined.iter().cloned().chain([Arc::new(joined)]).collect();
        Ok(Self { schema, joined, ..self.clone() })
    }

    /// The last joined table that has the column `name`, and the column's position in it.
    pub(crate) fn joined_column(&self, name: &str) -> Option<(usize, usize)> {
        let mut found = self.joined.iter().enumerate().rev();
        found.find_map(|(table, joined)| joined.schema.index_of(name).ok().map(|column| (table, column)))
    }

    /// The joined columns.
    pub(crate) fn joined(&self) -> &[Arc<Joined>] {
        &self.joined
    }

    /// The file of the joined columns of these samples; `None` without such fields.
    pub(super) fn joined_file(&self) -> Result<Option<(JoinedRecord, Vec<u8>)>> {
        let fields = self.schema.fields().iter().filter(|field| self.joined_column(field.name()).is_some());
        let schema: SchemaRef = Arc::new(Schema::new(fields.cloned().collect::<Vec<_>>()));
        if schema.fields().is_empty() {
            return Ok(None);
        }
        let samples = SampleRows::of(&self.runs);
        let mut last = vec![None; self.joined.len()];
        let pieces = samples.runs().iter().flat_map(|run| cut(run.first..run.first + run.len, run.shard));
        let mut pieces = pieces.peekable();
        let rows = std::iter::from_fn(|| {
            let mut places: Vec<(u32, u64)> = Vec::new();
            while let Some((shard, range)) =
                pieces.next_if(|(_, range)| places.len() as u64 + range.end - range.start <= AT_ONCE)
            {
                places.extend(range.map(|at| (shard, at)));
            }
            (!places.is_empty()).then(|| self.joined_rows(&schema, &places, &mut last))
        });
        encoded(&self.registry, &schema, rows).map(Some)
    }

    /// The joined columns of samples in ascending order.
    fn joined_rows(
        &self,
        schema: &SchemaRef,
        places: &[(u32, u64)],
        last: &mut [Option<(u64, Vec<Rows>)>],
    ) -> Result<Rows> {
        let mut columns = vec![None; schema.fields().len()];
        for (table, (joined, last)) in self.joined.iter().zip(last).enumerate() {
            let wanted: Vec<(usize, usize)> = schema
                .fields()
                .iter()
                .enumerate()
                .filter_map(|(at, field)| {
                    self.joined_column(field.name()).filter(|(of, _)| *of == table).map(|(_, column)| (at, column))
                })
                .collect();
            let rows = places.iter().map(|(shard, at)| joined.row(*shard, *at)).collect::<Option<Vec<u64>>>();
            let rows = rows.ok_or_else(|| Error::bug("a sample without a joined row"))?;
            let positions: Vec<usize> = wanted.iter().map(|(_, column)| *column).collect();
            let taken = joined.take(&rows, &positions, last)?;
            for (i, (at, _)) in wanted.iter().enumerate() {
                let arrays: Vec<&dyn arrow_array::Array> =
                    taken.iter().filter_map(|rows| rows.columns().get(i)).map(|array| &**array).collect();
                if let Some(column) = columns.get_mut(*at) {
                    *column = Some(arrow_select::concat::concat(&arrays).map_err(|e| Error::bug(e.to_string()))?);
                }
            }
        }
        let columns: Option<Vec<_>> = columns.into_iter().collect();
        let columns = columns.ok_or_else(|| Error::bug("a joined column is gone"))?;
        Rows::try_new(Arc::clone(schema), columns).map_err(|e| Error::bug(e.to_string()))
    }
}

/// Parts of a range of samples that are read at once.
fn cut(range: Range<u64>, shard: u32) -> impl Iterator<Item = (u32, Range<u64>)> {
    let starts = (range.start..range.end).step_by(AT_ONCE as usize);
    starts.map(move |from| (shard, from..range.end.min(from + AT_ONCE)))
}
