//! The members of a container, found from its headers.

use crate::{Code, Error, Input, Members, Result, Source, split_name};
use std::collections::BTreeMap;

impl Members {
    /// The members of a container whose fields are ranges of bytes: consecutive ones with one key are a sample. Reads
    /// headers only, so the members' checksums are 0.
    ///
    /// Errors: those of [`Source::list`]; `Content` for a sample with a field twice; `Unsupported` for 65,536 different fields and more.
    pub fn list(source: &dyn Source, input: &dyn Input) -> Result<Self> {
        // The key of each sample, and field, offset and length of its members.
        type Found = (String, Vec<(u16, u64, u64)>);
        let mut found: Vec<Found> = Vec::new();
        let mut fields: BTreeMap<String, u16> = BTreeMap::new();
        // The sample, counted from 1, that had each field last.
        let mut last: Vec<usize> = Vec::new();
        source.list(input, &mut |entry| {
            let Ok(name) = split_name(entry.name) else { return Ok(()) };
            let extent = entry.extent.map_err(|error| error.in_sample(&name.key))?;
            let next =
                u16::try_from(fields.len()).map_err(|_| Error::unsupported("has 65,536 different fields and more"));
            let field = match fields.get(&name.field) {
                Some(field) => *field,
                None => *fields.entry(name.field).or_insert(next?),
            };
            match found.last_mut() {
                Some((key, list)) if *key == name.key => list.push((field, extent.offset, extent.len)),
                _ => found.push((name.key, vec![(field, extent.offset, extent.len)])),
            }
            last.resize(fields.len(), 0);
            match last.get_mut(usize::from(field)).map(|last| std::mem::replace(last, found.len())) {
                Some(before) if before == found.len() => {
                    let key = found.last().map(|(key, _)| key.as_str()).unwrap_or_default();
                    Err(Error::content("has a field twice").with_code(Code::KeyTwice).in_sample(key))
                }
                _ => Ok(()),
            }
        })?;
        let mut names = vec![String::new(); fields.len()];
        for (name, at) in fields {
            if let Some(place) = names.get_mut(usize::from(at)) {
                *place = name;
            }
        }
        let mut members = Self::new(names);
        for (key, list) in found {
            members.push_sample(&key);
            list.into_iter().for_each(|(field, offset, len)| members.push_member(field, offset, len, 0));
        }
        Ok(members)
    }
}
