//! The options of sink and source.

use packhorse_core::{Error, Options, Result};

/// The options of the sink.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordSinkOptions {
    /// Compresses the file as one GZIP member, TensorFlow's `compression_type="GZIP"`.
    pub(crate) gzip: bool,
    /// Stores tensors as one value of raw bytes instead of a list of values.
    pub(crate) raw_tensors: bool,
}

impl RecordSinkOptions {
    pub(crate) fn parse(options: &Options) -> Result<Self> {
        options.only(&["compression", "tensors"])?;
        Ok(Self {
            gzip: choice(options, "compression", ["none", "gzip"])?,
            raw_tensors: choice(options, "tensors", ["list", "raw"])?,
        })
    }
}

/// The options of the source.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordSourceOptions {
    /// Whether checksums are verified.
    pub(crate) crc: bool,
    /// The number of records that a schema is inferred from.
    pub(crate) infer: u64,
}

impl RecordSourceOptions {
    pub(crate) fn parse(options: &Options) -> Result<Self> {
        options.only(&["crc", "infer"])?;
        let infer = options.parse("infer", 1000)?;
        if infer == 0 {
            return Err(Error::config("option infer: must be at least 1"));
        }
        Ok(Self { crc: !choice(options, "crc", ["on", "off"])?, infer })
    }
}

/// Whether option `name` has the second of two values; the first is the default.
fn choice(options: &Options, name: &str, [first, second]: [&str; 2]) -> Result<bool> {
    match options.get(name) {
        None => Ok(false),
        Some(text) if text == first => Ok(false),
        Some(text) if text == second => Ok(true),
        Some(other) => Err(Error::config(format!("option {name} is {first} or {second}, not \"{other}\""))),
    }
}
