//! CERN's ROOT files, read as typed columns: `TTree` (with `TNtuple`) and RNTuple 1.0.
//!
//! * **Specification**: the [RNTuple
//!   specification](https://github.com/root-project/root/blob/master/tree/ntuple/doc/BinaryFormatSpecification.md); for
//!   the rest [ROOT's notes on its file format](https://root.cern/doc/master/fileformats.html), ROOT's streamers, and
//!   uproot as the reference.
//! * **Who else reads it**: ROOT, uproot, Go-HEP, UnROOT.jl, jsroot.
//! * **The bytes**, big-endian except RNTuple's envelopes and pages:
//!
//!   ```text
//!   "root" version begin end …            100 bytes; offsets of 4 bytes, in large files 8
//!   key, object                           a record: length, uncompressed length, class, name; the object,
//!   …                                     compressed in blocks of at most 16 MiB, each with a 9-byte header
//!   key, directory                        the keys of its objects
//!   key, list of TStreamerInfo            the members of each class
//!
//!   TTree → TBranch → TLeaf               objects in one record; branches hold the offsets of their baskets
//!   key, basket                           the values of consecutive entries, then the offset of each
//!
//!   RNTuple → header, footer → page lists → pages     envelopes with checksums, little-endian
//!   ```
//! * **Options**: `tree` (name or path, optionally with `;cycle`; default: the only tree); `branches` (names and globs,
//!   separated by commas, excluded after a `!`; default `*`); `unsupported` (`skip`, the default: branches that can't
//!   be read are omitted unless named exactly; or `fail`); `expansion` (`bounded`, the default: rows of more than 1 GiB, at least
//!   32 bytes each, and more than 10,000 times the file's size are refused; or `any`).
//! * **How types map**: `docs/root.md`.
//! * **Revisions**: 1, the first. Read only.

mod basket;
mod builtin;
mod bytes;
mod compression;
mod decode;
mod element;
mod ends;
mod file;
mod interpret;
mod ntuple;
mod object;
mod objects;
mod options;
mod range;
mod report;
mod rows;
mod shape;
mod source;
mod streamer;
mod table;
mod tree;
mod trial;
mod typename;

pub use report::BranchReport;

use options::Wanted;
use packhorse_core::{Format, FormatInfo, Input, Limits, Options, Result, Source};
use std::sync::Arc;

/// The format `root`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Root;

static INFO: FormatInfo = FormatInfo { id: "root", revision: 1, extensions: &["root"], fields: &[] };

impl Format for Root {
    fn info(&self) -> &'static FormatInfo {
        &INFO
    }

    fn source(&self, options: &Options, limits: Limits) -> Result<Box<dyn Source>> {
        let (wanted, buffers, coders) = (Wanted::parse(options)?, Default::default(), Default::default());
        Ok(Box::new(source::RootSource { wanted, limits, buffers, coders }))
    }
}

impl Root {
    /// Every tree and RNTuple of `input`, as `path;cycle`, the syntax of the option `tree`.
    pub fn trees(input: &dyn Input, limits: Limits) -> Result<Vec<String>> {
        let items = file::RootFile::open(Arc::new(input), limits).and_then(|file| table::tables(&file));
        let items = items.map_err(|e| e.in_input(input.name()))?;
        Ok(items.into_iter().map(|item| format!("{};{}", item.path, item.key.cycle)).collect())
    }

    /// The column type of every branch of the tree that `options` select, or why it can't be read. The option
    /// `branches` is ignored.
    pub fn report(input: &dyn Input, options: &Options, limits: Limits) -> Result<Vec<BranchReport>> {
        let wanted = Wanted::parse(options)?.everything();
        let table = table::RootTable::open(Arc::new(input), &wanted, limits).map_err(|e| e.in_input(input.name()))?;
        let mut reports = table.reports;
        reports.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(reports)
    }
}
