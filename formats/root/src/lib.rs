//! ROOT files of CERN, read as typed columns.

mod basket;
mod builtin;
mod bytes;
mod compression;
mod decode;
mod element;
mod file;
mod interpret;
mod nested;
mod ntuple;
mod object;
mod options;
mod range;
mod report;
mod rows;
mod source;
mod streamer;
mod table;
mod tree;
mod typename;

pub use report::BranchReport;

use options::Wanted;
use packhorse_core::{Format, FormatInfo, Input, Limits, Options, Result, Source};

/// The format `root`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Root;

static INFO: FormatInfo = FormatInfo { id: "root", revision: 1, extensions: &["root"], fields: &[] };

impl Format for Root {
    fn info(&self) -> &'static FormatInfo {
        &INFO
    }

    fn source(&self, options: &Options, limits: Limits) -> Result<Box<dyn Source>> {
        Ok(Box::new(source::RootSource { wanted: Wanted::parse(options)?, limits }))
    }
}

impl Root {
    /// Every tree and RNTuple of `input`, as `path;cycle`, for the option `tree`.
    pub fn trees(input: &dyn Input, limits: Limits) -> Result<Vec<String>> {
        let file = file::RootFile::open(input, limits)?;
        let items = table::tables(&file)?;
        Ok(items.into_iter().map(|item| format!("{};{}", item.path, item.key.cycle)).collect())
    }

    /// What becomes of every branch of the tree that `options` choose, whatever `branches` they want.
    pub fn report(input: &dyn Input, options: &Options, limits: Limits) -> Result<Vec<BranchReport>> {
        let wanted = Wanted::parse(options)?.everything();
        table::Table::open(input, &wanted, limits).map(|table| table.reports).map_err(|e| e.in_input(input.name()))
    }
}
