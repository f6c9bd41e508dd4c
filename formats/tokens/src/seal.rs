//! The list of shards for Megatron's `--data-args-path`.

use packhorse_core::{Context, Outlet, Result, Sealed};
use std::collections::BTreeMap;
use std::io::Write;

/// Writes `data-path.txt`, or one file per split: for each shard a line with its tokens as the weight and its name as
/// the prefix. Shards without tokens are left out, since Megatron refuses them.
pub(crate) fn seal(dataset: &Sealed<'_>, out: &mut dyn Outlet) -> Result<()> {
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    for shard in dataset.shards {
        let name = match &shard.split {
            Some(split) => format!("data-path.{split}.txt"),
            None => "data-path.txt".to_owned(),
        };
        let text = files.entry(name).or_default();
        let tokens = shard.counts.get("tokens").copied().unwrap_or_default();
        if tokens > 0 {
            text.push_str(&format!("{tokens} {}\n", shard.name));
        }
    }
    for (name, text) in files {
        let mut file = out.stream(&name)?;
        file.write_all(text.as_bytes()).and_then(|()| file.flush()).context("write")?;
    }
    Ok(())
}
