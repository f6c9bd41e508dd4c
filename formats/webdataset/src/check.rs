//! Checks any tar shard for what the ecosystem's readers reject or read wrongly.

use crate::tar_header::{NAME_LIMIT, SIZE_LIMIT};
use crate::tar_reader::{Ending, TarMember, TarReader};
use packhorse_core::{Consumer, Findings, Input, Kind, Limits, MemberName, Result, split_name};
use std::collections::{BTreeSet, HashSet};

use Consumer::{Dali, Energon, HuggingFace, WebDataset, Wids};
const ALL: &[Consumer] = &Consumer::ALL;

pub(crate) fn check(
    input: &dyn Input,
    limits: Limits,
    wanted: &[Consumer],
    findings: &mut Findings,
    each_key: &mut dyn FnMut(&str),
) -> Result<()> {
    let mut report = Report { wanted, findings };
    if input.len().is_none() {
        report.add(&[Wids, Dali, Energon], None, "is compressed, which only webdataset and Hugging Face can read");
    }
    let (mut samples, mut arrays) = (Samples::default(), BTreeSet::new());
    let mut walk = TarReader::new(input, limits)?;
    loop {
        match walk.next() {
            Ok(Some(member)) => {
                report.header(&member);
                report.name(&member, &mut samples, each_key);
                report.array(&member, input, &mut arrays)?;
            }
            Ok(None) => break,
            Err(e) if matches!(e.kind(), Kind::Content | Kind::Limit | Kind::Unsupported) => {
                report.damage(&e.text());
                return Ok(());
            }
            Err(e) => return Err(e),
        }
    }
    samples.end(&mut report);
    report.ending(walk.ending, input.len());
    Ok(())
}

struct Report<'a> {
    wanted: &'a [Consumer],
    findings: &'a mut Findings,
}

impl Report<'_> {
    fn add(&mut self, who: &[Consumer], member: Option<&[u8]>, problem: &str) {
        let concerned: Vec<Consumer> = who.iter().copied().filter(|c| self.wanted.contains(c)).collect();
        if !concerned.is_empty() {
            self.findings.add(&concerned, member, problem);
        }
    }

    fn damage(&mut self, problem: &str) {
        self.findings.add(&[], None, problem);
    }

    fn header(&mut self, member: &TarMember) {
        let name = Some(&member.name[..]);
        if member.sparse {
            self.add(ALL, name, "is a sparse file: readers return other bytes than the file's, or none");
        } else if !member.is_regular() && !member.is_passed_over() {
            self.add(ALL, name, "is not a regular file: readers skip it or return nothing");
        }
        if member.dialect.pax_path {
            self.add(&[Wids], name, "has its name in a PAX header: wids finds no sample");
        } else if member.dialect.pax {
            self.add(&[WebDataset], name, "has a PAX header: 1,024 bytes more and half the reading speed");
        }
        if member.dialect.gnu_long_name {
            self.add(
                &[Wids, Dali],
                name,
                "has a GNU long name: wids finds no sample, DALI's indexer returns wrong bytes",
            );
        }
        if member.dialect.prefix {
            self.add(&[Wids], name, "has a name that wids cuts at the prefix field");
        }
        if member.name.len() > NAME_LIMIT && !member.dialect.pax_path && !member.dialect.gnu_long_name {
            self.add(&[Wids], name, "has a name of over 100 bytes");
        }
        if member.size > SIZE_LIMIT {
            self.add(&[Wids, Dali], name, "is 8 GiB or larger");
        }
    }

    fn name(&mut self, member: &TarMember, samples: &mut Samples, each_key: &mut dyn FnMut(&str)) {
        if !member.is_regular() {
            return;
        }
        let raw = &member.name[..];
        let Some((key, field)) = split_raw(raw) else {
            self.add(ALL, Some(raw), "has no extension, so no reader sees a field");
            return;
        };
        self.key(raw, key);
        if [&b"__key__"[..], b"__url__", b"__local_path__"].contains(&field) {
            self.add(
                &[WebDataset, HuggingFace],
                Some(raw),
                "is a field that the reader makes itself, so that it refuses this one",
            );
        }
        if field.iter().any(u8::is_ascii_uppercase) {
            self.add(
                &[WebDataset, Dali],
                Some(raw),
                "has upper case in its field: webdataset lowers it, DALI does not find it",
            );
        }
        self.content(member, raw, field);
        samples.member(self, raw, key, field, each_key);
    }

    fn key(&mut self, raw: &[u8], key: &[u8]) {
        let base = key.rsplit(|b| *b == b'/').next().unwrap_or_default();
        if raw.starts_with(b"./") {
            self.add(&[Wids, Energon], Some(raw), "starts with ./, which becomes part of the key");
        } else if key.contains(&b'.') {
            self.add(
                &[HuggingFace, Energon, Dali],
                Some(raw),
                "has a dot in its folder's name: readers split it differently",
            );
        }
        if key.iter().any(u8::is_ascii_whitespace) {
            self.add(&[Dali], Some(raw), "has white space in its name, and DALI's index is split on it");
        }
        if base.starts_with(b"__") {
            self.add(&[WebDataset, Energon, HuggingFace], Some(raw), "starts with the reserved __");
        }
        if base.is_empty() {
            self.add(ALL, Some(raw), "is a hidden file");
        }
        if std::str::from_utf8(raw).is_err() {
            self.add(ALL, Some(raw), "has a name that is not UTF-8");
        }
    }

    fn content(&mut self, member: &TarMember, raw: &[u8], field: &[u8]) {
        if member.size == 0 && (field == b"cls" || field == b"json") {
            self.add(&[WebDataset, HuggingFace], Some(raw), "is empty and can't be decoded");
        }
    }

    /// Looks at the type of the first array of each field.
    fn array(&mut self, member: &TarMember, input: &dyn Input, seen: &mut BTreeSet<Vec<u8>>) -> Result<()> {
        let field = split_raw(&member.name).map_or(&b""[..], |(_, field)| field);
        let is_array = member.is_regular() && field.ends_with(b"npy") && self.wanted.contains(&HuggingFace);
        if !is_array || input.len().is_none() || !seen.insert(field.to_vec()) {
            return Ok(());
        }
        let mut head = vec![0; usize::try_from(member.size).unwrap_or(NPY_HEAD).min(NPY_HEAD)];
        input.read_at(member.data, &mut head)?;
        if head.starts_with(b"\x93NUMPY") && !is_of_arrow(&String::from_utf8_lossy(&head)) {
            let problem = "is an array of a type that Arrow does not take from NumPy: complex, long double, objects, \
                           structured or raw bytes, big-endian, or times in days, hours or minutes";
            self.add(&[HuggingFace], Some(&member.name), problem);
        }
        Ok(())
    }

    fn ending(&mut self, ending: Option<Ending>, len: Option<u64>) {
        match (ending, len) {
            (Some(Ending::Bare(_)), _) => {
                self.damage(
                    "has no end-of-archive marker: it may be cut between two members, which readers do not notice",
                );
            }
            (Some(Ending::Marked(at)), Some(len)) if len < at + 1024 => {
                self.damage("has half an end-of-archive marker");
            }
            (Some(Ending::Followed(_)), _) => {
                self.add(
                    ALL,
                    None,
                    "continues after the end-of-archive marker, where readers stop (concatenated tars?)",
                );
            }
            _ => {}
        }
    }
}

/// Bytes of an array's header that tell its type.
const NPY_HEAD: usize = 256;

/// Whether pyarrow makes an array of the NumPy type in this header.
fn is_of_arrow(head: &str) -> bool {
    let descr = head.split_once("'descr':").map_or("", |(_, rest)| rest.trim_start());
    let Some(name) = descr.strip_prefix('\'').and_then(|rest| rest.split('\'').next()) else { return false };
    let is_wide = !name.ends_with('1');
    match name.split_at_checked(1) {
        Some((">", _)) if is_wide => false,
        Some((_, kind)) if kind.starts_with(['c', 'O', 'V']) || kind == "f16" => false,
        Some((_, kind)) if kind.starts_with(['M', 'm']) => {
            ["[s]", "[ms]", "[us]", "[ns]"].iter().any(|unit| kind.ends_with(unit))
        }
        _ => true,
    }
}

/// Key and field without escaping, split by the readers' rule.
fn split_raw(name: &[u8]) -> Option<(&[u8], &[u8])> {
    let base = name.iter().rposition(|b| *b == b'/').map_or(0, |slash| slash + 1);
    let dot = base + name.get(base..)?.iter().position(|b| *b == b'.')?;
    let field = name.get(dot + 1..).filter(|field| !field.is_empty())?;
    Some((name.get(..dot)?, field))
}

/// Checks that the members of a sample are adjacent, and that all samples have the same fields.
#[derive(Default)]
struct Samples {
    seen: HashSet<u64>,
    key: Vec<u8>,
    fields: BTreeSet<Vec<u8>>,
    first: Option<BTreeSet<Vec<u8>>>,
}

impl Samples {
    fn member(
        &mut self,
        report: &mut Report<'_>,
        raw: &[u8],
        key: &[u8],
        field: &[u8],
        each_key: &mut dyn FnMut(&str),
    ) {
        if key != self.key || self.fields.is_empty() {
            self.end(report);
            self.key = key.to_vec();
            if !self.seen.insert(hash(key)) {
                report.add(
                    ALL,
                    Some(raw),
                    "belongs to a sample whose other members are not adjacent: readers see two samples",
                );
            } else if let Ok(MemberName { key, .. }) = split_name(raw) {
                each_key(&key);
            }
        }
        if !self.fields.insert(field.to_vec()) {
            report.add(
                &[WebDataset, HuggingFace],
                Some(raw),
                "occurs twice: webdataset and Hugging Face raise an error",
            );
        }
    }

    fn end(&mut self, report: &mut Report<'_>) {
        let fields = std::mem::take(&mut self.fields);
        if fields.is_empty() {
            return;
        }
        match &self.first {
            None => self.first = Some(fields),
            Some(first) if *first != fields => {
                let problem = "has other fields than the first sample: Hugging Face refuses the shard";
                report.add(&[HuggingFace], Some(&self.key), problem);
            }
            Some(_) => {}
        }
    }
}

fn hash(key: &[u8]) -> u64 {
    use std::hash::{DefaultHasher, Hasher};
    let mut hasher = DefaultHasher::new();
    hasher.write(key);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::is_of_arrow;

    /// As `datasets` 4 and pyarrow take them.
    #[test]
    fn types_of_arrays_that_arrow_refuses_are_known() {
        let head =
            |descr: &str| format!("\u{93}NUMPY\u{1}\0v\0{{'descr': {descr}, 'fortran_order': False, 'shape': (1,), }}");
        for taken in
            ["'<f8'", "'|u1'", "'|b1'", "'<f2'", "'|S3'", "'<U3'", "'<M8[s]'", "'<M8[ns]'", "'<m8[s]'", "'<u8'"]
        {
            assert!(is_of_arrow(&head(taken)), "{taken}");
        }
        let refused =
            ["'<c8'", "'|V2'", "'<M8[D]'", "'<M8[h]'", "'>f4'", "'<f16'", "'|O'", "[('a', '<i4'), ('b', '<f4')]", ""];
        for refused in refused {
            assert!(!is_of_arrow(&head(refused)), "{refused}");
        }
    }
}
