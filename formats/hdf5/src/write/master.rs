//! The dataset's master file `NAME.h5`: all shards in one file, by reference.
//!
//! ```text
//! /shards/00042        external link to the root of shard 42
//! /shards_split        text [shards]: the split of each shard, if the dataset has splits
//! /index/shard, row    i32, i64 [N]: shard and row of each sample
//! /data/FIELD          virtual dataset [N, …] over fields of fixed shape, up to 256 shards
//! ```
//!
//! File names are relative, so the dataset's folder can be moved.

use super::chunks::{Chunker, Geometry, plain_object};
use super::field_writer::FieldWriter;
use super::filter::Coder;
use super::heap::Collection;
use super::index::StoredChunk;
use super::main_file::MainFile;
use super::object::{ObjectWriter, virtual_layout};
use super::shard::root;
use crate::bytes::Cursor;
use crate::checksum::lookup3;
use crate::datatype::{Datatype, Padding};
use crate::layout::MASTER;
use crate::options::{Compression, ShuffleMode, SinkOptions};
use crate::pool::Pool;
use packhorse_core::{Error, FieldType, Outlet, Pool as MemoryPool, Result, Sealed, ShardSummary};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The note in a shard's summary: rows, and the fields of fixed shape.
const NOTE: &str = "hdf5";
/// Virtual datasets over more files are too slow to be useful.
const MOST_SHARDS: usize = 256;
/// Rows of the index written at a time.
const STEP: u64 = 1 << 16;

/// The notes of a shard that [`seal`] needs.
pub(crate) fn notes(columns: &[FieldWriter], rows: u64) -> BTreeMap<String, String> {
    let field = |column: &FieldWriter| {
        let shape: &[usize] = match &column.kind {
            FieldType::Scalar(_) => &[],
            FieldType::Tensor { shape, .. } if !shape.contains(&0) => shape,
            _ => return None,
        };
        let fixed = !matches!(column.datatype, Datatype::VlenText { .. } | Datatype::Vlen { .. });
        let datatype: String = column.datatype.encode().iter().map(|byte| format!("{byte:02x}")).collect();
        fixed.then(|| json!({"name": column.field.name(), "datatype": datatype, "shape": shape}))
    };
    let fields: Vec<Value> = columns.iter().filter_map(field).collect();
    BTreeMap::from([(NOTE.to_owned(), json!({"rows": rows, "fields": fields}).to_string())])
}

/// A field of fixed shape.
#[derive(PartialEq)]
struct Fixed {
    name: String,
    datatype: Datatype,
    shape: Vec<u64>,
}

/// Writes `NAME.h5`.
pub(crate) fn seal(dataset: &Sealed<'_>, suffix: &str, out: &mut dyn Outlet) -> Result<()> {
    if dataset.shards.iter().any(|shard| shard.name == dataset.name) {
        return Err(Error::config(format!(
            "a shard has the name of the master file, {}{suffix}; choose another name for the dataset",
            dataset.name
        )));
    }
    let mut main = MainFile::create(out.patchable(&format!("{}{suffix}", dataset.name))?)?;
    let samples = dataset.shards.iter().map(|shard| shard.samples).sum();
    let mut root = root(samples)?;
    root.text_attribute(MASTER, dataset.name)?;
    root.text_attribute("root_digest", dataset.root_digest)?;
    let file = |shard: &ShardSummary| format!("{}{suffix}", shard.name);
    if let Some(data) = virtual_data(dataset.shards, samples, &file, &mut main)? {
        root.link("data", data);
    }
    root.link("index", index(dataset.shards, &mut main)?);
    let mut shards = ObjectWriter::group();
    for (i, shard) in dataset.shards.iter().enumerate() {
        shards.external_link(&format!("{i:05}"), &file(shard), "/");
    }
    root.link("shards", shards.write(&mut main)?);
    if let Some(splits) = splits(dataset.shards, &mut main)? {
        root.link("shards_split", splits);
    }
    let root = root.write(&mut main)?;
    main.finish(root).map(|_| ())
}

/// Writes `/shards_split` if the dataset has splits.
fn splits(shards: &[ShardSummary], main: &mut MainFile) -> Result<Option<u64>> {
    let names: Vec<&str> = shards.iter().map(|shard| shard.split.as_deref().unwrap_or_default()).collect();
    let Some(size) = names.iter().map(|name| name.len()).max().filter(|size| *size > 0) else { return Ok(None) };
    main.align()?;
    let address = main.at();
    for name in &names {
        let mut bytes = name.as_bytes().to_vec();
        bytes.resize(size, 0);
        main.append(&bytes)?;
    }
    let datatype = Datatype::Fixed { size: size as u32, utf8: true, padding: Padding::Zeros };
    plain_object(&datatype, &[names.len() as u64], address).write(main).map(Some)
}

/// Writes `/index`: the shard and row of each sample.
fn index(shards: &[ShardSummary], main: &mut MainFile) -> Result<u64> {
    let numbers = (0i32..).zip(shards).map(|(i, shard)| (i, shard.samples));
    let shard = column(4, numbers.clone(), |shard, _| shard.to_le_bytes().to_vec(), main)?;
    let row = column(8, numbers, |_, row| row.to_le_bytes().to_vec(), main)?;
    let mut group = ObjectWriter::group();
    group.link("row", row);
    group.link("shard", shard);
    group.write(main)
}

/// Writes a dataset of integers of `width` bytes, one per sample.
fn column(
    width: u32,
    shards: impl Iterator<Item = (i32, u64)>,
    value: impl Fn(i32, i64) -> Vec<u8>,
    main: &mut MainFile,
) -> Result<u64> {
    let options = SinkOptions { chunk: None, filter: Compression::Gzip(4), shuffle: ShuffleMode::On, vlen: false };
    let datatype = Datatype::Integer { size: width, signed: true, big: false };
    let memory = MemoryPool::default();
    let mut chunker = Chunker::new(Geometry::new(u64::from(width), &[], None, 512 << 10), &options, &memory);
    let coders = Pool::new(Coder::new);
    for (shard, rows) in shards {
        for start in (0..rows).step_by(STEP as usize) {
            let rows = start..rows.min(start + STEP);
            let bytes: Vec<u8> = rows.flat_map(|row| value(shard, i64::try_from(row).unwrap_or(i64::MAX))).collect();
            chunker.push(&bytes.into())?;
            store(&mut chunker, false, (&coders, &memory), main)?;
        }
    }
    chunker.end();
    store(&mut chunker, true, (&coders, &memory), main)?;
    chunker.object(&datatype, 0, main)?.write(main)
}

fn store(
    chunker: &mut Chunker,
    ended: bool,
    (coders, memory): (&Pool<Coder>, &MemoryPool),
    main: &mut MainFile,
) -> Result<()> {
    for chunk in chunker.ready(ended, coders)? {
        let packed = coders.with(|coder| coder.pack(&chunker.pipeline(), chunk, memory))?;
        let address = main.append(&packed.bytes)?;
        chunker.stored(StoredChunk { address, size: packed.bytes.len() as u32, mask: packed.mask });
    }
    Ok(())
}

/// Writes the group of virtual datasets, if there can be any.
fn virtual_data(
    shards: &[ShardSummary],
    samples: u64,
    file: &dyn Fn(&ShardSummary) -> String,
    main: &mut MainFile,
) -> Result<Option<u64>> {
    let fields = common_fields(shards);
    if shards.len() > MOST_SHARDS || fields.is_empty() || u32::try_from(samples).is_err() {
        return Ok(None);
    }
    let mut data = ObjectWriter::group();
    for field in fields {
        let mut collection = Collection::default();
        let index = collection.push(&mappings(&field, shards, file));
        main.align()?;
        let address = main.append(&collection.close())?;
        let dims = [&[samples], &field.shape[..]].concat();
        let layout = virtual_layout(address, u32::from(index));
        data.link(&field.name, ObjectWriter::dataset(&field.datatype, &dims, false, layout).write(main)?);
    }
    data.write(main).map(Some)
}

/// The fields that all shards have with the same type and shape, sorted by name.
fn common_fields(shards: &[ShardSummary]) -> Vec<Fixed> {
    let mut all = shards.iter().map(|shard| shard.notes.get(NOTE).and_then(|note| parse(note)).unwrap_or_default());
    let mut common = all.next().unwrap_or_default();
    all.for_each(|fields| common.retain(|field| fields.contains(field)));
    common.sort_by(|a, b| a.name.cmp(&b.name));
    common
}

fn parse(note: &str) -> Option<Vec<Fixed>> {
    let note: Value = serde_json::from_str(note).ok()?;
    note.get("fields")?.as_array()?.iter().map(fixed).collect()
}

fn fixed(field: &Value) -> Option<Fixed> {
    let hex = field.get("datatype")?.as_str()?;
    let byte = |i: usize| u8::from_str_radix(hex.get(2 * i..2 * i + 2)?, 16).ok();
    let bytes = (0..hex.len() / 2).map(byte).collect::<Option<Vec<u8>>>()?;
    Some(Fixed {
        name: field.get("name")?.as_str()?.to_owned(),
        datatype: Datatype::parse(&mut Cursor::new(&bytes, "a datatype")).ok()?,
        shape: field.get("shape")?.as_array()?.iter().map(Value::as_u64).collect::<Option<_>>()?,
    })
}

/// HDF5's "global heap block for virtual datasets": the source of each range of rows.
fn mappings(field: &Fixed, shards: &[ShardSummary], file: &dyn Fn(&ShardSummary) -> String) -> Vec<u8> {
    let filled: Vec<&ShardSummary> = shards.iter().filter(|shard| shard.samples > 0).collect();
    let mut bytes = vec![0];
    bytes.extend((filled.len() as u64).to_le_bytes());
    let mut first = 0;
    for shard in filled {
        // HDF5 reads the names of sources as patterns of printf; those of shards have no `%`.
        for text in [file(shard), format!("/data/{}", field.name.replace('%', "%%"))] {
            bytes.extend(text.as_bytes());
            bytes.push(0);
        }
        bytes.extend(selection(0, shard.samples, &field.shape));
        bytes.extend(selection(first, shard.samples, &field.shape));
        first += shard.samples;
    }
    bytes.extend(lookup3(&bytes).to_le_bytes());
    bytes
}

/// Whole rows as a hyperslab of one block, version 1.
fn selection(first: u64, rows: u64, shape: &[u64]) -> Vec<u8> {
    let rank = 1 + shape.len() as u32;
    let words = [2, 1, 0, 8 + 8 * rank, rank, 1];
    let starts = std::iter::once(first).chain(shape.iter().map(|_| 0));
    let ends = std::iter::once(first + rows - 1).chain(shape.iter().map(|dim| dim - 1));
    let numbers = starts.chain(ends).map(|number| number as u32);
    words.into_iter().chain(numbers).flat_map(u32::to_le_bytes).collect()
}
