//! The source: reads HDF5 files by ranges, our own and third-party files. Knows nothing of writing.
//!
//! `file` reads bytes; `object_header` and `group` parse the structures at an address; `chunk_index` (with `btree_v1`,
//! `btree_v2`, `fixed_array`, `extensible_array`) locates chunks; `filter` (with `inflate` and the compressors' formats)
//! and `dataset` decode them. `dataset_walk` finds the datasets of third-party files, `leaf_member` and `element` map them
//! to fields, `values` reads the fields. `netcdf` applies NetCDF's conventions with `packed` and `cf_time`. Where groups are samples,
//! `group_search` finds them, `group_walk` and `group_attributes` their values, and `group_table` reads these, numbers of several types by `wider`.

mod attribute;
mod axis;
mod bands;
mod bitshuffle;
mod blosc;
mod blosclz;
mod btree_v1;
mod btree_v2;
mod cf_time;
mod chunk_index;
mod dataset;
mod dataset_walk;
mod description;
mod element;
mod extensible_array;
mod file;
mod filter;
mod fixed_array;
mod foreign;
mod fractal_heap;
mod global_heap;
mod group;
mod group_attributes;
mod group_search;
mod group_table;
mod group_walk;
mod inflate;
mod leaf_member;
mod lz4;
mod lzf;
mod message;
mod native;
mod nested;
mod netcdf;
mod object_header;
mod ours;
mod packed;
mod path_globs;
mod reference;
mod scaleoffset;
mod source;
mod values;
mod wider;

#[cfg(test)]
pub(crate) use lzf::decompress as lzf_for_tests;
pub(crate) use source::Hdf5Source;
