//! HDF5.
mod bytes;
mod checksum;
mod datatype;
mod layout;
mod options;
mod pool;
mod read;
mod shuffle;
mod write;

use packhorse_core::{Format, FormatInfo, Limits, Options, Result, Sink, Source};

/// The format `hdf5`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hdf5;

static INFO: FormatInfo = FormatInfo { id: "hdf5", revision: 1, extensions: &["h5", "hdf5", "he5", "nc4"] };

impl Format for Hdf5 {
    fn info(&self) -> &'static FormatInfo {
        &INFO
    }

    fn source(&self, options: &Options, limits: Limits) -> Result<Box<dyn Source>> {
        Ok(Box::new(read::Hdf5Source::new(options, limits)?))
    }

    fn sink(&self, options: &Options) -> Result<Box<dyn Sink>> {
        Ok(Box::new(write::Hdf5Sink { options: options::SinkOptions::parse(options)? }))
    }
}
