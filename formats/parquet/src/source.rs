//! Parquet files, anybody's, as samples.

use crate::contain::{arrow_error, contained, parquet_error};
use crate::decode;
use crate::fetch::Parts;
use crate::footer::Footer;
use crate::index::pages;
use crate::options::Choice;
use crate::pages::{Fault, Group};
use crate::table::Table;
use crate::trial;
use crate::wave::{self, Waves, block_rows};
use crate::window::{Window, Windows};
use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::{TimestampMicrosecondType, TimestampSecondType};
use packhorse_core::{Blocks, Error, FileStat, Input, Limits, Omission, Pool, Probe, Result, Rows, Schema, Source};
use parquet::arrow::arrow_reader::ParquetRecordBatchReader;
use rayon::prelude::*;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

pub(crate) struct ParquetSource {
    pub(crate) choice: Choice,
    pub(crate) limits: Limits,
    /// The footer read last, for those who read a file piece by piece.
    pub(crate) last: Mutex<Option<(String, FileStat, Arc<Footer>)>>,
    pub(crate) buffers: Pool,
}

impl ParquetSource {
    /// The footer of `input`, with its pages; the one read last where nothing changed.
    fn footer(&self, input: &dyn Input) -> Result<Arc<Footer>> {
        let Some(stat) = input.stat()? else { return self.load(input, true).map(Arc::new) };
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((name, known, footer)) = &*last
            && name == input.name()
            && *known == stat
        {
            return Ok(Arc::clone(footer));
        }
        let footer = Arc::new(self.load(input, true)?);
        *last = Some((input.name().to_owned(), stat, Arc::clone(&footer)));
        Ok(footer)
    }

    fn load(&self, input: &dyn Input, pages: bool) -> Result<Footer> {
        let load = |faulty: &[Omission]| contained(|| Footer::load(input, &self.choice, faulty, self.limits, pages));
        let footer = load(&[]).map_err(|e| e.in_input(input.name()))?;
        if !self.choice.tries() {
            return Ok(footer);
        }
        match trial::faulty(&footer.mapping, input, &|name| self.alone(name))?.as_slice() {
            [] => Ok(footer),
            faulty => load(faulty).map_err(|e| e.in_input(input.name())),
        }
    }

    /// A source of nothing but the field `name`.
    fn alone(&self, name: &str) -> Box<dyn Source> {
        let choice = self.choice.alone(name);
        Box::new(Self { choice, limits: self.limits, last: Mutex::default(), buffers: Pool::default() })
    }
}

impl Source for ParquetSource {
    fn probe(&self, input: &dyn Input) -> Result<Option<Probe>> {
        let footer = self.load(input, false)?;
        let groups = 0..footer.starts.len().saturating_sub(1);
        let bytes = groups.map(|group| footer.bytes(group)).fold(0, u64::saturating_add);
        Ok(Some(Probe {
            items: footer.rows(),
            schema: footer.mapping.schema,
            bytes,
            counted: true,
            omitted: footer.mapping.omitted,
        }))
    }

    fn rows<'a>(&'a self, input: &'a dyn Input, items: Range<u64>) -> Result<Blocks<'a>> {
        let footer = self.footer(input)?;
        let windows = Windows::new(Arc::clone(&footer), items, self.limits);
        let reading = Reading { input, footer, limits: self.limits, buffers: &self.buffers };
        Ok(Box::new(wave::Blocks::new(WavesOf { reading, windows, long: None })))
    }

    fn table<'a>(
        &'a self,
        input: &'a dyn Input,
        choose: &mut dyn FnMut(&Schema) -> Result<Vec<usize>>,
    ) -> Result<Option<Blocks<'a>>> {
        let table = contained(|| Table::open(input, self.limits, choose));
        Ok(Some(Box::new(table.map_err(|e| e.in_input(input.name()))?)))
    }
}

/// A file that is being read.
struct Reading<'a> {
    input: &'a dyn Input,
    footer: Arc<Footer>,
    limits: Limits,
    buffers: &'a Pool,
}

impl Reading<'_> {
    /// Fetches what `window` needs, and starts to decode it.
    fn open(&self, window: &Window) -> Result<Long> {
        let footer = &self.footer;
        let parts = Parts::read(self.input, footer.len, window.ranges(footer)?, self.limits, self.buffers)?;
        let whole = window.is_whole();
        let known = |leaf: usize| if whole { None } else { pages(&footer.metadata, window.group, leaf) };
        let (metadata, limits) = (footer.metadata.as_ref(), self.limits);
        let fault = Fault::default();
        let group = Group { parts, metadata, group: window.group, pages: &known, limits, fault: fault.clone() };
        let batch = block_rows(window.bytes, window.len());
        let read = |levels| group.reader(levels, batch, (!whole).then(|| window.selection())).map_err(parquet_error);
        let seconds = footer.seconds.as_ref().map(read).transpose()?;
        Ok(Long { reader: read(&footer.levels)?, seconds, left: window.len(), fault })
    }

    /// The next rows of what was opened.
    fn next(&self, long: &mut Long) -> Result<Option<Rows>> {
        let Some(batch) = long.batch()? else { return Ok(None) };
        decode::rows(&self.footer.mapping, &self.footer.roots, batch.columns(), batch.num_rows()).map(Some)
    }

    /// All rows of `window`.
    fn decode(&self, window: &Window) -> Result<Vec<Rows>> {
        contained(|| {
            let mut long = self.open(window)?;
            let mut blocks = Vec::new();
            while let Some(rows) = self.next(&mut long)? {
                blocks.push(rows);
            }
            Ok(blocks)
        })
    }
}

/// A window that is decoded block by block.
struct Long {
    reader: ParquetRecordBatchReader,
    /// INT96 timestamps in seconds, to see which don't fit microseconds.
    seconds: Option<ParquetRecordBatchReader>,
    /// Rows still to come.
    left: u64,
    fault: Fault,
}

impl Long {
    /// The next columns, as the file has them.
    fn batch(&mut self) -> Result<Option<RecordBatch>> {
        let found = |e| self.fault.take().unwrap_or_else(|| arrow_error(e, "Parquet"));
        let Some(batch) = self.reader.next().transpose().map_err(found)? else {
            return match self.left {
                0 => Ok(None),
                left => Err(Error::content(format!("a row group lacks {left} of its rows; write the file anew"))),
            };
        };
        let left = self.left.checked_sub(batch.num_rows() as u64);
        self.left = left.ok_or_else(|| Error::content("a row group has more rows than it says; write it anew"))?;
        if let Some(seconds) = &mut self.seconds {
            let seconds = seconds.next().transpose().map_err(found)?;
            fits_microseconds(&batch, &seconds.ok_or_else(|| Error::content("a row group lacks rows"))?)?;
        }
        Ok(Some(batch))
    }
}

/// Refuses timestamps that wrapped around: in seconds, every INT96 timestamp fits.
fn fits_microseconds(batch: &RecordBatch, seconds: &RecordBatch) -> Result<()> {
    for (field, exact) in seconds.schema_ref().fields().iter().zip(seconds.columns()) {
        let micros = batch.column_by_name(field.name()).and_then(|c| c.as_primitive_opt::<TimestampMicrosecondType>());
        let (Some(micros), Some(exact)) = (micros, exact.as_primitive_opt::<TimestampSecondType>()) else {
            return Err(Error::bug("INT96 timestamps were read as something else"));
        };
        let same = |(a, b): (Option<i64>, Option<i64>)| a.map(|a| a.div_euclid(1_000_000)) == b;
        if micros.len() != exact.len() || !micros.iter().zip(exact).all(same) {
            let text = "of type INT96 holds a timestamp beyond the 292,000 years that microseconds count";
            return Err(Error::unsupported(format!("column {} {text}; leave the column out", field.name())));
        }
    }
    Ok(())
}

struct WavesOf<'a> {
    reading: Reading<'a>,
    windows: Windows,
    long: Option<Long>,
}

impl Waves for WavesOf<'_> {
    fn name(&self) -> &str {
        self.reading.input.name()
    }

    fn wave(&mut self) -> Result<Option<Vec<Rows>>> {
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
                self.long = Some(contained(|| self.reading.open(window))?);
                Vec::new()
            }
            [window] => self.reading.decode(window)?,
            windows => {
                let blocks: Result<Vec<_>> = windows.par_iter().map(|w| self.reading.decode(w)).collect();
                blocks?.into_iter().flatten().collect()
            }
        }))
    }
}
