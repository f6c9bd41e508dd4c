//! The error of a folder that has no manifest: an unfinished dataset, or none at all.

use crate::{CACHE_MARK, PART, PLAN, RECEIPT_SUFFIX};
use packhorse_core::{Code, Error, Kind, Store};
use std::path::Path;

/// Whether a file of this name is only in folders that packing has begun to fill: the plan, or a receipt.
pub fn is_of_packing(name: &Path) -> bool {
    name == Path::new(PLAN) || name.to_string_lossy().ends_with(RECEIPT_SUFFIX)
}

/// Why the folder `dir`, which has no manifest, can't be read as a dataset: one with a plan or receipts is not sealed
/// (`Incomplete`), any other holds no dataset (`Config`), and `otherwise` says what to do then.
pub fn not_sealed(store: &dyn Store, dir: &Path, otherwise: &str) -> Error {
    if let Some(error) = staged(store, dir) {
        return error;
    }
    let begun = store.list(dir).is_ok_and(|names| names.iter().any(|name| is_of_packing(name)));
    let error = match begun {
        true => Error::new(Kind::Incomplete, "is not sealed: it has no dataset.json")
            .with_code(Code::NotSealed)
            .hint("run the command that packs it again, or `packhorse seal` if all shards are there; `packhorse status` names those that are missing"),
        false => Error::config("is a folder without a dataset").with_code(Code::NoDataset).hint(otherwise),
    };
    error.in_input(dir.display())
}

/// The error of a folder of copies that `packhorse stage` or a cache made: of some shards, or of all but for the manifest.
pub fn staged(store: &dyn Store, dir: &Path) -> Option<Error> {
    let is_there = |name: &str| store.stat(&dir.join(name), true).is_ok();
    if ![CACHE_MARK, PART].iter().any(|name| is_there(name)) {
        return None;
    }
    let message = "holds copies of shards, and not all of a dataset";
    let hint =
        "`packhorse stage` copies the rest; or open the dataset itself, with this folder as the cache of the reader";
    let error = Error::new(Kind::Incomplete, message).with_code(Code::NotSealed).hint(hint);
    Some(error.in_input(dir.display()))
}
