//! The receipt of a sealed shard, which ties the files beside a shard to the manifest.

use packhorse_core::{Error, Kind, Result, Store};
use packhorse_dataset::{Digest, RECEIPT_SUFFIX, Receipt, ShardRecord};
use std::path::{Path, PathBuf};

/// The maximum size of a receipt, in bytes.
const LARGEST: u64 = 1 << 30;

/// Where the receipt of a sealed shard is, and its digest in the manifest.
#[derive(Clone)]
pub(crate) struct Committed {
    path: PathBuf,
    digest: Digest,
}

impl Committed {
    pub(super) fn new(dir: &Path, record: &ShardRecord) -> Self {
        Self { path: dir.join(format!("{}{RECEIPT_SUFFIX}", record.name)), digest: record.receipt }
    }

    /// The receipt; `None` if it is missing. An error if it isn't that of the manifest: a dataset that is replaced, or
    /// of which some files were copied from another version, would mix samples of both.
    pub(super) fn read(&self, store: &dyn Store) -> Result<Option<Receipt>> {
        let bytes = match store.open(&self.path).and_then(|input| input.read_all(LARGEST)) {
            Err(error) if error.is_not_found() => return Ok(None),
            bytes => bytes?,
        };
        if Digest::of(&bytes) != self.digest {
            let error = Error::new(
                Kind::Changed,
                "is not the receipt that the manifest knows: the shard is of another version",
            );
            let hint = "open the dataset again if it was replaced; else `packhorse verify` says which files differ";
            return Err(error.hint(hint).in_input(self.path.display()));
        }
        Receipt::decode(&bytes).map(Some).map_err(|error| error.in_input(self.path.display()))
    }
}
