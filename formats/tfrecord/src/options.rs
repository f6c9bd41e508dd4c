//! The settings of sink and source.

use packhorse_core::{Error, Options, Result};

/// How shards are written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writing {
    /// The whole file as one GZIP member, TensorFlow's `compression_type="GZIP"`.
    pub(crate) gzip: bool,
    /// Tensors as one value of raw bytes, instead of a list of values.
    pub(crate) raw_tensors: bool,
}

impl Writing {
    pub(crate) fn parse(options: &Options) -> Result<Self> {
        options.only(&["compression", "tensors"])?;
        Ok(Self {
            gzip: choice(options, "compression", ["none", "gzip"])?,
            raw_tensors: choice(options, "tensors", ["list", "raw"])?,
        })
    }
}

/// How files are read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    /// Whether checksums are compared.
    pub(crate) crc: bool,
    /// How many records a schema is inferred from.
    pub(crate) infer: u64,
}

impl Reading {
    pub(crate) fn parse(options: &Options) -> Result<Self> {
        options.only(&["crc", "infer"])?;
        let infer = options.parse("infer", 1000)?;
        if infer == 0 {
            return Err(Error::config("option infer: a schema is inferred from at least 1 record"));
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
