//! The options of sinks and sources.

use globset::{Glob, GlobMatcher};
use packhorse_core::{Error, KEY, Options, Result, Schema, nearest, some_of};
use parquet::basic::{Compression, ZstdLevel};
use std::collections::BTreeSet;

/// The options of the Parquet sink.
#[derive(Clone, Debug)]
pub(crate) struct ParquetOptions {
    /// Rows in a row group, if set.
    pub(crate) row_group: Option<usize>,
    /// The compression of all columns except encoded images.
    pub(crate) compression: Compression,
    pub(crate) tensor_ext: bool,
}

impl ParquetOptions {
    /// From the options of the sink.
    pub(crate) fn parse(options: &Options) -> Result<Self> {
        options.only(&["row-group", "compression", "level", "tensor-ext"])?;
        let known = [("zstd", None), ("none", Some(Compression::UNCOMPRESSED)), ("snappy", Some(Compression::SNAPPY))];
        let compression = match options.choose("compression", &known)? {
            Some(_) if options.get("level").is_some() => {
                return Err(Options::refuse("level", "only for compression=zstd"));
            }
            Some(other) => other,
            None => {
                let level = ZstdLevel::try_new(options.parse("level", 3)?);
                Compression::ZSTD(level.map_err(|_| Options::refuse("level", "must be 1 to 22"))?)
            }
        };
        Ok(Self { row_group: rows(options, "row-group")?, compression, tensor_ext: options.switch("tensor-ext")? })
    }
}

/// The options of the Arrow sink.
#[derive(Clone, Debug)]
pub(crate) struct IpcOptions {
    /// The stream format instead of the file format.
    pub(crate) stream: bool,
    /// Rows in a record batch, if set.
    pub(crate) batch: Option<usize>,
    pub(crate) compression: Option<arrow_ipc::CompressionType>,
    pub(crate) tensor_ext: bool,
}

impl IpcOptions {
    /// From the options of the sink.
    pub(crate) fn parse(options: &Options) -> Result<Self> {
        options.only(&["stream", "batch", "compression", "tensor-ext"])?;
        let (zstd, lz4) = (arrow_ipc::CompressionType::ZSTD, arrow_ipc::CompressionType::LZ4_FRAME);
        let compression = options.choose("compression", &[("none", None), ("zstd", Some(zstd)), ("lz4", Some(lz4))])?;
        Ok(Self {
            stream: options.switch("stream")?,
            batch: rows(options, "batch")?,
            compression,
            tensor_ext: options.switch("tensor-ext")?,
        })
    }
}

/// Refuses a name given to `option` that the file lacks.
fn check_names(option: &str, names: &BTreeSet<String>, known: &[&str]) -> Result<()> {
    let Some(name) = names.iter().find(|name| !known.contains(&name.as_str())) else { return Ok(()) };
    let error = Error::config(format!("`{option}`: there is no column {name}; there are {}", some_of(known)));
    Err(match nearest(name, known.iter().copied()) {
        Some(near) => error.hint(format!("did you mean {near}?")),
        None => error,
    })
}

/// The columns to read, and the policy for unsupported ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct ColumnSelection {
    globs: Option<Vec<(String, GlobMatcher)>>,
    /// The only field to read, if set.
    only: Option<String>,
    /// The only fields to read beside keys, if set.
    fields: Option<BTreeSet<String>>,
    /// Fields that are dropped later: they are delivered as null blobs without decoding.
    unread: BTreeSet<String>,
    /// Columns that are read as JSON text.
    json: BTreeSet<String>,
    /// Fields whose nulls inside lists are empty values.
    fill: BTreeSet<String>,
    /// Leaves out unsupported columns instead of refusing the file.
    pub(crate) skip: bool,
}

impl ColumnSelection {
    /// From the options of a source.
    pub(crate) fn parse(options: &Options) -> Result<Self> {
        options.only(&["columns", "fill", "json", "unread", "unsupported"])?;
        let skip = options.choose("unsupported", &[("fail", false), ("skip", true)])?;
        let globs = options.get("columns").map(|list| {
            list.split(',').map(str::trim).filter(|glob| !glob.is_empty()).map(matcher).collect::<Result<Vec<_>>>()
        });
        let unread = options.get("unread").unwrap_or_default().lines().map(str::to_owned).collect();
        let names = |option: &str| {
            let names = options.get(option).unwrap_or_default().split(',').map(str::trim);
            names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
        };
        let (json, fill) = (names("json"), names("fill"));
        Ok(Self { globs: globs.transpose()?, only: None, fields: None, unread, json, fill, skip })
    }

    /// The same selection with only the field `name`, to test whether it can be read.
    pub(crate) fn alone(&self, name: &str) -> Self {
        Self { only: Some(name.to_owned()), ..self.clone() }
    }

    /// The same selection with only these fields and keys.
    pub(crate) fn narrowed(&self, names: &[String]) -> Self {
        Self { fields: Some(names.iter().cloned().collect()), ..self.clone() }
    }

    /// Whether columns with unsupported values must be found before reading.
    pub(crate) fn tries(&self) -> bool {
        self.skip && self.only.is_none()
    }

    /// Whether the field `name` is dropped once it is delivered.
    pub(crate) fn is_unread(&self, name: &str) -> bool {
        self.unread.contains(name)
    }

    /// Whether the column `name` of the file is read as JSON text.
    pub(crate) fn is_json(&self, name: &str) -> bool {
        name != KEY && self.json.contains(name)
    }

    /// Whether nulls inside the lists of the field `name` are empty values.
    pub(crate) fn fills(&self, name: &str) -> bool {
        self.fill.contains(name)
    }

    /// Refuses the name of a column to read as JSON that the file lacks.
    pub(crate) fn check_json(&self, file: &Schema) -> Result<()> {
        let known: Vec<&str> = file.fields().iter().map(|field| field.name().as_str()).collect();
        check_names("json", &self.json, &known)
    }

    /// Refuses the name of a field to fill that is not among those of the file.
    pub(crate) fn check_fill(&self, known: &[&str]) -> Result<()> {
        check_names("fill", &self.fill, known)
    }

    /// Whether the column `name` is selected: a glob matches it, or there are no globs.
    pub(crate) fn wants(&self, name: &str) -> bool {
        // Keys belong to the samples, whatever their fields are.
        let is_field = name != KEY;
        self.only.as_ref().is_none_or(|only| only == name)
            && self.fields.as_ref().is_none_or(|fields| !is_field || fields.contains(name))
            && self.globs.as_ref().is_none_or(|globs| !is_field || globs.iter().any(|(_, glob)| glob.is_match(name)))
    }

    /// Whether the column `name` or a part of it may be selected: a struct becomes the columns `name.…`.
    pub(crate) fn wants_within(&self, name: &str) -> bool {
        let within = |text: &str| {
            let (fixed, inner) = (text.split(['*', '?', '[', '{']).next().unwrap_or(text), format!("{name}."));
            fixed.starts_with(&inner) || (fixed.len() < text.len() && inner.starts_with(fixed))
        };
        let inside = |globs: &Vec<(String, GlobMatcher)>| globs.iter().any(|(text, _)| within(text));
        let inner = format!("{name}.");
        let known = |fields: &BTreeSet<String>| fields.iter().any(|field| field == name || field.starts_with(&inner));
        self.wants(name) || self.globs.as_ref().is_none_or(inside) && self.fields.as_ref().is_none_or(known)
    }

    /// A `Config` error if a glob matches none of `names`.
    pub(crate) fn check<'a>(&self, names: impl Iterator<Item = &'a str> + Clone) -> Result<()> {
        for (text, glob) in self.globs.iter().flatten() {
            if !names.clone().any(|name| glob.is_match(name)) {
                let known = names.clone().take(20).collect::<Vec<_>>().join(", ");
                return Err(Error::config(format!("`select`: no column matches \"{text}\"; columns are: {known}")));
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
    Ok(options.positive(name)?.map(|rows| usize::try_from(rows).unwrap_or(usize::MAX)))
}
