//! WebDataset: tar archives in which consecutive members with the same key are one sample.
//!
//! * **Specification**: POSIX.1-1988 USTAR, plus the naming rule of the Python package `webdataset`:
//!   the key is the directory and the base name up to its first dot; the field is the rest.
//! * **Who else reads it**: webdataset, wids, Hugging Face datasets, NVIDIA DALI, Megatron-Energon,
//!   every tar program.
//! * **The bytes** that the sink writes:
//!
//!   ```text
//!   header  512 B   name = KEY.FIELD (≤ 100 bytes), mode 0644, uid/gid/mtime 0, type 0, "ustar\0" "00"
//!   data            the field's bytes, zeros up to a multiple of 512
//!   …               members of a sample are adjacent, sorted by field
//!   end    1024 B   zeros
//!   ```
//!
//!   No PAX headers, no GNU long names, no prefix field, no directories: each of these costs some reader speed or
//!   correctness.
//! * **The source** reads all of these too: USTAR prefixes, PAX paths and sizes, GNU long names, base-256 sizes, old v7
//!   headers; `.tar.gz` and `.tar.zst` as streams. Members that Python's `tarfile` and GNU tar read differently are
//!   refused by name.
//! * **Indexes** of third-party tars: names are split as readers split them, and nothing is escaped.
//! * **Options** of the sink, and of the indexes: `index`, a comma-separated list of `wids` (default), `wids:md5`, `dali`, `energon`, or
//!   `none`.
//! * **Revisions**: 1, the first.

mod check;
mod dali;
mod energon;
mod indexer;
mod member_column;
mod options;
mod pax;
mod sink;
mod source;
mod sqlite;
mod tar_header;
mod tar_reader;
mod wids;

use packhorse_core::{Consumer, Findings, Format, FormatInfo, Indexer, Input, Limits, Options, Result, Sink, Source};

/// The format `webdataset`.
#[derive(Clone, Copy, Debug, Default)]
pub struct WebDataset;

static INFO: FormatInfo = FormatInfo { id: "webdataset", revision: 1, extensions: &["tar"], fields: &[] };

impl Format for WebDataset {
    fn info(&self) -> &'static FormatInfo {
        &INFO
    }

    fn companions(&self) -> &'static [(&'static str, &'static str)] {
        // The indexes of DALI, Energon and packhorse.
        &[("tar", "idx"), ("tar", "tar.idx"), ("tar", "members")]
    }

    /// The shard index of wids.
    fn folder_files(&self) -> &'static [&'static str] {
        &["shardindex.json"]
    }

    fn source(&self, options: &Options, limits: Limits) -> Result<Box<dyn Source>> {
        options.only(&[])?;
        Ok(Box::new(source::TarSource { limits }))
    }

    fn sink(&self, options: &Options) -> Result<Box<dyn Sink>> {
        Ok(Box::new(sink::TarSink { indexes: options::Indexes::parse(options)? }))
    }

    fn indexer(&self, options: &Options, limits: Limits) -> Result<Box<dyn Indexer>> {
        Ok(Box::new(indexer::TarIndexer { indexes: options::Indexes::parse(options)?, limits }))
    }

    fn check(
        &self,
        input: &dyn Input,
        _: &Options,
        consumers: &[Consumer],
        findings: &mut Findings,
        each_key: &mut dyn FnMut(&str),
    ) -> Result<()> {
        check::check(input, Limits::default(), consumers, findings, each_key)
    }
}
