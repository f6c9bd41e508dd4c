//! The encoding of each column.
//!
//! * Encoded images, also in lists: plain, uncompressed, without statistics; pages of 64 KiB, so that one image can be read alone.
//! * Other blobs: compressed, without dictionary and statistics, pages of 64 KiB too.
//! * Floats of 32 and 64 bits: byte stream split, compressed. Everything else: a dictionary if it helps, compressed.
//! * Every column has an offset index and, with statistics, a column index; the key has a Bloom filter.

use crate::options::ParquetOptions;
use crate::stored_schema::{BYTES, StoredSchema, image_parts};
use packhorse_core::{DataType, Field, KEY};
use parquet::basic::{Compression, Encoding};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};
use parquet::schema::types::ColumnPath;

/// The page size of blobs.
const BLOB_PAGE: usize = 64 << 10;

/// The number of distinct keys that a Bloom filter is sized for at first; it is folded to the actual number.
const KEYS: u64 = 100_000;

pub(crate) fn properties(options: &ParquetOptions, stored: &StoredSchema, notes: Vec<KeyValue>) -> WriterProperties {
    let mut builder = WriterProperties::builder()
        .set_created_by(concat!("packhorse-parquet version ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(options.compression)
        .set_statistics_enabled(EnabledStatistics::Page)
        // Rows are already cut into groups.
        .set_max_row_group_row_count(None)
        .set_key_value_metadata(Some(notes));
    for (kind, field) in stored.fields() {
        let name = field.name().as_str();
        builder = match kind.holds_blobs() {
            true => blobs(builder, field),
            false => floats(builder, &mut vec![name.to_owned()], field.data_type()),
        };
        if name == KEY {
            let path = ColumnPath::new(vec![name.to_owned()]);
            builder = builder.set_column_bloom_filter_enabled(path.clone(), true);
            builder = builder.set_column_bloom_filter_fpp(path.clone(), 0.01);
            builder = builder.set_column_bloom_filter_max_ndv(path, KEYS);
        }
    }
    builder.build()
}

/// Blobs of a field, also in lists; those of pictures are compressed already.
fn blobs(builder: WriterPropertiesBuilder, field: &Field) -> WriterPropertiesBuilder {
    // A text such as "x.bytes" would give a path of a single part, which matches nothing.
    let (mut path, mut inside) = (vec![field.name().clone()], field);
    while let DataType::List(item) = inside.data_type() {
        path.extend(["list".to_owned(), item.name().clone()]);
        inside = item;
    }
    let is_picture = image_parts(inside).is_some();
    path.extend(is_picture.then(|| BYTES.to_owned()));
    let path = ColumnPath::new(path);
    let builder = builder
        .set_column_dictionary_enabled(path.clone(), false)
        .set_column_statistics_enabled(path.clone(), EnabledStatistics::None)
        .set_column_encoding(path.clone(), Encoding::PLAIN)
        .set_column_data_page_size_limit(path.clone(), BLOB_PAGE);
    if is_picture { builder.set_column_compression(path, Compression::UNCOMPRESSED) } else { builder }
}

/// Sets the encoding of floats in the column of this type at `path`.
fn floats(builder: WriterPropertiesBuilder, path: &mut Vec<String>, data_type: &DataType) -> WriterPropertiesBuilder {
    match data_type {
        // DuckDB can't read byte stream split of 16-bit floats.
        DataType::Float32 | DataType::Float64 => {
            let path = ColumnPath::new(path.clone());
            let builder = builder.set_column_dictionary_enabled(path.clone(), false);
            builder.set_column_encoding(path, Encoding::BYTE_STREAM_SPLIT)
        }
        DataType::List(item) | DataType::FixedSizeList(item, _) => {
            // Parquet's names of the levels of a list.
            path.extend(["list".to_owned(), item.name().clone()]);
            let builder = floats(builder, path, item.data_type());
            path.truncate(path.len().saturating_sub(2));
            builder
        }
        DataType::Struct(parts) => parts.iter().fold(builder, |builder, part| {
            path.push(part.name().clone());
            let builder = floats(builder, path, part.data_type());
            path.pop();
            builder
        }),
        _ => builder,
    }
}
