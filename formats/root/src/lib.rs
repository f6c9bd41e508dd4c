//! ROOT files of CERN, read as typed columns: `TTree` (with `TNtuple`), and RNTuple 1.0.
//!
//! * **Specification**: for RNTuple its
//!   [document](https://github.com/root-project/root/blob/master/tree/ntuple/doc/BinaryFormatSpecification.md);
//!   for the rest [ROOT's notes on its file format](https://root.cern/doc/master/fileformats.html), ROOT's
//!   own streamers, and uproot's reading of them.
//! * **Who else reads it**: ROOT, uproot, Go-HEP, UnROOT.jl, jsroot.
//! * **The bytes**, big-endian but for RNTuple's envelopes and pages:
//!
//!   ```text
//!   "root" version begin end …            100 bytes, places of 4 bytes, or 8 in large files
//!   key, object                           a record: its length, unpacked length, class, name; its bytes,
//!   …                                     packed in blocks of at most 16 MiB, each with 9 bytes of header
//!   key, folder                           the keys of the objects in it
//!   key, list of TStreamerInfo            which members each class has
//!
//!   TTree → TBranch → TLeaf               objects in one record; branches say where their baskets are
//!   key, basket                           the values of consecutive entries, then where each begins
//!
//!   RNTuple → header, footer → page lists → pages     envelopes with checksums, little-endian
//!   ```
//! * **Options** of the source: `tree` (name or path, with `;cycle` if need be; default: the only one),
//!   `branches` (names and globs, separated by commas, those after a `!` left out; default `*`), `unsupported` (`skip` or `fail`; default
//!   `skip`: branches that can't be read are left out, unless one is asked for by its name).
//! * **What becomes what**: `docs/root.md`.
//! * **Revisions**: 1, the first; nothing is written.

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
    /// Every tree and RNTuple of `input`, as `path;cycle`, for the option `tree`.
    pub fn trees(input: &dyn Input, limits: Limits) -> Result<Vec<String>> {
        let items = file::RootFile::open(Arc::new(input), limits).and_then(|file| table::tables(&file));
        let items = items.map_err(|e| e.in_input(input.name()))?;
        Ok(items.into_iter().map(|item| format!("{};{}", item.path, item.key.cycle)).collect())
    }

    /// What becomes of every branch of the tree that `options` choose, whatever `branches` they want.
    pub fn report(input: &dyn Input, options: &Options, limits: Limits) -> Result<Vec<BranchReport>> {
        let wanted = Wanted::parse(options)?.everything();
        let table = table::RootTable::open(Arc::new(input), &wanted, limits).map_err(|e| e.in_input(input.name()))?;
        let mut reports = table.reports;
        reports.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(reports)
    }
}
