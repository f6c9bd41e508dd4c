//! Packing.
#![expect(dead_code, unused_variables, reason = "compiled, not run")]

use packhorse::core::Result;
use packhorse::{Labels, Recipe};

fn readme() -> Result<()> {
    let recipe = Recipe::new("photos", "webdataset", "shards").labels(Labels::Folders).shuffle(7);
    let report = packhorse::session().pack(&recipe)?;
    Ok(())
}
