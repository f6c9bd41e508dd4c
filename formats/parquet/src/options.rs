//! The settings of sinks and sources.

use globset::{Glob, GlobMatcher};
use packhorse_core::{Error, Options, Result};
use parquet::basic::{Compression, ZstdLevel};
use std::collections::BTreeSet;

/// How Parquet is written.
#[derive(Clone, Debug)]
pub(crate) struct ParquetOptions {
    /// Rows in a row group, where the user said so.
    pub(crate) row_group: Option<usize>,
    /// Of every column but encoded images.
    pub(crate) compression: Compression,
    pub(crate) tensor_ext: bool,
}

impl ParquetOptions {
    /// From the options of the sink.
    pub(crate) fn parse(options: &Options) -> Result<Self> {
        options.only(&["row-group", "compression", "level", "tensor-ext"])?;
        let compression = match options.get("compression").unwrap_or("zstd") {
            "zstd" => {
                let level = options.parse("level", 3)?;
                let level = ZstdLevel::try_new(level);
                Compression::ZSTD(level.map_err(|_| Error::config("option level: zstd has the levels 1 to 22"))?)
            }
            "none" => Compression::UNCOMPRESSED,
            "snappy" => Compression::SNAPPY,
            other => return Err(unknown("compression", other, "zstd, none, snappy")),
        };
        if options.get("level").is_some() && !matches!(compression, Compression::ZSTD(_)) {
            return Err(Error::config("option level is for compression=zstd only"));
        }
        Ok(Self { row_group: rows(options, "row-group")?, compression, tensor_ext: switch(options, "tensor-ext")? })
    }
}

/// How Arrow IPC is written.
#[derive(Clone, Debug)]
pub(crate) struct IpcOptions {
    /// The stream format instead of the file format.
    pub(crate) stream: bool,
    /// Rows in a record batch, where the user said so.
    pub(crate) batch: Option<usize>,
    pub(crate) compression: Option<arrow_ipc::CompressionType>,
    pub(crate) tensor_ext: bool,
}

impl IpcOptions {
    /// From the options of the sink.
    pub(crate) fn parse(options: &Options) -> Result<Self> {
        options.only(&["stream", "batch", "compression", "tensor-ext"])?;
        let compression = match options.get("compression").unwrap_or("none") {
            "none" => None,
            "zstd" => Some(arrow_ipc::CompressionType::ZSTD),
            "lz4" => Some(arrow_ipc::CompressionType::LZ4_FRAME),
            other => return Err(unknown("compression", other, "none, zstd, lz4")),
        };
        Ok(Self {
            stream: switch(options, "stream")?,
            batch: rows(options, "batch")?,
            compression,
            tensor_ext: switch(options, "tensor-ext")?,
        })
    }
}

/// Which columns are read, and what happens to those that can't be.
#[derive(Clone, Debug, Default)]
pub(crate) struct Choice {
    globs: Option<Vec<(String, GlobMatcher)>>,
    /// The one field that is read.
    only: Option<String>,
    /// Fields that nobody will look at: they are delivered as missing blobs, whatever they are.
    unread: BTreeSet<String>,
    /// Leave out what is unsupported instead of refusing the file.
    pub(crate) skip: bool,
}

impl Choice {
    /// From the options of a source.
    pub(crate) fn parse(options: &Options) -> Result<Self> {
        options.only(&["columns", "unread", "unsupported"])?;
        let skip = match options.get("unsupported").unwrap_or("fail") {
            "fail" => false,
            "skip" => true,
            other => return Err(unknown("unsupported", other, "fail, skip")),
        };
        let globs = options.get("columns").map(|list| {
            list.split(',').map(str::trim).filter(|glob| !glob.is_empty()).map(matcher).collect::<Result<Vec<_>>>()
        });
        let unread = options.get("unread").unwrap_or_default().lines().map(str::to_owned).collect();
        Ok(Self { globs: globs.transpose()?, only: None, unread, skip })
    }

    /// The same with nothing but the field `name`, to see whether it can be read.
    pub(crate) fn alone(&self, name: &str) -> Self {
        Self { only: Some(name.to_owned()), ..self.clone() }
    }

    /// Whether columns that turn out to be unsupported while they are read are to be found ahead.
    pub(crate) fn tries(&self) -> bool {
        self.skip && self.only.is_none()
    }

    /// Whether the field `name` is dropped once it is delivered.
    pub(crate) fn is_unread(&self, name: &str) -> bool {
        self.unread.contains(name)
    }

    /// Whether the column `name` is wanted: one of the globs matches it, or there are none.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only == name)
            && self.globs.as_ref().is_none_or(|globs| globs.iter().any(|(_, glob)| glob.is_match(name)))
    }

    /// Whether anything inside the column `name` may be wanted: a struct becomes the columns `name.…`.
    pub(crate) fn wants_within(&self, name: &str) -> bool {
        let within = |text: &str| {
            let (fixed, inner) = (text.split(['*', '?', '[', '{']).next().unwrap_or(text), format!("{name}."));
            fixed.starts_with(&inner) || (fixed.len() < text.len() && inner.starts_with(fixed))
        };
        let inside = |globs: &Vec<(String, GlobMatcher)>| globs.iter().any(|(text, _)| within(text));
        self.wants(name) || self.globs.as_ref().is_none_or(inside)
    }

    /// A `Config` error where a glob matches none of `names`.
    pub(crate) fn check<'a>(&self, names: impl Iterator<Item = &'a str> + Clone) -> Result<()> {
        for (text, glob) in self.globs.iter().flatten() {
            if !names.clone().any(|name| glob.is_match(name)) {
                let known = names.clone().take(20).collect::<Vec<_>>().join(", ");
                return Err(Error::config(format!("`select`: no column matches \"{text}\"; there are: {known}")));
            }
        }
        Ok(())
    }
}

fn matcher(text: &str) -> Result<(String, GlobMatcher)> {
    let glob = Glob::new(text).map_err(|e| Error::config(format!("`select`: {e}")))?;
    Ok((text.to_owned(), glob.compile_matcher()))
}

fn rows(options: &Options, name: &str) -> Result<Option<usize>> {
    match options.parse(name, 0usize)? {
        0 if options.get(name).is_some() => Err(Error::config(format!("option {name}: must be at least 1"))),
        0 => Ok(None),
        rows => Ok(Some(rows)),
    }
}

fn switch(options: &Options, name: &str) -> Result<bool> {
    match options.get(name).unwrap_or("off") {
        "on" => Ok(true),
        "off" => Ok(false),
        other => Err(unknown(name, other, "on, off")),
    }
}

fn unknown(name: &str, value: &str, known: &str) -> Error {
    Error::config(format!("option {name}: can't understand \"{value}\"; known are: {known}"))
}
