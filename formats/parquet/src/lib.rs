//! Parquet and Arrow IPC: columns of typed values in files that describe themselves.
mod contain;
mod cut;
mod decode;
mod depth;
mod fetch;
mod footer;
mod huggingface;
mod ipc;
mod mapping;
mod note;
mod options;
mod properties;
mod sink;
mod source;
mod stored;
mod window;

use packhorse_core::{Format, FormatInfo, Limits, Options, Result, Sink, Source};

/// The format `parquet`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parquet;

static PARQUET: FormatInfo = FormatInfo { id: "parquet", revision: 1, extensions: &["parquet"], fields: &[] };

impl Format for Parquet {
    fn info(&self) -> &'static FormatInfo {
        &PARQUET
    }

    fn source(&self, options: &Options, limits: Limits) -> Result<Box<dyn Source>> {
        let choice = options::Choice::parse(options)?;
        Ok(Box::new(source::ParquetSource { choice, limits, last: Default::default() }))
    }

    fn sink(&self, options: &Options) -> Result<Box<dyn Sink>> {
        Ok(Box::new(sink::ParquetSink { options: options::ParquetOptions::parse(options)? }))
    }
}

/// The format `arrow`.
#[derive(Clone, Copy, Debug, Default)]
pub struct ArrowIpc;

static ARROW: FormatInfo =
    FormatInfo { id: "arrow", revision: 1, extensions: &["arrow", "feather", "ipc"], fields: &[] };

impl Format for ArrowIpc {
    fn info(&self) -> &'static FormatInfo {
        &ARROW
    }

    fn source(&self, options: &Options, limits: Limits) -> Result<Box<dyn Source>> {
        Ok(Box::new(ipc::IpcSource { choice: options::Choice::parse(options)?, limits }))
    }

    fn sink(&self, options: &Options) -> Result<Box<dyn Sink>> {
        Ok(Box::new(ipc::IpcSink { options: options::IpcOptions::parse(options)? }))
    }
}
