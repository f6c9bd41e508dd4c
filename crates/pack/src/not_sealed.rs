//! The error of a folder that has no manifest: an unfinished dataset, or none at all.

use packhorse_core::{Code, Error, Kind, Store};
use packhorse_dataset::{PLAN, RECEIPT_SUFFIX};
use std::path::Path;

/// Why the folder `dir`, which has no manifest, can't be read as a dataset: one with a plan or receipts is not sealed
/// (`Incomplete`), any other holds no dataset (`Config`), and `otherwise` says what to do then.
pub fn not_sealed(store: &dyn Store, dir: &Path, otherwise: &str) -> Error {
    let begun = |name: &Path| name == Path::new(PLAN) || name.to_string_lossy().ends_with(RECEIPT_SUFFIX);
    let error = match store.list(dir).is_ok_and(|names| names.iter().any(|name| begun(name))) {
        true => Error::new(Kind::Incomplete, "is not sealed: it has no dataset.json")
            .with_code(Code::NotSealed)
            .hint("run `packhorse seal`, or see `packhorse status`"),
        false => Error::config("is a folder without a dataset").with_code(Code::NoDataset).hint(otherwise),
    };
    error.in_input(dir.display())
}
