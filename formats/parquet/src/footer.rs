//! The footer of a Parquet file.

use crate::contain::parquet_error;
use crate::depth;
use crate::fetch::{length, read};
use crate::huggingface::KEY_OF_FEATURES;
use crate::index;
use crate::locate;
use crate::mapping::Mapping;
use crate::note::{KEY_OF_NOTE, Note};
use crate::options::ColumnSelection;
use crate::stored_schema::viewed_field;
use arrow_schema::TimeUnit;
use packhorse_core::{DataType, Error, Field, Input, Limits, Omission, Result, Schema};
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::arrow::{FieldLevels, ProjectionMask, parquet_to_arrow_field_levels};
use parquet::basic::{Compression, Type as PhysicalType};
use parquet::file::metadata::{ColumnChunkMetaData, FileMetaData, ParquetMetaData, ParquetMetaDataReader};
use parquet::file::page_index::offset_index::PageLocation;
use parquet::schema::types::SchemaDescriptor;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// A parsed footer.
#[derive(Clone)]
pub(crate) struct Footer {
    pub(crate) len: u64,
    pub(crate) metadata: Arc<ParquetMetaData>,
    /// The columns to read, in groups: decompressors and decoders of a column take about 160 KB each while it is read.
    pub(crate) groups: Vec<ColumnGroup>,
    pub(crate) mapping: Mapping,
    pub(crate) roots: Vec<usize>,
    /// The leaf columns to read, in Parquet's numbering.
    pub(crate) leaves: Vec<usize>,
    /// The first row of every row group, then the total number of rows.
    pub(crate) starts: Vec<u64>,
    /// Page locations of columns without an index, by row group and column.
    located: BTreeMap<(usize, usize), Arc<[PageLocation]>>,
}

/// Neighbouring columns that are read together.
#[derive(Clone)]
pub(crate) struct ColumnGroup {
    /// In the types that the reader produces.
    pub(crate) levels: FieldLevels,
    /// INT96 timestamps, if any are among them, in seconds.
    pub(crate) seconds: Option<FieldLevels>,
}

/// Bytes of the levels of a value in a list.
const LEVELS: u64 = 4;

/// Leaf columns of a group, about.
const GROUP: usize = 512;

impl Footer {
    /// Reads the footer; the columns `faulty` are left out.
    pub(crate) fn load(
        input: &dyn Input,
        choice: &ColumnSelection,
        faulty: &[Omission],
        limits: Limits,
    ) -> Result<Self> {
        let len = length(input)?;
        let (metadata, starts) = metadata(input, len, limits)?;
        let arrow = arrow_schema(&metadata, TimeUnit::Microsecond)?;
        let note = metadata.file_metadata().key_value_metadata().into_iter().flatten();
        let note = note.filter(|pair| pair.key == KEY_OF_NOTE).find_map(|pair| Note::parse(pair.value.as_deref()?));
        let readable = |root: usize| readable(&metadata, root);
        let described = described(&arrow, &metadata);
        let mapping = Mapping::new(&described, note.as_ref(), choice, faulty, &readable)?;
        let roots = mapping.roots();
        let mask = ProjectionMask::roots(metadata.file_metadata().schema_descr(), roots.iter().copied());
        let count = metadata.file_metadata().schema_descr().num_columns();
        let leaves: Vec<usize> = (0..count).filter(|leaf| mask.leaf_included(*leaf)).collect();
        let metadata = Arc::new(metadata);
        let groups = column_groups(&metadata, &arrow, &leaves)?;
        Ok(Self { len, metadata, groups, mapping, roots, leaves, starts, located: BTreeMap::new() })
    }

    /// The same footer with the page locations of the columns, if `input` has them.
    pub(crate) fn with_pages(&self, input: &dyn Input, limits: Limits) -> Result<Self> {
        let metadata = index::load(&self.metadata, &self.leaves, input, self.len, limits)?;
        Ok(Self { metadata, ..self.clone() })
    }

    /// The same footer with the page locations of a row group that headers of pages tell; `None` if these tell none.
    pub(crate) fn with_located(&self, group: usize, input: &dyn Input) -> Result<Option<Self>> {
        let mut located = self.located.clone();
        for leaf in self.leaves.iter().filter(|leaf| self.pages(group, **leaf).is_none()) {
            let pages = locate::pages(&self.metadata, (group, *leaf), input, self.len)?;
            located.extend(pages.map(|pages| ((group, *leaf), pages.into())));
        }
        Ok((located.len() > self.located.len()).then(|| Self { located, ..self.clone() }))
    }

    /// The page locations of a column, if known.
    pub(crate) fn pages(&self, group: usize, leaf: usize) -> Option<&[PageLocation]> {
        index::pages(&self.metadata, group, leaf).or_else(|| self.located.get(&(group, leaf)).map(|pages| &**pages))
    }

    /// The total number of rows.
    pub(crate) fn rows(&self) -> u64 {
        self.starts.last().copied().unwrap_or(0)
    }

    /// The approximate uncompressed size of the columns to read in row group `group`.
    pub(crate) fn bytes(&self, group: usize) -> u64 {
        let group = self.metadata.row_groups().get(group);
        let size = |leaf: &usize| {
            let column = group.and_then(|group| group.columns().get(*leaf));
            column.map_or(0, |column| u64::try_from(column.uncompressed_size()).unwrap_or(0))
        };
        self.leaves.iter().map(size).fold(0, u64::saturating_add)
    }

    /// The approximate size of these columns in memory: numbers that repeat take almost no bytes in a file.
    pub(crate) fn decoded(&self, group: usize) -> u64 {
        let group = self.metadata.row_groups().get(group);
        let columns = self.leaves.iter().filter_map(|leaf| group?.columns().get(*leaf));
        columns.map(decoded).fold(0, u64::saturating_add)
    }
}

/// The approximate size of a column chunk in memory.
fn decoded(column: &ColumnChunkMetaData) -> u64 {
    let descriptor = column.column_descr();
    let value = match descriptor.physical_type() {
        PhysicalType::BOOLEAN => 1,
        PhysicalType::INT32 | PhysicalType::FLOAT => 4,
        PhysicalType::INT64 | PhysicalType::DOUBLE | PhysicalType::INT96 => 8,
        // A view.
        PhysicalType::BYTE_ARRAY => 16,
        PhysicalType::FIXED_LEN_BYTE_ARRAY => u64::try_from(descriptor.type_length()).unwrap_or(0),
    };
    let levels = if descriptor.max_rep_level() > 0 { LEVELS } else { 0 };
    let held = u64::try_from(column.num_values()).unwrap_or(0).saturating_mul(value + levels);
    held.max(u64::try_from(column.uncompressed_size()).unwrap_or(0))
}

/// The columns `leaves` in the types of `arrow`, in groups; one without columns if there are none, which counts rows.
fn column_groups(metadata: &Arc<ParquetMetaData>, arrow: &Schema, leaves: &[usize]) -> Result<Vec<ColumnGroup>> {
    let columns = metadata.file_metadata().schema_descr();
    let is_int96 = |leaf: &usize| columns.column(*leaf).physical_type() == PhysicalType::INT96;
    // Each of them goes through the whole schema.
    let own = shown_as(metadata, arrow.clone())?;
    let in_seconds = match leaves.iter().any(is_int96) {
        true => Some(shown_as(metadata, arrow_schema(metadata, TimeUnit::Second)?)?),
        false => None,
    };
    let (mut groups, mut left) = (Vec::new(), leaves);
    loop {
        // The leaves of a column stay together.
        let root = |at: usize| left.get(at).map(|leaf| columns.get_column_root_idx(*leaf));
        let end = (GROUP..left.len()).find(|end| root(*end) != root(end - 1)).unwrap_or(left.len());
        let (group, rest) = left.split_at(end);
        let int96: Vec<usize> = group.iter().copied().filter(is_int96).collect();
        let seconds = in_seconds.as_ref().filter(|_| !int96.is_empty());
        let seconds = seconds.map(|arrow| levels_of(arrow, &int96)).transpose()?;
        groups.push(ColumnGroup { levels: levels_of(&own, group)?, seconds });
        if rest.is_empty() {
            return Ok(groups);
        }
        left = rest;
    }
}

/// The field levels that read the columns `leaves` in the types of `schema`.
pub(crate) fn levels(metadata: &Arc<ParquetMetaData>, schema: Schema, leaves: &[usize]) -> Result<FieldLevels> {
    levels_of(&shown_as(metadata, schema)?, leaves)
}

/// The file with the types of `schema`.
fn shown_as(metadata: &Arc<ParquetMetaData>, schema: Schema) -> Result<ArrowReaderMetadata> {
    let options = ArrowReaderOptions::new().with_schema(Arc::new(schema));
    ArrowReaderMetadata::try_new(Arc::clone(metadata), options).map_err(parquet_error)
}

fn levels_of(arrow: &ArrowReaderMetadata, leaves: &[usize]) -> Result<FieldLevels> {
    let mask = ProjectionMask::leaves(arrow.parquet_schema(), leaves.iter().copied());
    parquet_to_arrow_field_levels(arrow.parquet_schema(), mask, Some(arrow.schema().fields())).map_err(parquet_error)
}

/// The byte range of the column chunk `leaf` of a row group, in a file of `len` bytes.
pub(crate) fn chunk(metadata: &ParquetMetaData, group: usize, leaf: usize, len: u64) -> Result<Range<u64>> {
    let damaged = || Error::content("has a column outside of the file; write it again");
    let column = metadata.row_groups().get(group).and_then(|group| group.columns().get(leaf)).ok_or_else(damaged)?;
    let dictionary = column.dictionary_page_offset().filter(|at| *at != 0);
    let start = dictionary.unwrap_or(column.data_page_offset());
    let start = u64::try_from(start).map_err(|_| damaged())?;
    let size = u64::try_from(column.compressed_size()).map_err(|_| damaged())?;
    let end = start.checked_add(size).filter(|end| *end <= len).ok_or_else(damaged)?;
    Ok(start..end)
}

/// The metadata of a file of `len` bytes, with its rows counted, and the first row of every row group.
pub(crate) fn metadata(input: &dyn Input, len: u64, limits: Limits) -> Result<(ParquetMetaData, Vec<u64>)> {
    let metadata = ParquetMetaDataReader::decode_metadata(&tail(input, len, limits)?).map_err(parquet_error)?;
    let starts = starts(&metadata)?;
    let rows = starts.last().copied().unwrap_or(0);
    Ok((counted(metadata, rows), starts))
}

/// The bytes of the footer.
fn tail(input: &dyn Input, len: u64, limits: Limits) -> Result<bytes::Bytes> {
    let none = || Error::content("is not a Parquet file, or is cut short: it doesn't end in PAR1");
    let end = len.checked_sub(8).ok_or_else(none)?;
    let mut last = [0; 8];
    input.read_at(end, &mut last)?;
    let [a, b, c, d, magic @ ..] = last;
    match &magic {
        b"PAR1" => {}
        b"PARE" => return Err(Error::unsupported("is an encrypted Parquet file; decrypt it first")),
        _ => return Err(none()),
    }
    let size = u64::from(u32::from_le_bytes([a, b, c, d]));
    let start = end.checked_sub(size).ok_or_else(|| Error::cut_short("its footer is longer than it"))?;
    let bytes = read(input, len, start..end, limits)?;
    depth::check(&bytes)?;
    Ok(bytes)
}

fn starts(metadata: &ParquetMetaData) -> Result<Vec<u64>> {
    let mut starts = vec![0u64];
    let mut sum = 0u64;
    for group in metadata.row_groups() {
        let rows = u64::try_from(group.num_rows()).ok().and_then(|rows| sum.checked_add(rows));
        sum = rows
            .filter(|sum| *sum <= i64::MAX as u64)
            .ok_or_else(|| Error::content("has a row group with an impossible number of rows; write the file again"))?;
        starts.push(sum);
    }
    Ok(starts)
}

/// The same metadata with the number of rows of the row groups: the reader limits batches to the declared number, which
/// some writers set to 0.
fn counted(metadata: ParquetMetaData, rows: u64) -> ParquetMetaData {
    let file = metadata.file_metadata();
    let rows = i64::try_from(rows).unwrap_or(i64::MAX);
    if file.num_rows() == rows {
        return metadata;
    }
    let file = FileMetaData::new(
        file.version(),
        rows,
        file.created_by().map(str::to_owned),
        file.key_value_metadata().cloned(),
        file.schema_descr_ptr(),
        file.column_orders().cloned(),
    );
    ParquetMetaData::new(file, metadata.row_groups().to_vec())
}

/// The schema to read: text and bytes as views, dictionaries as their values, INT96 in the unit `int96`.
fn arrow_schema(metadata: &ParquetMetaData, int96: TimeUnit) -> Result<Schema> {
    let metadata = Arc::new(metadata.clone());
    let named = ArrowReaderMetadata::try_new(Arc::clone(&metadata), ArrowReaderOptions::new());
    // If this version can't parse the embedded Arrow schema, use Parquet's own types.
    let found = named
        .or_else(|_| ArrowReaderMetadata::try_new(metadata, ArrowReaderOptions::new().with_skip_arrow_metadata(true)));
    let found = found.map_err(parquet_error)?;
    let dates = with_int96(&found, int96);
    let pairs = found.schema().fields().iter().zip(dates.fields());
    let fields = pairs.map(|(was, field)| if was == field { viewed_field(field) } else { Field::clone(field) });
    Ok(Schema::new(fields.collect::<Vec<_>>()))
}

/// The schema with the features that Hugging Face's library wrote into the file.
fn described(arrow: &Schema, metadata: &ParquetMetaData) -> Schema {
    let pairs = metadata.file_metadata().key_value_metadata().into_iter().flatten();
    let features = pairs.filter(|pair| pair.key == KEY_OF_FEATURES).find_map(|pair| pair.value.clone());
    let features = features.map(|features| (KEY_OF_FEATURES.to_owned(), features));
    Schema::new_with_metadata(arrow.fields().clone(), features.into_iter().collect::<BTreeMap<_, _>>())
}

/// The schema of a file with INT96 timestamps in `unit`: nanoseconds would overflow outside of 1677 to 2262.
pub(crate) fn with_int96(file: &ArrowReaderMetadata, unit: TimeUnit) -> Schema {
    let roots = file.parquet_schema().root_schema().get_fields();
    let is_int96 = |root: usize| {
        roots.get(root).is_some_and(|node| node.is_primitive() && node.get_physical_type() == PhysicalType::INT96)
    };
    let fields = file.schema().fields().iter().enumerate().map(|(root, field)| match field.data_type() {
        // An Arrow schema in the file may have another unit, and a time zone.
        DataType::Timestamp(_, zone) if is_int96(root) => {
            Arc::new(Field::clone(field).with_data_type(DataType::Timestamp(unit, zone.clone())))
        }
        _ => Arc::clone(field),
    });
    Schema::new(fields.collect::<Vec<_>>())
}

/// The leaves of a column: leaves are in the order of their columns.
fn leaves(schema: &SchemaDescriptor, root: usize) -> Range<usize> {
    let first_of = |root: usize| {
        let (mut from, mut to) = (0, schema.num_columns());
        while from < to {
            let middle = from.midpoint(to);
            if schema.get_column_root_idx(middle) < root { from = middle + 1 } else { to = middle }
        }
        from
    };
    first_of(root)..first_of(root + 1)
}

/// The reason why a column can't be read, if any.
pub(crate) fn readable(metadata: &ParquetMetaData, root: usize) -> Option<String> {
    let schema = metadata.file_metadata().schema_descr();
    leaves(schema, root).find_map(|leaf| {
        let column = schema.column(leaf);
        if column.physical_type() == PhysicalType::INT96 && column.path().parts().len() > 1 {
            return Some("holds nested INT96 timestamps".to_owned());
        }
        let codecs = metadata.row_groups().iter().filter_map(|group| Some(group.columns().get(leaf)?.compression()));
        codecs.into_iter().find_map(|codec| match codec {
            Compression::BROTLI(_) => Some("is compressed by brotli".to_owned()),
            Compression::LZO => Some("is compressed by LZO".to_owned()),
            _ => None,
        })
    })
}
