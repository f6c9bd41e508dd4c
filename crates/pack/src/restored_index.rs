//! Member indexes that are made again from their shards, without inputs.

use crate::data_pass::DataPass;
use crate::input_format::{NameRules, container, open};
use crate::pack_context::PackContext;
use crate::recorded_files::check_file;
use crate::stored_plan::receipt_and_digest;
use packhorse_core::{Kind, Limits, Members, Options, Result};
use packhorse_dataset::{Digest, INDEX_SUFFIX, encode_index};
use packhorse_storage::Staging;
use std::collections::BTreeSet;
use std::path::Path;

/// Makes the member index of the shard called `shard` in `out` again, if that is missing or damaged, and the shard is whole.
/// `recorded`: the digest of its receipt, as the manifest has it; `fields`: those of the dataset, of which the shard may lack some.
/// Returns whether it did: only the recorded bytes are written.
pub(crate) fn restore_index(
    context: &PackContext<'_>,
    out: &Path,
    (shard, recorded): (&str, Option<Digest>),
    fields: &[&str],
    staging: &Staging,
) -> Result<bool> {
    let store = &*context.store;
    let Ok((receipt, digest)) = receipt_and_digest(store, out, shard) else { return Ok(false) };
    let name = format!("{shard}{INDEX_SUFFIX}");
    let (Some(index), true) = (receipt.files.iter().find(|file| file.name == name), recorded == Some(digest)) else {
        return Ok(false);
    };
    match check_file(store, &out.join(&name), index, context.cancel) {
        Err(e) if e.kind() == Kind::Incomplete || e.is_unreadable() => {}
        whole => return whole.map(|()| false),
    }
    let data = receipt.data()?;
    let path = out.join(&data.name);
    let Some((format, compression)) = container(context.registry, &NameRules::default(), &path) else {
        return Ok(false);
    };
    let listed = || -> Result<Option<Members>> {
        let input = open(store, &path, compression)?;
        let mut members = Members::list(&*format.source(&Options::new(), Limits::default())?, &*input)?;
        let (found, checksums) = DataPass::new(Some(&members)).run(&*input, &mut |_| context.cancel.check())?;
        members.set_checksums(checksums)?;
        Ok((found == data.blake3).then_some(members))
    };
    // A shard that can't be read, or has other bytes, is packed again.
    let members = match listed() {
        Err(e) if e.kind() == Kind::Cancelled => return Err(e),
        listed => listed.ok().flatten(),
    };
    let orders = members.iter().flat_map(|members| [members.clone(), by_name(members, &[]), by_name(members, fields)]);
    let encoded = orders.map(|members| encode_index(&members)).find(|bytes| Digest::of(bytes) == index.blake3);
    match encoded {
        Some(bytes) => staging.document(&name, &bytes).map(|_| true),
        None => Ok(false),
    }
}

/// The same members, with the names of their fields and of others sorted.
fn by_name(members: &Members, others: &[&str]) -> Members {
    let own = members.iter().flat_map(|(_, list)| list.map(|member| member.field));
    let names: Vec<&str> = own.chain(others.iter().copied()).collect::<BTreeSet<_>>().into_iter().collect();
    let mut sorted = Members::new(names.iter().map(|name| (*name).to_owned()).collect());
    for (key, list) in members.iter() {
        sorted.push_sample(key);
        for member in list {
            let number = names.binary_search(&member.field).unwrap_or_default() as u16;
            sorted.push_member(number, member.offset, member.len, member.crc32c);
        }
    }
    sorted
}
