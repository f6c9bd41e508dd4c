//! status: how far a dataset is.

use crate::resume::{open_plan, valid_receipt};
use packhorse_core::{Result, Store};
use packhorse_dataset::{Digest, MANIFEST};
use std::path::Path;

/// How far a dataset is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The plan's logical digest.
    pub plan: Digest,
    /// Planned shards.
    pub shards: u64,
    /// Planned samples; `None` where they are not all counted.
    pub samples: Option<u64>,
    /// Samples in complete shards.
    pub packed: u64,
    /// Names of the shards without a valid receipt, in plan order.
    pub missing: Vec<String>,
    /// Whether there is a manifest.
    pub sealed: bool,
}

/// Looks at the receipts in the folder `out`. Reads no shard.
pub fn status(store: &dyn Store, out: &Path) -> Result<Status> {
    let plan = open_plan(store, out)?;
    let (mut packed, mut missing) = (0, Vec::new());
    for shard in plan.shards() {
        match valid_receipt(store, out, plan.digest(), shard)? {
            Some(receipt) => packed += receipt.samples,
            None => missing.push(shard.name.clone()),
        }
    }
    Ok(Status {
        plan: plan.digest(),
        shards: plan.shards().len() as u64,
        samples: plan.samples(),
        packed,
        missing,
        sealed: store.stat(&out.join(MANIFEST), true).is_ok(),
    })
}
