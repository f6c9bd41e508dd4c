//! The sink: rows become a file of the layout ml-hdf5/1. Knows nothing of reading.
//!
//! Bytes reach the file in three ways. One contiguous dataset, the *primary*, grows at the end of the
//! file while rows arrive, so that the images of a shard are written once and lie in one piece. What
//! would stand in its way waits in spools, which go to an unnamed file once they outgrow their memory.
//! Without a primary, compressed chunks are appended as they come. All metadata follows at the end.

mod chunks;
mod column;
mod feed;
mod filter;
mod heap;
mod index;
mod lz4;
mod lzf;
mod main_file;
mod master;
mod object;
mod shard;
mod spool;
mod turns;

pub(crate) use object::Object;
pub(crate) use shard::Hdf5Sink;
