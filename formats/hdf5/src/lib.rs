//! HDF5: datasets in a tree of groups, chunked and compressed. Reads and writes it without the C library.
//!
//! * **Specification**: the [HDF5 File Format
//!   Specification](https://support.hdfgroup.org/documentation/hdf5/latest/_f_m_t3.html), version 3; filter numbers
//!   from the HDF Group's registry. Shards have our own layout, *ml-hdf5/1*, below.
//! * **Who else reads it**: our files, every HDF5 since 1.8: h5py, PyTables, netCDF4, MATLAB, Julia,
//!   h5dump (lzf: h5py only; zstd, lz4 and blosc2: h5py with `import hdf5plugin`). The virtual datasets of the
//!   master file need HDF5 1.10.
//! * **Why not libhdf5**: it serializes all calls behind one process-wide lock, filters included; it reads local
//!   paths only, not ranges of remote objects; and it does not promise equal bytes for equal data. The pure-Rust
//!   crate considered (rust-hdf5 0.7.9) also reads paths only, and is a hundred thousand lines that would face
//!   hostile input. Shards need little of HDF5: superblock 2, version 2 object headers, contiguous and chunked
//!   layouts of version 3, version 1 B-trees, link and attribute messages, global heap collections.
//!
//! # The bytes we write
//!
//! ```text
//! 0     superblock, version 2 (written last), zeros up to 64
//! 64    the primary dataset: the values of the first blob field, contiguous
//!       chunks and global heap collections, in row order, field by field
//!       contiguous datasets: values, offsets, shapes
//!       B-trees and object headers, the root's last. No timestamps: equal rows give equal bytes
//! ```
//!
//! Without blobs (or, unfiltered, without numbers) there is no primary dataset, and chunks begin at 64. Bytes that
//! can't be written yet wait in memory, and from 1 MiB per dataset on in one unnamed file, so memory does not grow
//! with the shard. Chunks are compressed in parallel; their bytes do not depend on the number of threads.
//!
//! # The layout ml-hdf5/1
//!
//! ```text
//! /                            packhorse_layout = "ml-hdf5/1", num_samples, class_names
//! /data/__key__                variable-length UTF-8 text [N]
//! /data/FIELD                  fixed shape: [N, …], little-endian, chunked, extendable along N
//! /data/FIELD                  text: variable-length UTF-8 [N] (or [N, …])
//! /data/FIELD/values, offsets  blobs: u8 [bytes], i64 [N+1]; sample i is values[offsets[i]..offsets[i+1]]
//! /data/FIELD/values, offsets, shapes
//!                              ragged: elements, i64 [N+1], i32 [N, rank]; attribute ragged = 1
//! /data/FIELD/values, offsets, offsets1, …
//!                              lists: offsets [N+1] into the lists of the next level, the last into values
//! /present/FIELD               u8 [N]: 0 if a sample lacks the field, whose value is then zero or empty;
//!                              only if some sample does
//! ```
//!
//! Booleans are h5py's enumeration, complex numbers its compound of `r` and `i`, NumPy's `S` fixed-length text,
//! its `V` opaque, its times `i64` with the attribute `numpy`. Offsets, shapes, blobs and, with `filter=none`,
//! all values are contiguous and unfiltered. A field's attribute `packhorse_field` (JSON) restores its column
//! exactly. `encoding` and `class_names` (on the root: of the schema) come from the metadata of the same names;
//! more than 2,048 class names are one JSON text. The root's `packhorse_metadata` (JSON) is the schema's metadata.
//!
//! [`Sink::seal`] adds the master file `NAME.h5`: external links `/shards/00000`…, `/index/shard` (`i32 [N]`),
//! `/index/row` (`i64 [N]`), `/shards_split` if the dataset has splits, and virtual datasets `/data/FIELD`
//! over fields of fixed shape (without text) of up to 256 shards. It serves other programs; we read the shards.
//!
//! # What we read
//!
//! Our own files give the same rows. In any other file every dataset with at least one dimension is a field, and its
//! first axis numbers the samples. The field's name is the path, with dots for slashes; a compound becomes one field
//! per member, at any depth (`TABLE.MEMBER.MEMBER`). All fields must have the same number of rows; otherwise the error
//! names two of them, and the option `datasets` selects. Datasets that can't be read are omitted, with the reason in
//! [`TableInfo::omitted`](packhorse_core::TableInfo); they are an error if the option names them or nothing else is
//! readable.
//!
//! * **Elements**: integers of up to 8 bytes, those with fewer bits (20 in 4 bytes, 24 in 3) in the next wider type;
//!   bit fields as unsigned integers; floats of 2, 4 and 8 bytes, others (bfloat16, 8 bits) widened to 4 or 8 bytes;
//!   complex numbers; enumerations as their integers, h5py's FALSE/TRUE as Booleans; fixed-length and variable-length
//!   text; opaque bytes, h5py's times in them; HDF5's times as integers; arrays; vlen numbers as lists, vlen `u8` as
//!   blobs. In files of PyTables, its Booleans and times. Big-endian numbers are byte-swapped.
//! * **Structures**: superblocks 0 to 3, object headers 1 and 2, symbol tables, link messages and fractal heaps;
//!   compact, contiguous and chunked layouts with all chunk indices; fill values; addresses of 2, 4 and 8 bytes.
//! * **Filters**: deflate, shuffle, fletcher32, scale-offset; of the registered ones lzf, zstd, lz4, bzip2, bitshuffle
//!   (plain, LZ4, zstd) and blosc (all but snappy); others by libhdf5's plugins (feature `hdf5-plugins`;
//!   `docs/hdf5.md`).
//! * **Not read**: scalar datasets (but in `groups`), references, long doubles, lists of lists or text; virtual datasets, external files
//!   and links to them, shared message tables, filters without a plugin. Soft links are ignored: their targets are read
//!   anyway.
//!
//! With the option `groups`, each of the outermost groups that its globs take is a sample, in the order of their paths, and each
//! dataset below it a value, whole: the field's name is the path below the group, with dots for slashes. A dataset that the
//! globs take has the field `value`. The field `path` is the sample's path without the first slash; a sample that is the whole
//! file (`/`) has none. A field has one rank, and one type that holds the numbers of all samples; if shapes differ, it is ragged. Scalar datasets are scalars, text,
//! or (vlen) blobs and lists. Samples may lack a field. NetCDF's conventions do not apply. Attributes of the samples are fields
//! where the option `attributes` chooses them, with the same rules, also those of groups around the samples (`/data/NAME`). A single
//! opaque value is a blob.
//!
//! A chunk is decoded once for all its rows, within 512 MiB of decoded rows. A file that claims more than 1 GiB and
//! more than 10,000 times its own size is refused unless `expansion=any`.
//!
//! # NetCDF-4
//!
//! Files written by NetCDF's library, or with its dimension scales, are read by records: the samples are the records of
//! one dimension, the fields the variables whose first axis it is. The option `dimension` names it; by default it is
//! the only unlimited dimension that is a first axis, or the only first axis of variables that are not coordinates.
//! Other variables (coordinates of other axes, grid mappings, scalars) belong to no sample and are omitted, with the
//! reason. Dimensions of groups count like those of the root. Records that a variable lacks get its fill value. Arrays
//! of characters become text, and what xarray marks as Booleans becomes Booleans. Numbers stay as stored, and the
//! field's metadata [`PACKED`](packhorse_core::PACKED) holds their `scale_factor`, `add_offset`, `_FillValue`,
//! `missing_value`, `units` and `calendar`; `scale=apply` unpacks them to floats with NaN for missing values, as xarray
//! does, and `times=decode` makes times of numbers since a date. NetCDF-3 is another format and refused.
//!
//! # Options
//!
//! | of the sink | values | default |
//! | --- | --- | --- |
//! | `chunk` | rows per chunk, up to 64 MiB; `auto`: about 512 KiB (less with over 128 fields); a sample of 128 KiB or more is its own chunk, above 4 MiB it is split | `auto` |
//! | `filter` | `gzip`, `zstd`, `lzf`, `lz4`, `none`; with the plugin of blosc2, `blosc2` (zstd inside), `blosc2-lz4` | `gzip` |
//! | `level` | gzip 1–9, zstd 1–22, blosc2 1–9 | 4, 3, 5 |
//! | `shuffle` | `auto` (whichever makes the first four chunks of the shard smaller), `on`, `off` | `auto` |
//! | `vlen` | `on`: blobs as vlen `u8` in the global heap, `off`: values and offsets | `off` |
//!
//! | of the source | values | default |
//! | --- | --- | --- |
//! | `datasets` | globs of paths, separated by commas (`*` any characters, `?` one; after a `!` those to leave out) | all |
//! | `groups` | globs like those of `datasets`: the groups that are samples; `/` for the whole file | rows are samples |
//! | `attributes` | with `groups`: globs of the attributes that are fields; of groups around the samples with their path (`/data/*`) | none |
//! | `dimension` | NetCDF-4: the dimension whose records are the samples | see above |
//! | `scale` | NetCDF-4: `apply` unpacks numbers, `keep` leaves them as stored | `keep` |
//! | `times` | NetCDF-4: `decode` makes NumPy's `datetime64[us]` of numbers since a date (NaT for missing values), `keep` leaves them as numbers | `keep` |
//! | `text` | strings of fixed length: `utf-8` as text, `bytes` as NumPy's bytes (`S20`), `blob` as blobs of any length, without the padding; single ones of a group are blobs with `bytes` too | `utf-8` |
//! | `expansion` | `any`: no limit on the ratio of decoded size to file size | `bounded` |
//!
//! **Revisions**: 1, the first.

mod bytes;
mod checksum;
mod datatype;
mod layout;
mod options;
mod plugin;
mod pool;
mod read;
mod registry;
mod shuffle;
mod write;

use packhorse_core::{Format, FormatInfo, Limits, Options, Result, Sink, Source};

/// The format `hdf5`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hdf5;

static INFO: FormatInfo =
    FormatInfo { id: "hdf5", revision: 1, extensions: &["h5", "hdf5", "he5", "nxs", "nc", "nc4"], fields: &[] };

impl Format for Hdf5 {
    fn info(&self) -> &'static FormatInfo {
        &INFO
    }

    fn source(&self, options: &Options, limits: Limits) -> Result<Box<dyn Source>> {
        Ok(Box::new(read::Hdf5Source::new(options, limits)?))
    }

    fn sink(&self, options: &Options) -> Result<Box<dyn Sink>> {
        Ok(Box::new(write::Hdf5Sink::new(options::SinkOptions::parse(options)?)))
    }
}
