//! The source: rows of Parquet files.

use crate::column_reader::ColumnReader;
use crate::contain::{arrow_error, contained, parquet_error};
use crate::decode;
use crate::fetch::FetchedRanges;
use crate::footer::{ColumnGroup, Footer};
use crate::options::ColumnSelection;
use crate::pages::{LoadedRowGroup, PageFault};
use crate::row_window::{RowWindow, RowWindows};
use crate::trial;
use crate::wave::{self, block_rows};
use arrow_array::cast::AsArray;
use arrow_array::types::{TimestampMicrosecondType, TimestampSecondType};
use arrow_array::{ArrayRef, RecordBatch};
use packhorse_core::{
    Blocks, Error, Input, Limits, Omission, Pool, Result, Rows, Schema, Source, Table, TableInfo, blocks,
};
use parquet::arrow::FieldLevels;
use parquet::arrow::arrow_reader::ParquetRecordBatchReader;
use rayon::prelude::*;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Clone)]
pub(crate) struct ParquetSource {
    pub(crate) choice: ColumnSelection,
    pub(crate) limits: Limits,
    pub(crate) buffers: Pool,
}

impl ParquetSource {
    fn footer(&self, input: &dyn Input) -> Result<Footer> {
        let load = |faulty: &[Omission]| contained(|| Footer::load(input, &self.choice, faulty, self.limits));
        let footer = load(&[]).map_err(|e| e.in_input(input.name()))?;
        if !self.choice.tries() {
            return Ok(footer);
        }
        match trial::faulty(&footer.mapping, input, &|name| self.alone(name))?.as_slice() {
            [] => Ok(footer),
            faulty => load(faulty).map_err(|e| e.in_input(input.name())),
        }
    }

    /// A source of only the field `name`.
    fn alone(&self, name: &str) -> Box<dyn Source> {
        Box::new(Self { choice: self.choice.alone(name), limits: self.limits, buffers: Pool::default() })
    }
}

impl Source for ParquetSource {
    fn open<'a>(&self, input: Arc<dyn Input + 'a>) -> Result<Box<dyn Table + 'a>> {
        let footer = self.footer(&*input)?;
        Ok(Box::new(Open {
            input,
            footer: Mutex::new(OpenFooter { footer: Arc::new(footer), paged: false, located: BTreeSet::new() }),
            limits: self.limits,
            buffers: self.buffers.clone(),
        }))
    }

    fn narrowed(&self, names: &[String]) -> Option<Box<dyn Source>> {
        Some(Box::new(Self { choice: self.choice.narrowed(names), ..self.clone() }))
    }

    fn columns<'a>(
        &'a self,
        input: &'a dyn Input,
        choose: &mut dyn FnMut(&Schema) -> Result<Vec<usize>>,
    ) -> Result<Option<Blocks<'a>>> {
        let columns = contained(|| ColumnReader::open(input, self.limits, choose));
        let mut columns = columns.map_err(|e| e.in_input(input.name()))?;
        Ok(Some(blocks(input.name(), move || contained(|| columns.block()))))
    }
}

/// An open file.
struct Open<'a> {
    input: Arc<dyn Input + 'a>,
    footer: Mutex<OpenFooter>,
    limits: Limits,
    buffers: Pool,
}

struct OpenFooter {
    footer: Arc<Footer>,
    /// Whether it has its page locations, which are read with the first rows.
    paged: bool,
    /// The row groups whose page locations were looked for in their pages.
    located: BTreeSet<usize>,
}

impl Open<'_> {
    fn footer(&self) -> MutexGuard<'_, OpenFooter> {
        self.footer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The footer with page locations, also of row groups of which only some of the rows `items` are read. They are read
    /// without tasks on other threads, so the lock can't be waited for by the thread that holds it.
    fn paged(&self, items: &Range<u64>) -> Result<Arc<Footer>> {
        let mut open = self.footer();
        if !open.paged {
            let footer = contained(|| open.footer.with_pages(&*self.input, self.limits));
            open.footer = Arc::new(footer.map_err(|e| e.in_input(self.input.name()))?);
            open.paged = true;
        }
        for edge in [items.start, items.end.saturating_sub(1)] {
            let group = open.footer.starts.partition_point(|start| *start <= edge).saturating_sub(1);
            let rows = open.footer.starts.get(group).copied().zip(open.footer.starts.get(group + 1).copied());
            let Some((start, end)) = rows else { continue };
            if (items.start > start || items.end < end) && !open.located.contains(&group) {
                let located = contained(|| open.footer.with_located(group, &*self.input));
                let located = located.map_err(|e| e.in_input(self.input.name()))?;
                located.into_iter().for_each(|footer| open.footer = Arc::new(footer));
                open.located.insert(group);
            }
        }
        Ok(Arc::clone(&open.footer))
    }
}

impl Table for Open<'_> {
    fn info(&self) -> Result<TableInfo> {
        let footer = Arc::clone(&self.footer().footer);
        let groups = 0..footer.starts.len().saturating_sub(1);
        let bytes = groups.map(|group| footer.bytes(group)).fold(0, u64::saturating_add);
        let (schema, omitted) = (footer.mapping.schema.clone(), footer.mapping.omitted.clone());
        Ok(TableInfo { schema, items: footer.rows(), bytes, counted: true, omitted })
    }

    fn decoded_bytes(&self) -> Option<u64> {
        let footer = Arc::clone(&self.footer().footer);
        let groups = 0..footer.starts.len().saturating_sub(1);
        Some(groups.map(|group| footer.decoded(group)).fold(0, u64::saturating_add))
    }

    fn rows(&self, items: Range<u64>) -> Result<Blocks<'_>> {
        let (footer, input) = (self.paged(&items)?, &*self.input);
        let windows = RowWindows::new(Arc::clone(&footer), items, self.limits);
        let reading = Reading { input, footer, limits: self.limits, buffers: &self.buffers };
        let mut waves = Waves { reading, windows, long: None };
        Ok(wave::blocks(input.name(), move || waves.next()))
    }
}

/// What reading the windows of an open file takes.
struct Reading<'a> {
    input: &'a dyn Input,
    footer: Arc<Footer>,
    limits: Limits,
    buffers: &'a Pool,
}

impl Reading<'_> {
    /// Fetches the bytes of `window`, and decodes them with `decode`, which opens groups of columns.
    fn open<T>(
        &self,
        window: &RowWindow,
        decode: impl FnOnce(&dyn Fn(&ColumnGroup) -> Result<GroupReader>) -> Result<T>,
    ) -> Result<T> {
        let footer = &self.footer;
        let parts = FetchedRanges::read(self.input, footer.len, window.ranges(footer)?, self.limits, self.buffers)?;
        let whole = window.is_whole();
        let known = |leaf: usize| if whole { None } else { footer.pages(window.group, leaf) };
        let (metadata, limits) = (footer.metadata.as_ref(), self.limits);
        let fault = PageFault::default();
        let group =
            LoadedRowGroup { parts, metadata, group: window.group, pages: &known, limits, fault: fault.clone() };
        let batch = block_rows(window.bytes, window.len());
        let read = |levels: &FieldLevels| {
            group.reader(levels, batch, (!whole).then(|| window.selection())).map_err(parquet_error)
        };
        decode(&|columns| {
            let seconds = columns.seconds.as_ref().map(read).transpose()?;
            Ok(GroupReader { reader: read(&columns.levels)?, seconds, left: window.len(), fault: fault.clone() })
        })
    }

    /// The next rows of a window.
    fn next(&self, groups: &mut [GroupReader]) -> Result<Option<Rows>> {
        let mut block = ColumnBlock::default();
        for (number, group) in groups.iter_mut().enumerate() {
            match group.batch()? {
                Some(batch) => block.add(number, &batch)?,
                None if number == 0 => return Ok(None),
                None => return Err(uneven()),
            }
        }
        self.rows(&block).map(Some)
    }

    /// All rows of `window`, one group of columns after the other.
    fn decode(&self, window: &RowWindow) -> Result<Vec<Rows>> {
        contained(|| {
            let blocks = self.open(window, |open| {
                let mut blocks: Vec<ColumnBlock> = Vec::new();
                for (number, columns) in self.footer.groups.iter().enumerate() {
                    let mut reader = open(columns)?;
                    if number == 0 {
                        while let Some(batch) = reader.batch()? {
                            let mut block = ColumnBlock::default();
                            block.add(number, &batch)?;
                            blocks.push(block);
                        }
                        continue;
                    }
                    for block in &mut blocks {
                        block.add(number, &reader.batch()?.ok_or_else(uneven)?)?;
                    }
                }
                Ok(blocks)
            })?;
            blocks.into_iter().map(|block| self.rows(&block)).collect()
        })
    }

    fn rows(&self, block: &ColumnBlock) -> Result<Rows> {
        decode::rows(&self.footer.mapping, &self.footer.roots, &block.columns, block.rows)
    }
}

/// Columns of some rows, group after group.
#[derive(Default)]
struct ColumnBlock {
    columns: Vec<ArrayRef>,
    rows: usize,
}

impl ColumnBlock {
    /// Adds the columns of the group `number`.
    fn add(&mut self, number: usize, batch: &RecordBatch) -> Result<()> {
        if number == 0 {
            self.rows = batch.num_rows();
        } else if self.rows != batch.num_rows() {
            return Err(uneven());
        }
        self.columns.extend_from_slice(batch.columns());
        Ok(())
    }
}

fn uneven() -> Error {
    Error::content("a row group has columns of different lengths; write the file again")
}

/// A group of columns of a window being decoded block by block.
struct GroupReader {
    reader: ParquetRecordBatchReader,
    /// INT96 timestamps in seconds, to detect overflow of microseconds.
    seconds: Option<ParquetRecordBatchReader>,
    /// Rows not yet decoded.
    left: u64,
    fault: PageFault,
}

impl GroupReader {
    /// The next batch of the columns.
    fn batch(&mut self) -> Result<Option<RecordBatch>> {
        let found = |e| self.fault.take().unwrap_or_else(|| arrow_error(e, "Parquet"));
        let Some(batch) = self.reader.next().transpose().map_err(found)? else {
            return match self.left {
                0 => Ok(None),
                left => Err(Error::content(format!("a row group lacks {left} of its rows; write the file again"))),
            };
        };
        let left = self.left.checked_sub(batch.num_rows() as u64);
        self.left =
            left.ok_or_else(|| Error::content("a row group has more rows than it declares; write the file again"))?;
        if let Some(seconds) = &mut self.seconds {
            let seconds = seconds.next().transpose().map_err(found)?;
            fits_microseconds(&batch, &seconds.ok_or_else(|| Error::content("a row group lacks rows"))?)?;
        }
        Ok(Some(batch))
    }
}

/// Refuses timestamps that overflowed, by comparison with seconds, which every INT96 timestamp fits.
fn fits_microseconds(batch: &RecordBatch, seconds: &RecordBatch) -> Result<()> {
    for (field, exact) in seconds.schema_ref().fields().iter().zip(seconds.columns()) {
        let micros = batch.column_by_name(field.name()).and_then(|c| c.as_primitive_opt::<TimestampMicrosecondType>());
        let (Some(micros), Some(exact)) = (micros, exact.as_primitive_opt::<TimestampSecondType>()) else {
            return Err(Error::bug("INT96 timestamps have another type"));
        };
        let same = |(a, b): (Option<i64>, Option<i64>)| a.map(|a| a.div_euclid(1_000_000)) == b;
        if micros.len() != exact.len() || !micros.iter().zip(exact).all(same) {
            let text = "of type INT96 holds a timestamp beyond the 292,000 years that microseconds count";
            return Err(Error::unsupported(format!("column {} {text}; leave the column out", field.name())));
        }
    }
    Ok(())
}

struct Waves<'a> {
    reading: Reading<'a>,
    windows: RowWindows,
    /// The groups of columns of a long window.
    long: Option<Vec<GroupReader>>,
}

impl Waves<'_> {
    /// The blocks of the next wave.
    fn next(&mut self) -> Result<Option<Vec<Rows>>> {
        if let Some(long) = &mut self.long {
            if let Some(rows) = contained(|| self.reading.next(long))? {
                return Ok(Some(vec![rows]));
            }
            self.long = None;
        }
        let wave = self.windows.wave();
        Ok(Some(match wave.as_slice() {
            [] => return Ok(None),
            [window] if window.is_long(&self.reading.limits) => {
                let all = |open: &dyn Fn(&ColumnGroup) -> _| self.reading.footer.groups.iter().map(open).collect();
                self.long = Some(contained(|| self.reading.open(window, all))?);
                Vec::new()
            }
            [window] => self.reading.decode(window)?,
            windows => {
                // Of several errors the first in the file.
                let blocks: Vec<_> = windows.par_iter().map(|w| self.reading.decode(w)).collect();
                let blocks: Result<Vec<_>> = blocks.into_iter().collect();
                blocks?.into_iter().flatten().collect()
            }
        }))
    }
}
