//! The index of `wids`, version 1: one JSON file for the dataset, or for each split.

use md5::{Digest, Md5};
use packhorse_core::{Context, Error, Outlet, Result, Sealed};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::Write;

/// The note that carries a shard's MD5 from the writer to the seal.
pub(crate) const MD5: &str = "md5";

/// The digest as `wids` writes it.
pub(crate) fn hexadecimal(md5: Md5) -> String {
    md5.finalize().iter().map(|b| format!("{b:02x}")).collect()
}

#[derive(Serialize)]
struct Index<'a> {
    __kind__: &'static str,
    wids_version: u32,
    shardlist: &'a [Shard],
    name: &'a str,
}

#[derive(Serialize)]
struct Shard {
    url: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    md5sum: Option<String>,
    nsamples: u64,
    filesize: u64,
}

pub(crate) fn seal(dataset: &Sealed<'_>, out: &mut dyn Outlet) -> Result<()> {
    let mut splits: BTreeMap<Option<String>, Vec<Shard>> = BTreeMap::new();
    for shard in dataset.shards {
        let url = format!("{}.tar", shard.name);
        let entry =
            Shard { url, md5sum: shard.notes.get(MD5).cloned(), nsamples: shard.samples, filesize: shard.bytes };
        splits.entry(shard.split.clone()).or_default().push(entry);
    }
    for (split, shards) in &splits {
        let (file, name) = match split {
            None => ("shardindex.json".to_owned(), dataset.name.to_owned()),
            Some(split) => (format!("shardindex-{split}.json"), format!("{}-{split}", dataset.name)),
        };
        let index = Index { __kind__: "wids-shard-index-v1", wids_version: 1, shardlist: shards, name: &name };
        let json = serde_json::to_vec_pretty(&index).map_err(|e| Error::bug(e.to_string()))?;
        out.stream(&file)?.write_all(&json).context("write the wids index")?;
    }
    Ok(())
}
