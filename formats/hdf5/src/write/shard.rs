//! The sink and the writer of one shard.

use super::chunks::PROBES;
use super::feed;
use super::field_writer::{FieldWriter, Regions, Values, is_plain};
use super::filter::{Coder, Packed, Pipeline};
use super::index::StoredChunk;
use super::main_file::MainFile;
use super::master;
use super::object::ObjectWriter;
use super::ordered_store::OrderedStore;
use super::row_check::{check_texts, is_text};
use super::spool::{Spill, Spool};
use crate::layout::{self, CLASSES, LAYOUT, METADATA};
use crate::options::{Compression, ShuffleMode, SinkOptions};
use crate::pool::Pool;
use arrow_buffer::Buffer;
use packhorse_core::{
    Error, Field, FieldType, KEY, Outlet, PatchableWriter, Pool as MemoryPool, Result, RowCheck, Rows, SchemaRef,
    ScratchFile, Sealed, ShardSummary, ShardWriter, Sink, element_width, with_metadata,
};
use rayon::prelude::*;

/// Full chunks are compressed and written after this many bytes of rows.
const EPOCH: usize = 32 << 20;
/// The largest chunk that the option `chunk` may ask for, in bytes.
const LARGEST_ASKED: u64 = 64 << 20;

pub(crate) struct Hdf5Sink {
    options: SinkOptions,
    /// Memory that later shards reuse.
    memory: MemoryPool,
}

/// The longest name of a field, in bytes.
const LONGEST_NAME: usize = 4096;

impl Sink for Hdf5Sink {
    fn typed(&self) -> bool {
        true
    }

    fn gathers(&self, schema: &SchemaRef) -> u64 {
        let fields = schema.fields().len() as u64;
        // Each field's first chunks wait until it is decided whether they are shuffled.
        let undecided = self.options.filter != Compression::None && self.options.shuffle == ShuffleMode::Auto;
        let waiting = if undecided { fields.saturating_mul(PROBES as u64 * chunk_bytes(fields)) } else { 0 };
        waiting.saturating_add(2 * EPOCH as u64)
    }

    fn suffix(&self) -> &'static str {
        ".h5"
    }

    fn accept(&self, schema: &SchemaRef) -> Result<()> {
        check_slashes(schema)?;
        schema.fields().iter().try_for_each(|field| self.accept_field(field))
    }

    fn row_check(&self, schema: &SchemaRef) -> Option<RowCheck> {
        let has_texts = schema.fields().iter().any(|field| field.name() != KEY && is_text(field));
        has_texts.then(|| -> RowCheck { Box::new(check_texts) })
    }

    fn admit(&self, _: &str, field: &str, bytes: u64) -> Result<()> {
        match self.options.vlen && u32::try_from(bytes).is_err() {
            true => Err(Error::content(format!(
                "field {field} has {bytes} bytes, over the 4 GiB of a vlen value; use vlen=off"
            ))),
            false => Ok(()),
        }
    }

    fn size_of(&self, bytes: u64) -> u64 {
        bytes.saturating_add(16)
    }

    fn readers_need(&self) -> Option<&'static str> {
        match self.options.filter {
            Compression::None | Compression::Gzip(_) => None,
            Compression::Lzf => {
                Some("h5py reads these shards; other programs need the plugin lzf (the filter gzip needs none)")
            }
            Compression::Zstd(_) | Compression::Lz4 | Compression::Blosc2(..) => Some(
                "h5py reads these shards after `import hdf5plugin` (pip install hdf5plugin), other programs with the plugin \
                 of the filter in HDF5_PLUGIN_PATH; the filter gzip needs neither",
            ),
        }
    }

    fn create(&self, schema: &SchemaRef, out: &mut dyn Outlet) -> Result<Box<dyn ShardWriter>> {
        self.accept(schema)?;
        let file = out.patchable(self.suffix())?;
        Ok(Box::new(ShardFile::create(schema, self, file, out.scratch()?)?))
    }

    fn seal(&self, dataset: &Sealed<'_>, out: &mut dyn Outlet) -> Result<()> {
        master::seal(dataset, self.suffix(), out)
    }
}

/// Refuses names with slashes, all of them at once: TFRecords have many (`image/height`).
fn check_slashes(schema: &SchemaRef) -> Result<()> {
    let names = schema.fields().iter().map(|field| field.name().as_str()).filter(|name| name.contains('/'));
    let names: Vec<&str> = names.collect();
    if names.is_empty() {
        return Ok(());
    }
    let renamed = names.iter().map(|name| format!("`field={name}={}`", name.replace('/', "_")));
    let hint = format!("give them other names, such as {}", renamed.collect::<Vec<_>>().join(" "));
    let message = format!("HDF5 names can't contain slashes, and these do: {}", names.join(", "));
    Err(Error::config(message).hint(hint))
}

/// Refuses names that HDF5 objects can't have, and names longer than [`LONGEST_NAME`].
fn check_name(name: &str) -> Result<()> {
    let why = match name {
        "" => "HDF5 names can't be empty".to_owned(),
        "." => "HDF5 uses a dot for the group itself".to_owned(),
        _ if name.contains('\0') => "HDF5 names can't contain zero bytes".to_owned(),
        _ if name.len() > LONGEST_NAME => {
            let start: String = name.chars().take(40).collect();
            let message = format!(
                "field \"{start}…\": HDF5 names may have at most {LONGEST_NAME} bytes, and this one has {}; rename it",
                name.len()
            );
            return Err(Error::config(message));
        }
        _ => return Ok(()),
    };
    let error = Error::config(format!("field \"{name}\": {why}"));
    Err(error.hint(format!("give it another name with `field={name}=NAME`")))
}

impl Hdf5Sink {
    pub(crate) fn new(options: SinkOptions) -> Self {
        Self { options, memory: MemoryPool::default() }
    }

    fn accept_field(&self, field: &Field) -> Result<()> {
        let name = field.name();
        check_name(name)?;
        let kind = FieldType::of(field)?;
        let datatype = layout::datatype(field, &kind, &self.options)?;
        layout::describe(field, &kind, &mut ObjectWriter::default())?;
        let shape: &[usize] = if let FieldType::Tensor { shape, .. } = &kind { shape } else { &[] };
        let sample = shape.iter().fold(u64::from(datatype.size()), |bytes, dim| bytes.saturating_mul(*dim as u64));
        match (&kind, self.options.chunk) {
            (_, _) if shape.len() > 31 => {
                Err(Error::unsupported(format!("field {name} of type {kind}: HDF5 has at most 32 dimensions")))
            }
            (FieldType::Scalar(_) | FieldType::Tensor { .. }, Some(rows))
                if rows.saturating_mul(sample) > LARGEST_ASKED && self.options.filter != Compression::None =>
            {
                Err(Error::config(match LARGEST_ASKED / sample.max(1) {
                    0 => format!(
                        "`chunk`: a row of field {name} has {sample} bytes, and a chunk at most 64 MiB; leave `chunk` out, and rows \
                         are divided"
                    ),
                    most => format!("`chunk`: {rows} rows of field {name} exceed 64 MiB per chunk; use at most {most}"),
                }))
            }
            _ => Ok(()),
        }
    }
}

/// The field whose bytes go directly to the file: the first blob field, or else the one with the largest samples.
fn primary(schema: &SchemaRef, options: &SinkOptions) -> Option<usize> {
    let size = |field: &Field| match FieldType::of(field) {
        Ok(kind) if !is_plain(&kind, options) => None,
        Ok(kind) if kind.holds_blobs() => Some(usize::MAX),
        Ok(FieldType::Tensor { element, shape }) => {
            Some(shape.iter().fold(element_width(&element)?, |size, dim| size.saturating_mul(*dim)))
        }
        Ok(kind @ (FieldType::Ragged { .. } | FieldType::List { .. })) => {
            element_width(kind.element()?).map(|_| usize::MAX - 1)
        }
        _ => None,
    };
    let sizes = schema.fields().iter().enumerate().filter_map(|(i, field)| Some((size(field)?, i)));
    sizes.filter(|(size, _)| *size > 0).max_by_key(|(size, i)| (*size, usize::MAX - i)).map(|(_, i)| i)
}

/// Adds the class names to the field of labels.
fn labelled(schema: &SchemaRef, field: &Field) -> Field {
    let named = field.metadata().contains_key(CLASSES);
    match schema.metadata().get(packhorse_core::CLASSES) {
        Some(classes) if field.name() == "cls" && field.data_type().is_integer() && !named => {
            with_metadata(field.clone(), CLASSES, classes)
        }
        _ => field.clone(),
    }
}

/// The bytes of a chunk in a file of `fields` fields.
fn chunk_bytes(fields: u64) -> u64 {
    ((64 << 20) / fields.max(1)).clamp(16 << 10, 512 << 10)
}

struct ShardFile {
    columns: Vec<FieldWriter>,
    regions: Regions,
    schema: SchemaRef,
    coders: Pool<Coder>,
    memory: MemoryPool,
    rows: u64,
    /// Bytes of rows since the last flush.
    weight: usize,
}

impl ShardFile {
    fn create(
        schema: &SchemaRef,
        sink: &Hdf5Sink,
        file: Box<dyn PatchableWriter>,
        scratch: Box<dyn ScratchFile>,
    ) -> Result<Self> {
        let (options, memory) = (&sink.options, &sink.memory);
        let fields = schema.fields().len();
        let mut spill = Spill::new(scratch, 3 * fields + 1);
        let target = chunk_bytes(fields as u64);
        let primary = primary(schema, options);
        let column = |(i, field): (usize, &std::sync::Arc<Field>)| {
            FieldWriter::new(&labelled(schema, field), options, target, primary == Some(i), (&mut spill, memory))
        };
        let columns = schema.fields().iter().enumerate().map(column).collect::<Result<_>>()?;
        let regions = Regions { main: MainFile::create(file)?, spill, body: primary.map(|_| Spool::default()) };
        let (coders, memory, schema) = (Pool::new(Coder::new), memory.clone(), schema.clone());
        Ok(Self { columns, regions, schema, coders, memory, rows: 0, weight: 0 })
    }

    /// Appends samples `from..to`.
    fn append(&mut self, rows: &Rows, from: usize, to: usize) -> Result<()> {
        self.rows += (to - from) as u64;
        for (column, array) in self.columns.iter_mut().zip(rows.columns()) {
            feed::push(column, &array.slice(from, to - from), &mut self.regions)
                .map_err(|e| e.context(format_args!("field {}", column.field.name())).in_field(column.field.name()))?;
        }
        Ok(())
    }

    /// Compresses and writes full chunks, field by field; with `ended`, all chunks. Chunks are compressed in parallel
    /// and written in order.
    fn flush(&mut self, ended: bool) -> Result<()> {
        let jobs = self.jobs(ended)?;
        let (coders, memory) = (&self.coders, &self.memory);
        let (columns, regions) = (&mut self.columns, &mut self.regions);
        let chunks = OrderedStore::new(|(column, packed)| store(columns, regions, column, packed));
        jobs.into_iter().enumerate().par_bridge().try_for_each(|(number, (column, pipeline, bytes))| {
            let packed = match pipeline {
                Some(pipeline) => coders.with(|coder| coder.pack(&pipeline, bytes, memory))?,
                None => Packed { bytes, mask: 0 },
            };
            chunks.add(number, (column, packed))
        })?;
        chunks.finish()
    }

    fn jobs(&mut self, ended: bool) -> Result<Vec<Job>> {
        let mut jobs = Vec::new();
        for (i, column) in self.columns.iter_mut().enumerate() {
            match &mut column.values {
                Values::Chunks(chunker) => {
                    if ended {
                        chunker.end();
                    }
                    let ready = chunker.ready(ended, &self.coders)?;
                    jobs.extend(ready.into_iter().map(|chunk| (i, Some(chunker.pipeline()), chunk)));
                }
                Values::Heap(heap) => {
                    if ended {
                        heap.close();
                    }
                    jobs.extend(heap.full.drain(..).map(|collection| (i, None, collection.into())));
                }
                Values::Plain { .. } => {}
            }
        }
        Ok(jobs)
    }

    /// Writes everything after chunks and collections; returns the file's length.
    fn close(mut self) -> Result<u64> {
        let base = match self.regions.body.take() {
            Some(body) => body.drain(&mut self.regions.spill, &mut self.regions.main, |_| {})?,
            None => 0,
        };
        let (mut data, mut present) = (ObjectWriter::group(), ObjectWriter::group());
        let mut lacks = false;
        let mut columns = self.columns;
        columns.sort_by(|a, b| a.field.name().cmp(b.field.name()));
        for column in columns {
            let name = column.field.name().clone();
            let (address, gaps) = column.finish(base, &mut self.regions)?;
            data.link(&name, address);
            if let Some(gaps) = gaps {
                present.link(&name, gaps);
                lacks = true;
            }
        }
        let main = &mut self.regions.main;
        let mut root = root(self.rows)?;
        if let Some(metadata) = layout::metadata(&self.schema) {
            root.text_attribute(METADATA, &metadata)?;
        }
        if let Some(classes) = self.schema.metadata().get(packhorse_core::CLASSES) {
            layout::classes_attribute(classes, &mut root)?;
        }
        root.link("data", data.write(main)?);
        if lacks {
            root.link("present", present.write(main)?);
        }
        let root = root.write(main)?;
        self.regions.main.finish(root)
    }
}

/// The number of a column, the filters for its chunk, and the chunk.
type Job = (usize, Option<Pipeline>, Buffer);

/// Writes a chunk of a column and notes its address.
fn store(columns: &mut [FieldWriter], regions: &mut Regions, column: usize, packed: Packed) -> Result<()> {
    let Packed { bytes, mask } = packed;
    let address = regions.append_body(&bytes)?;
    let size = u32::try_from(bytes.len()).map_err(|_| Error::bug("a chunk of over 4 GiB"))?;
    match columns.get_mut(column).map(|column| &mut column.values) {
        Some(Values::Chunks(chunker)) => chunker.stored(StoredChunk { address, size, mask }),
        Some(Values::Heap(heap)) => heap.addresses.push(address),
        _ => {}
    }
    Ok(())
}

/// The root group with the layout's attributes.
pub(crate) fn root(samples: u64) -> Result<ObjectWriter> {
    let mut root = ObjectWriter::group();
    root.text_attribute("packhorse_layout", LAYOUT)?;
    root.number_attribute("num_samples", i64::try_from(samples).unwrap_or(i64::MAX))?;
    Ok(root)
}

impl ShardWriter for ShardFile {
    fn push(&mut self, rows: &Rows) -> Result<()> {
        let mut from = 0;
        for row in 0..rows.num_rows() {
            self.weight += rows.columns().iter().map(|array| feed::weight(array, row)).sum::<usize>();
            if self.weight >= EPOCH {
                self.append(rows, from, row + 1)?;
                self.flush(false)?;
                (from, self.weight) = (row + 1, 0);
            }
        }
        self.append(rows, from, rows.num_rows())
    }

    fn finish(mut self: Box<Self>) -> Result<ShardSummary> {
        self.flush(true)?;
        let notes = master::notes(&self.columns, self.rows);
        let samples = self.rows;
        let bytes = self.close()?;
        Ok(ShardSummary { samples, bytes, notes, ..ShardSummary::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packhorse_core::{DataType, KEY, Options, Schema};
    use std::sync::Arc;

    #[test]
    fn rare_filters_have_a_note_for_readers() {
        let need = |filter| {
            Hdf5Sink::new(SinkOptions::parse(&[("filter", filter)].into_iter().collect()).unwrap()).readers_need()
        };
        assert_eq!((need("gzip"), need("none")), (None, None));
        assert!(need("zstd").is_some_and(|need| need.contains("import hdf5plugin")));
        assert!(need("lz4").is_some() && need("lzf").is_some());
    }

    #[test]
    fn all_names_with_slashes_are_named_at_once() {
        let names = ["image/height", "x", "image/width"].map(|name| FieldType::Blob.field(name, false));
        let sink = Hdf5Sink::new(SinkOptions::parse(&packhorse_core::Options::new()).unwrap());
        let error = sink.accept(&Arc::new(Schema::new(names.to_vec()))).unwrap_err().to_string();
        assert!(error.contains("these do: image/height, image/width"), "{error}");
        assert!(error.contains("`field=image/height=image_height` `field=image/width=image_width`"), "{error}");
    }

    #[test]
    fn chunks_of_rows_that_are_too_large_have_no_number_to_use() {
        let options = [("chunk", "1"), ("filter", "gzip")].into_iter().collect();
        let sink = Hdf5Sink::new(SinkOptions::parse(&options).unwrap());
        let field = FieldType::Tensor { element: DataType::UInt8, shape: vec![(64 << 20) + 1] }.field("x", false);
        let error = sink.accept(&Arc::new(Schema::new(vec![field]))).unwrap_err().to_string();
        assert!(
            error.contains("a row of field x has 67108865 bytes") && error.contains("leave `chunk` out"),
            "{error}"
        );
    }

    #[test]
    fn chunks_that_wait_for_shuffle_count_as_gathered() {
        let gathers = |shuffle, fields: usize| {
            let options = [("shuffle", shuffle), ("filter", "gzip")].into_iter().collect();
            let sink = Hdf5Sink::new(SinkOptions::parse(&options).unwrap());
            let fields = (0..fields).map(|i| Field::new(i.to_string(), DataType::Int32, false));
            sink.gathers(&Arc::new(Schema::new(fields.collect::<Vec<_>>()))) >> 20
        };
        assert_eq!(
            [gathers("on", 128), gathers("auto", 1), gathers("auto", 128), gathers("auto", 512)],
            [64, 66, 320, 320]
        );
    }

    #[test]
    fn unsupported_fields_are_named() {
        let sink = Hdf5Sink::new(SinkOptions::parse(&Options::new()).unwrap());
        let accept = |field: Field| sink.accept(&Arc::new(Schema::new(vec![field])));
        assert!(accept(Field::new(KEY, DataType::Utf8View, false)).is_ok());
        let error = accept(Field::new("a/b", DataType::Int8, false)).unwrap_err();
        assert!(error.to_string().contains("a/b"), "{error}");
        let error = accept(Field::new("x".repeat(5000), DataType::Int8, false)).unwrap_err();
        assert!(error.to_string().contains("this one has 5000") && !error.to_string().contains("slash"), "{error}");
        let error = accept(Field::new("when", DataType::Date32, false)).unwrap_err();
        assert_eq!(error.to_string(), "field when of type Date32");
    }
}
