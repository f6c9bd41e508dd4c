//! The options of sink and source.

use packhorse_core::{Options, Result};
use std::collections::BTreeSet;
use std::sync::Arc;

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
            gzip: options.choose("compression", &[("none", false), ("gzip", true)])?,
            raw_tensors: options.choose("tensors", &[("list", false), ("raw", true)])?,
        })
    }
}

/// The options of the source.
#[derive(Clone, Debug)]
pub(crate) struct RecordSourceOptions {
    /// Whether checksums are verified.
    pub(crate) crc: bool,
    /// The number of records that a schema is inferred from, if it is given.
    pub(crate) infer: Option<u64>,
    /// Features that are delivered as null, whatever they hold.
    pub(crate) unread: Arc<BTreeSet<String>>,
}

impl RecordSourceOptions {
    pub(crate) fn parse(options: &Options) -> Result<Self> {
        options.only(&["crc", "infer", "unread"])?;
        let crc = options.choose("crc", &[("on", true), ("off", false)])?;
        let unread = options.get("unread").unwrap_or_default().lines().map(str::to_owned).collect();
        Ok(Self { crc, infer: options.positive("infer")?, unread: Arc::new(unread) })
    }
}
