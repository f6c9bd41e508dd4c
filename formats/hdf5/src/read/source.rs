//! The source: opens files and reads their rows in blocks.

use super::attribute::text_attribute;
use super::bands::Identity;
use super::dataset::AHEAD;
use super::file::{H5File, Shared};
use super::foreign::{FixedText, ForeignFields};
use super::group_attributes::is_outer;
use super::group_table::GroupTable;
use super::group_walk::{GroupOptions, GroupSamples, TypeOptions, group_samples};
use super::netcdf;
use super::object_header::ObjectHeader;
use super::values::{FieldReader, for_rows};
use super::{foreign, ours};
use crate::layout::{self, METADATA};
use arrow_array::{RecordBatch, RecordBatchOptions};
use packhorse_core::{
    Blocks, Error, Expansion, Field, Input, KEY, Limits, Omission, Options, Result, Rows, Schema, SchemaRef, Source,
    Table, TableInfo, blocks,
};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// The approximate bytes and the most rows of a block.
const BLOCK_BYTES: u64 = 8 << 20;
const BLOCK_ROWS: u64 = 1 << 16;
/// A field's values in the global heap, which is not compressed, have at most this multiple of the file's size.
const HEAP_TIMES: u64 = 100;
/// The most values of samples that are groups of which the places are kept, unless one file has more.
const KEPT_VALUES: usize = 2_000_000;
/// Blocks of more rows than this have a multiple of it.
const EVEN: u64 = 8;

const TEXTS: [(&str, FixedText); 3] =
    [("utf-8", FixedText::Utf8), ("bytes", FixedText::Bytes), ("blob", FixedText::Blob)];

#[derive(Clone)]
pub(crate) struct Hdf5Source {
    /// Globs of the datasets to read; empty for all.
    datasets: Vec<String>,
    /// Globs of the groups that are samples; empty where rows are.
    groups: Vec<String>,
    /// Globs of the attributes of those samples that are fields, and of those of groups around them.
    attributes: (Vec<String>, Vec<String>),
    /// The only fields to read beside keys, if set.
    fields: Option<Vec<String>>,
    reading: netcdf::NetcdfOptions,
    text: FixedText,
    expansion: Expansion,
    limits: Limits,
    shared: Shared,
    found: Arc<FoundGroups>,
}

/// The samples of the files that were opened last. A shuffled plan opens a file for each run of rows.
#[derive(Default)]
struct FoundGroups(Mutex<Vec<(Arc<Identity>, Arc<GroupSamples>)>>);

impl FoundGroups {
    /// Those of `file`, which `find` finds if they are not kept.
    fn of(&self, file: &H5File<'_>, find: impl FnOnce() -> Result<GroupSamples>) -> Result<Arc<GroupSamples>> {
        let kept = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, found)) = kept().iter().find(|(identity, _)| *identity == file.identity) {
            return Ok(Arc::clone(found));
        }
        let found = Arc::new(find()?);
        let mut kept = kept();
        kept.push((Arc::clone(&file.identity), Arc::clone(&found)));
        let mut values: usize = kept.iter().map(|(_, found)| found.values.len()).sum();
        while values > KEPT_VALUES && kept.len() > 1 {
            values -= kept.remove(0).1.values.len();
        }
        Ok(found)
    }
}

impl Hdf5Source {
    pub(crate) fn new(options: &Options, limits: Limits) -> Result<Self> {
        options.only(&["datasets", "groups", "attributes", "dimension", "scale", "times", "text", "expansion"])?;
        let globs = |name| {
            let globs = options.get(name).unwrap_or_default().split(',').map(str::trim);
            globs.filter(|glob| !glob.is_empty()).map(str::to_owned).collect::<Vec<_>>()
        };
        if let (Some(_), Some(name)) = (
            options.get("groups"),
            ["dimension", "scale", "times"].into_iter().find(|name| options.get(name).is_some()),
        ) {
            return Err(Options::refuse(name, "is about rows, and with `groups` each group is a sample"));
        }
        if let (Some(_), None) = (options.get("attributes"), options.get("groups")) {
            return Err(Options::refuse("attributes", "is about samples that are groups: give `groups` too"));
        }
        Ok(Self {
            datasets: globs("datasets"),
            groups: globs("groups"),
            attributes: globs("attributes").into_iter().partition(|glob| !is_outer(glob)),
            fields: None,
            reading: netcdf::NetcdfOptions {
                dimension: options.get("dimension").map(str::to_owned),
                unpack: options.choose("scale", &[("keep", false), ("apply", true)])?,
                times: options.choose("times", &[("keep", false), ("decode", true)])?,
            },
            text: options.choose("text", &TEXTS)?,
            expansion: Expansion::parse(options)?,
            limits,
            shared: Shared::default(),
            found: Arc::default(),
        })
    }

    fn parse<'a>(&self, input: Arc<dyn Input + 'a>) -> Result<OpenFile<'a>> {
        let file = H5File::open(input, self.limits, &self.shared)?;
        let root = ObjectHeader::read(&file, file.root)?;
        let ours = ours::is_ours(&file, &root)?;
        let metadata = if ours { text_attribute(&file, &root, METADATA)? } else { None };
        let ForeignFields { readers: mut fields, samples, omitted } = match ours {
            true => {
                let (readers, samples) = ours::fields(&file, &root, &self.datasets)?;
                ForeignFields { readers, samples, omitted: Vec::new() }
            }
            false => foreign::fields(&file, &root, &self.datasets, &self.reading, self.text)?,
        };
        if let Some(names) = &self.fields {
            fields.retain(|field| field.field.name() == KEY || names.contains(field.field.name()));
        }
        let mut bytes = fields.iter().map(FieldReader::bytes).fold(0, u64::saturating_add);
        self.expansion.check(samples, bytes, file.len(), "datasets")?;
        if fields.iter().any(FieldReader::is_in_heap) {
            // Only reading tells their lengths.
            bytes = bytes.max(file.len());
        }
        let share = AHEAD.min(self.limits.ahead) / (fields.len() as u64).max(1);
        let heap = self.expansion.most(file.len(), HEAP_TIMES);
        for field in &mut fields {
            field.values.limit_ahead(share);
            field.heap_left = heap;
        }
        let columns: Vec<Field> = fields.iter().map(|field| field.field.clone()).collect();
        let metadata = metadata.map(|text| layout::parse_metadata(&text)).unwrap_or_default();
        let schema = Arc::new(Schema::new(columns).with_metadata(metadata));
        Ok(OpenFile { file, fields, samples, bytes, schema, omitted })
    }

    /// Opens a file whose groups are samples.
    fn parse_groups<'a>(&self, input: Arc<dyn Input + 'a>) -> Result<GroupTable<'a>> {
        let file = H5File::open(input, self.limits, &self.shared)?;
        let root = ObjectHeader::read(&file, file.root)?;
        let types = TypeOptions { text: self.text, pytables: foreign::is_of_pytables(&file, &root)? };
        let (own, outer) = &self.attributes;
        let options = GroupOptions { groups: &self.groups, datasets: &self.datasets, attributes: (own, outer), types };
        if ours::is_ours(&file, &root)? {
            return Err(Error::config("`groups` is for files of other programs: the samples of a shard are its rows"));
        }
        let found = self.found.of(&file, || group_samples(&file, &root, &options))?;
        let (samples, heap) = (found.samples.len() as u64, self.expansion.most(file.len(), HEAP_TIMES));
        self.expansion.check(samples, found.bytes(), file.len(), "datasets")?;
        GroupTable::new(file, found, types, self.fields.as_deref(), heap)
    }
}

impl Source for Hdf5Source {
    fn narrowed(&self, names: &[String]) -> Option<Box<dyn Source>> {
        Some(Box::new(Self { fields: Some(names.to_vec()), ..self.clone() }))
    }

    fn open<'a>(&self, input: Arc<dyn Input + 'a>) -> Result<Box<dyn Table + 'a>> {
        let name = Arc::clone(&input);
        let opened = match self.groups.is_empty() {
            true => self.parse(input).map(|file| Box::new(file) as Box<dyn Table + 'a>),
            false => self.parse_groups(input).map(|file| Box::new(file) as Box<dyn Table + 'a>),
        };
        opened.map_err(|e| e.in_input(name.name()))
    }
}

/// A file with its fields.
struct OpenFile<'a> {
    file: H5File<'a>,
    fields: Vec<FieldReader>,
    samples: u64,
    /// Approximate bytes of all samples.
    bytes: u64,
    schema: SchemaRef,
    omitted: Vec<Omission>,
}

impl Table for OpenFile<'_> {
    fn info(&self) -> Result<TableInfo> {
        let located = self.fields.iter().try_for_each(|field| field.locate(&self.file));
        located.map_err(|e| e.in_input(self.file.name()))?;
        let (schema, omitted) = (Arc::clone(&self.schema), self.omitted.clone());
        Ok(TableInfo { schema, items: self.samples, bytes: self.bytes, counted: true, omitted })
    }

    fn rows(&self, items: Range<u64>) -> Result<Blocks<'_>> {
        let items = items.start..items.end.min(self.samples);
        let each: u64 = self.fields.iter().map(|field| field.row_bytes(self.samples)).sum();
        let step = (BLOCK_BYTES / each.max(1)).clamp(1, BLOCK_ROWS);
        // If each row is a chunk, all threads get the same number.
        let step = if step > EVEN { step.next_multiple_of(EVEN) } else { step };
        let mut reader = RowReader { open: self, fields: for_rows(&self.fields, &items), items, step };
        Ok(blocks(self.file.name(), move || reader.block()))
    }
}

/// A cursor over the rows of a file.
struct RowReader<'a> {
    open: &'a OpenFile<'a>,
    fields: Vec<FieldReader>,
    items: Range<u64>,
    /// Rows per block if all have the average size.
    step: u64,
}

impl RowReader<'_> {
    /// The number of rows in the next block, by their sizes; at least one.
    fn rows(&mut self) -> Result<u64> {
        let count = self.step.min(self.items.end - self.items.start);
        let mut total = vec![0u64; count as usize];
        for field in &mut self.fields {
            let weights = field.weights(&self.open.file, self.items.start, self.items.start + count)?;
            total.iter_mut().zip(weights).for_each(|(total, weight)| *total = total.saturating_add(weight));
        }
        let mut sum = 0u64;
        let fits = total.iter().take_while(|weight| {
            sum = sum.saturating_add(**weight);
            sum <= 2 * BLOCK_BYTES
        });
        Ok((fits.count() as u64).max(1))
    }

    fn block(&mut self) -> Result<Option<Rows>> {
        if self.items.is_empty() {
            return Ok(None);
        }
        let (from, count) = (self.items.start, self.rows()?);
        let file = &self.open.file;
        let read = |field: &mut FieldReader| field.read(file, from, from + count);
        let columns = self.fields.iter_mut().map(read).collect::<Result<Vec<_>>>()?;
        self.items.start += count;
        let options = RecordBatchOptions::new().with_row_count(Some(count as usize));
        let rows = RecordBatch::try_new_with_options(self.open.schema.clone(), columns, &options);
        rows.map(Some).map_err(|e| Error::content(format!("has fields that do not match: {e}")))
    }
}
