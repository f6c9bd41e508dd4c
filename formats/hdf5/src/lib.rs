//! HDF5: datasets in a tree of groups, chunked and compressed; written and read without the C library.
//!
//! * **Specification**: the [HDF5 File Format Specification](https://support.hdfgroup.org/documentation/hdf5/latest/_f_m_t3.html),
//!   version 3; filter numbers from the registry of the HDF Group. The layout of shards is our own,
//!   *ml-hdf5/1*, below.
//! * **Who else reads it**: what we write, every HDF5 since 1.8: h5py, PyTables, netCDF4, MATLAB, Julia,
//!   h5dump (with lzf: every h5py; with zstd, lz4 and blosc2: h5py with `import hdf5plugin`). The master
//!   file's virtual datasets need HDF5 1.10.
//! * **Why no library**: the C library holds one lock for the whole process, filters included, and writes
//!   times and its own idea of order; the pure crate that was considered (rust-hdf5 0.7.9) wants a path to
//!   read from and Rust 1.89, and is a hundred thousand lines to trust with foreign bytes. What shards
//!   need of HDF5 is small: the writer here is superblock 2, version 2 object headers, contiguous
//!   and chunked layouts of version 3, version 1 B-trees, link and attribute messages, global heap collections.
//!
//! # The bytes we write
//!
//! ```text
//! 0     superblock, version 2 (written last), zeros up to 64
//! 64    the primary dataset: the values of the first field of blobs, as they came, in one piece
//!       chunks and global heap collections, in the order of rows, field by field
//!       values, offsets, shapes: contiguous datasets, each in one piece
//!       B-trees and object headers; the root's last. No times anywhere: equal rows, equal bytes
//! ```
//!
//! Without blobs (or, unfiltered, without numbers) there is no primary, and chunks begin at 64. What can
//! not go to the file yet waits in memory, and from 1 MiB on in one unnamed file beside it: memory does
//! not grow with the shard. Chunks are compressed in parallel; the number of threads does not change them.
//!
//! # The layout ml-hdf5/1
//!
//! ```text
//! /                            packhorse_layout = "ml-hdf5/1", num_samples, class_names
//! /data/__key__                text [N], UTF-8 of any length
//! /data/FIELD                  of one shape: [N, …], little-endian, chunked, extendable along N
//! /data/FIELD                  text: UTF-8 of any length [N] (or [N, …])
//! /data/FIELD/values, offsets  blobs: u8 [bytes], i64 [N+1]; sample i is values[offsets[i]..offsets[i+1]]
//! /data/FIELD/values, offsets, shapes
//!                              ragged: elements, i64 [N+1], i32 [N, rank]; attribute ragged = 1
//! /data/FIELD/values, offsets, offsets1, …
//!                              lists: offsets [N+1] into the lists of the next level, the last into values
//! /present/FIELD               u8 [N]: 0 where a sample lacks the field; only where one does. What stands
//!                              in its place is zero or empty
//! ```
//!
//! Booleans are h5py's enumeration, complex numbers its compound of `r` and `i`, NumPy's `S` fixed text,
//! its `V` opaque, its times `i64` with the attribute `numpy`. Offsets, shapes, values of blobs and all
//! values under `filter=none` are contiguous and unfiltered. A field's attribute `packhorse_field` (JSON)
//! restores its column exactly; `encoding` is that of its blobs, `class_names` the list that the field's
//! (at the root, the schema's) metadata of that name holds, over 2,048 names as one text of JSON. The root's
//! `packhorse_metadata` (JSON) is all of the schema's.
//!
//! [`Sink::seal`] adds the master file `NAME.h5`: external links `/shards/00000`…, `/index/shard` (`i32 [N]`)
//! and `/index/row` (`i64 [N]`), `/shards_split` where there are splits, and virtual datasets `/data/FIELD`
//! over fields of one shape (without text) of up to 256 shards. It is for other programs; we read shards.
//!
//! # What we read
//!
//! Our own files: the same rows. Any other file: every dataset with at least one dimension is a field, its rows are
//! the samples; its name is its path without the first slash and with dots for the others; a compound is a field a
//! member, however deep (`TABLE.MEMBER.MEMBER`). All must have as many rows: else the error names two, and the
//! option `datasets` chooses. What can't be read is left out, and [`TableInfo::omitted`](packhorse_core::TableInfo) names it and says
//! why; it is an error where the option names it, or nothing else is there.
//!
//! * **Elements**: integers of up to 8 bytes, those of fewer bits (20 in 4 bytes, 24 in 3) in the next wider type; bit fields
//!   as unsigned integers; floats of 2, 4 and 8 bytes, others (bfloat16, 8 bits) as the 4 or 8 bytes that hold them; complex
//!   numbers; enumerations as their integers, h5py's of FALSE and TRUE as Booleans; text of fixed and any length; opaque
//!   bytes, h5py's times in them; HDF5's times as integers; arrays; vlen numbers as lists, vlen `u8` as blobs. In files of
//!   PyTables, its Booleans and times. Big-endian numbers are turned around.
//! * **Places**: superblocks 0 to 3, object headers of both versions, symbol tables, link messages and fractal heaps;
//!   compact, contiguous and chunked layouts with every index there is; fill values; addresses of 2, 4 and 8 bytes.
//! * **Filters**: deflate, shuffle, fletcher32, scale-offset, and of the registered ones lzf, zstd, lz4, bzip2, bitshuffle (plain,
//!   with LZ4 or zstd) and blosc (all but snappy), others by libhdf5's plugins (feature `hdf5-plugins`; `docs/hdf5.md`).
//! * **Left out**: single values, references, long doubles, lists of lists or text; virtual datasets, external files and
//!   links to them, shared message tables, filters without a plugin. Soft links name what is read anyway.
//!
//! A chunk is decoded once for all rows that it holds, as far as 512 MiB of rows allow. Of a file that says that it holds over
//! 1 GiB and over 10,000 times its own bytes no row is read, but for `expansion=any`.
//!
//! # NetCDF-4
//!
//! A file of NetCDF's library, or of others that number dimensions as it does, is read by records: the samples are those
//! of one dimension, the fields the variables whose first axis it is. It is the option `dimension`, or the only
//! unlimited dimension that is a first axis, or the only first axis of variables that are no coordinates. Other variables
//! (coordinates of other axes, grid mappings, values without an axis) are left out by name: they belong to no sample.
//! Dimensions of the file's groups count like those of its root. Records that a variable lacks are its fill value.
//! Characters side by side are text, and what xarray marks as Booleans are. Numbers stay as they are stored, and the field's
//! metadata [`PACKED`](packhorse_core::PACKED) holds their `scale_factor`, `add_offset`, `_FillValue`, `missing_value`,
//! `units` and `calendar`; `scale=apply` makes floats of them, with NaN where there is nothing, as xarray does. NetCDF-3 is another
//! format, and refused.
//!
//! # Options
//!
//! | of the sink | values | default |
//! | --- | --- | --- |
//! | `chunk` | rows a chunk, up to 64 MiB; `auto`: one sample from 128 KiB up (a part of it above 4 MiB), else about 512 KiB, less where there are over 128 fields | `auto` |
//! | `filter` | `gzip`, `zstd`, `lzf`, `lz4`, `none`; where there is the plugin of blosc2, `blosc2` (with zstd in it), `blosc2-lz4` | `gzip` |
//! | `level` | gzip 1–9, zstd 1–22, blosc2 1–9 | 4, 3, 5 |
//! | `shuffle` | `auto` (what makes the first four chunks of the shard smaller), `on`, `off` | `auto` |
//! | `vlen` | `on`: blobs as vlen `u8` in the global heap, `off`: values and offsets | `off` |
//!
//! | of the source | values | default |
//! | --- | --- | --- |
//! | `datasets` | globs of paths, separated by commas (`*` any characters, `?` one); a file of our layout is then read as anybody's | all |
//! | `dimension` | NetCDF-4: the dimension whose records are the samples | see above |
//! | `scale` | NetCDF-4: `apply` unpacks numbers, `keep` leaves them as they are stored | `keep` |
//! | `expansion` | `any`: rows may be any number of times as large as the file | `bounded` |
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
    FormatInfo { id: "hdf5", revision: 1, extensions: &["h5", "hdf5", "he5", "nc", "nc4"], fields: &[] };

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
