//! Indexes of third-party tars.
//!
//! Names are split by the rule of the Python package `webdataset`, which Energon has too, and are kept as they are: the
//! indexes must say what those readers find. Nothing is escaped, lowered or sorted.

use crate::options::Indexes;
use crate::source::{check_ending, unsupported_member};
use crate::tar_reader::{Ending, TarReader};
use crate::{dali, energon, wids};
use md5::{Digest, Md5};
use packhorse_core::{Code, Error, Indexer, Input, Limits, Members, Outlet, Result, Sealed, ShardSummary};
use std::collections::BTreeMap;

pub(crate) struct TarIndexer {
    pub(crate) indexes: Indexes,
    pub(crate) limits: Limits,
}

impl Indexer for TarIndexer {
    fn list(&self, input: &dyn Input) -> Result<ShardSummary> {
        let Some(bytes) = input.len() else {
            let message = "is compressed, and readers with an index need a plain tar; decompress it first";
            return Err(Error::unsupported(message).in_input(input.name()));
        };
        let members = list(input, self.limits).map_err(|e| e.in_input(input.name()))?;
        if members.samples() == 0 {
            let message = "holds no sample, which DALI and Energon refuse; leave it out";
            return Err(Error::content(message).in_input(input.name()));
        }
        let md5 = if self.indexes.md5 { Some((wids::MD5.to_owned(), digest(input, bytes)?)) } else { None };
        Ok(ShardSummary {
            samples: members.samples() as u64,
            bytes,
            notes: md5.into_iter().collect(),
            members: Some(members),
            ..ShardSummary::default()
        })
    }

    fn shard(&self, shard: &ShardSummary, out: &mut dyn Outlet) -> Result<()> {
        let members = shard.members.as_ref().ok_or_else(|| Error::bug("a shard without its members"))?;
        if self.indexes.dali {
            dali::write(members, &mut *out.stream(".idx")?)?;
        }
        if self.indexes.energon {
            energon::write(members, shard.bytes, &mut *out.stream(".tar.idx")?)?;
        }
        Ok(())
    }

    fn dataset(&self, dataset: &Sealed<'_>, out: &mut dyn Outlet) -> Result<()> {
        self.indexes.seal(dataset, out)
    }
}

/// The members of a tar as samples: consecutive ones of one key.
fn list(input: &dyn Input, limits: Limits) -> Result<Members> {
    let mut walk = TarReader::new(input, limits)?;
    let mut found = FoundSamples::default();
    while let Some(member) = walk.next()? {
        let shown = || member.name.escape_ascii();
        if member.sparse {
            return Err(Error::content(unsupported_member(&member)).in_sample(shown()));
        }
        if !member.is_regular() || is_reserved(&member.name) {
            continue;
        }
        let Some((key, field)) = split(&member.name) else { continue };
        let (Ok(key), Ok(field)) = (std::str::from_utf8(key), std::str::from_utf8(field)) else {
            let message = "has a name that is not UTF-8, which indexes can't hold; pack the tar again";
            return Err(Error::content(message).with_code(Code::BadName).in_sample(shown()));
        };
        found.add((key, field), member.start, (member.data, member.size)).map_err(|e| e.in_sample(shown()))?;
    }
    check_ending(&walk)?;
    let end = match walk.ending {
        Some(Ending::Marked(at) | Ending::Bare(at) | Ending::Followed(at)) => at,
        None => return Err(Error::bug("a tar was not read to its end")),
    };
    Ok(found.members(end))
}

/// Samples in the order of the tar.
#[derive(Default)]
struct FoundSamples {
    fields: BTreeMap<String, u16>,
    /// Key, and the number of members up to its end.
    keys: Vec<(String, usize)>,
    /// Field, offset, length.
    members: Vec<(u16, u64, u64)>,
    starts: Vec<u64>,
}

impl FoundSamples {
    fn add(&mut self, (key, field): (&str, &str), start: u64, (offset, len): (u64, u64)) -> Result<()> {
        let field = match self.fields.get(field) {
            Some(number) => *number,
            None => {
                let number = u16::try_from(self.fields.len())
                    .map_err(|_| Error::unsupported("is of one more field than 65,536, the most of a shard"))?;
                self.fields.insert(field.to_owned(), number);
                number
            }
        };
        self.members.push((field, offset, len));
        match self.keys.last_mut() {
            Some((last, end)) if last == key => *end = self.members.len(),
            _ => {
                self.keys.push((key.to_owned(), self.members.len()));
                self.starts.push(start);
            }
        }
        Ok(())
    }

    fn members(mut self, end: u64) -> Members {
        let mut names: Vec<(u16, String)> = self.fields.into_iter().map(|(name, number)| (number, name)).collect();
        names.sort_unstable();
        let mut members = Members::new(names.into_iter().map(|(_, name)| name).collect());
        let mut from = 0;
        for (key, to) in &self.keys {
            members.push_sample(key);
            for (field, offset, len) in self.members.get(from..*to).unwrap_or_default() {
                members.push_member(*field, *offset, *len, 0);
            }
            from = *to;
        }
        self.starts.push(end);
        members.with_bounds(self.starts)
    }
}

/// Key and field of a name: `^((?:.*/|)[^.]+)[.]([^/]*)$`. `None` where the name does not match, or ends with the dot.
fn split(name: &[u8]) -> Option<(&[u8], &[u8])> {
    let base = name.iter().rposition(|b| *b == b'/').map_or(0, |slash| slash + 1);
    let dot = base + name.get(base..)?.iter().position(|b| *b == b'.')?;
    let (key, field) = (name.get(..dot)?, name.get(dot + 1..).filter(|field| !field.is_empty())?);
    if dot > base {
        return Some((key, field));
    }
    // The rule takes a folder without a dot for the stem of a hidden file in it.
    let folder = name.get(..base.checked_sub(1)?)?.rsplit(|b| *b == b'/').next()?;
    (!folder.contains(&b'.')).then_some((key, field))
}

/// Whether readers keep such names for themselves: `__[^/]*__($|/)`.
fn is_reserved(name: &[u8]) -> bool {
    let first = name.split(|b| *b == b'/').next().unwrap_or_default();
    first.len() >= 4 && first.starts_with(b"__") && first.ends_with(b"__")
}

/// The MD5 of all bytes, in hexadecimal.
fn digest(input: &dyn Input, len: u64) -> Result<String> {
    let mut md5 = Md5::new();
    input.each_piece(0..len, &mut |piece| {
        md5.update(piece);
        Ok(())
    })?;
    Ok(wids::hexadecimal(md5))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_split_as_readers_do() {
        let text = |name: &str| {
            let (key, field) = split(name.as_bytes())?;
            Some(format!("{}|{}", str::from_utf8(key).unwrap(), str::from_utf8(field).unwrap()))
        };
        for (name, wanted) in [
            ("a.jpg", Some("a|jpg")),
            ("a.seg.PNG", Some("a|seg.PNG")),
            ("d/a.jpg", Some("d/a|jpg")),
            ("v1.2/a.jpg", Some("v1.2/a|jpg")),
            ("./a.jpg", Some("./a|jpg")),
            ("README", None),
            ("d.e/README", None),
            (".a.jpg", None),
            ("d/.a.jpg", Some("d/|a.jpg")),
            ("c.d/.a.jpg", None),
            ("c.d/e/.a.jpg", Some("c.d/e/|a.jpg")),
            ("a.", None),
            ("", None),
        ] {
            assert_eq!(text(name).as_deref(), wanted, "{name}");
        }
        let reserved = ["__meta__", "__a__/b.jpg", "____"];
        assert!(reserved.iter().all(|name| is_reserved(name.as_bytes())));
        assert!(!["__a/b__.jpg", "a__", "__", "___"].iter().any(|name| is_reserved(name.as_bytes())));
    }
}
