//! The sink: writes rows as a file of the layout ml-hdf5/1. Knows nothing of reading.
//!
//! One contiguous dataset, the *primary*, grows at the end of the file while rows arrive, so that the
//! images of a shard are written once and contiguously. Everything else waits in spools, which overflow
//! into an unnamed file. Without a primary dataset, compressed chunks are appended as they come. All
//! metadata follows at the end.

mod chunks;
mod feed;
mod field_writer;
mod filter;
mod heap;
mod index;
mod lz4;
mod lzf;
mod main_file;
mod master;
mod object;
mod ordered_store;
mod row_check;
mod shard;
mod spool;

pub(crate) use object::ObjectWriter;
pub(crate) use shard::Hdf5Sink;
