//! Fields of which nothing was packed.

use packhorse_core::{Limits, Result, Store};
use packhorse_dataset::{INDEX_SUFFIX, Manifest, decode_index};
use std::path::Path;

/// Leaves out fields that only samples had which were skipped while they were packed (pictures that can't be decoded, say): no
/// member of a shard has them. Shards of columns have these in any case.
pub(crate) fn leave_out(store: &dyn Store, out: &Path, manifest: &mut Manifest) -> Result<()> {
    if manifest.skipped == 0 || manifest.samples == 0 {
        return Ok(());
    }
    let optional = manifest.schema.iter().filter(|field| field.nullable);
    let mut lost: Vec<String> = optional.map(|field| field.name.clone()).collect();
    for shard in &manifest.shards {
        if lost.is_empty() {
            return Ok(());
        }
        let index = match store.open(&out.join(format!("{}{INDEX_SUFFIX}", shard.name))) {
            Err(error) if error.is_not_found() => return Ok(()),
            index => index?,
        };
        let limits = Limits::default();
        let members = decode_index(&index.read_all(limits.blob)?, &limits).map_err(|e| e.in_input(index.name()))?;
        // Typed values have a name with an extension: `x.npy`.
        let is_of = |stored: &str, name: &str| {
            stored == name || stored.rsplit_once('.').is_some_and(|(before, _)| before == name)
        };
        for (_, sample) in members.iter() {
            if lost.is_empty() {
                break;
            }
            let held: Vec<_> = sample.map(|member| member.field).collect();
            lost.retain(|name| !held.iter().any(|stored| is_of(stored, name)));
        }
    }
    manifest.schema.retain(|field| !lost.contains(&field.name));
    Ok(())
}
