//! Reads the columns of a Parquet file by Parquet's own types, without samples and without the embedded Arrow schema: a
//! duration is its integer and a category its text.

use crate::contain::{arrow_error, parquet_error};
use crate::fetch::{FetchedRanges, length};
use crate::footer::{chunk, levels, metadata, readable, with_int96};
use crate::pages::{LoadedRowGroup, PageFault};
use arrow_schema::TimeUnit;
use packhorse_core::{Error, Input, Limits, Pool, Result, Rows, Schema};
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader};
use parquet::arrow::{FieldLevels, ProjectionMask};
use parquet::file::metadata::ParquetMetaData;
use std::ops::Range;
use std::sync::Arc;

/// Rows in memory at a time, besides the compressed bytes of one row group.
const BATCH: usize = 1024;

/// Reads the chosen columns of a file, row group by row group.
pub(crate) struct ColumnReader<'a> {
    input: &'a dyn Input,
    len: u64,
    limits: Limits,
    metadata: Arc<ParquetMetaData>,
    levels: FieldLevels,
    /// The chosen leaf columns, in Parquet's numbering.
    leaves: Vec<usize>,
    /// The row groups not yet read.
    groups: Range<usize>,
    reader: Option<ParquetRecordBatchReader>,
    fault: PageFault,
    buffers: Pool,
}

impl<'a> ColumnReader<'a> {
    /// Opens the columns of `input` that `choose` selects from its schema.
    pub(crate) fn open(
        input: &'a dyn Input,
        limits: Limits,
        choose: &mut dyn FnMut(&Schema) -> Result<Vec<usize>>,
    ) -> Result<Self> {
        let len = length(input)?;
        let (metadata, _) = metadata(input, len, limits)?;
        let metadata = Arc::new(metadata);
        let plain = || ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        let shown = ArrowReaderMetadata::try_new(Arc::clone(&metadata), plain()).map_err(parquet_error)?;
        let roots = choose(shown.schema())?;
        for root in &roots {
            if let (Some(why), Some(field)) = (readable(&metadata, *root), shown.schema().fields().get(*root)) {
                let text = format!("the column {:?} {why}; choose the columns to keep without it", field.name());
                return Err(Error::unsupported(text));
            }
        }
        let mask = ProjectionMask::roots(shown.parquet_schema(), roots);
        let count = shown.parquet_schema().num_columns();
        let leaves: Vec<usize> = (0..count).filter(|leaf| mask.leaf_included(*leaf)).collect();
        let groups = 0..metadata.num_row_groups();
        let schema = with_int96(&shown, TimeUnit::Microsecond);
        let levels = levels(&metadata, schema, &leaves)?;
        let (fault, buffers) = (PageFault::default(), Pool::default());
        Ok(Self { input, len, limits, metadata, levels, leaves, groups, reader: None, fault, buffers })
    }

    /// Starts to read a row group.
    fn group(&self, group: usize) -> Result<ParquetRecordBatchReader> {
        let range = |leaf: &usize| chunk(&self.metadata, group, *leaf, self.len);
        let ranges = self.leaves.iter().map(range).collect::<Result<_>>()?;
        let parts = FetchedRanges::read(self.input, self.len, ranges, self.limits, &self.buffers)?;
        let (limits, fault) = (self.limits, self.fault.clone());
        let group = LoadedRowGroup { parts, metadata: &self.metadata, group, pages: &|_| None, limits, fault };
        group.reader(&self.levels, BATCH, None).map_err(parquet_error)
    }

    /// The next block.
    pub(crate) fn block(&mut self) -> Result<Option<Rows>> {
        loop {
            if let Some(rows) = self.reader.as_mut().and_then(Iterator::next) {
                let found = |e| self.fault.take().unwrap_or_else(|| arrow_error(e, "Parquet"));
                return rows.map(Some).map_err(found);
            }
            let Some(group) = self.groups.next() else { return Ok(None) };
            self.reader = Some(self.group(group)?);
        }
    }
}
