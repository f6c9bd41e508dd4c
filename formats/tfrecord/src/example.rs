//! Encodes and decodes a record: a `tf.train.Example`. Decodes a `tf.train.SequenceExample` too, whose feature lists have a list for each step.

use crate::feature::Feature;
use crate::frame::{HEADER, LONGEST, header, masked};
use crate::wire::{Message, WireValue, delimited, put_head};
use packhorse_core::{Error, Result};
use std::ops::Range;

/// Framed records, concatenated.
#[derive(Default)]
pub(crate) struct EncodedRecords {
    pub(crate) bytes: Vec<u8>,
    /// The end of each frame.
    pub(crate) ends: Vec<usize>,
}

/// Encodes the samples `rows` as framed records into `done`, which is cleared first. `features` must be sorted by name.
pub(crate) fn encode(features: &[Feature], rows: Range<usize>, done: &mut EncodedRecords) -> Result<()> {
    done.bytes.clear();
    done.ends.clear();
    let mut sizes: Vec<Option<Sizes>> = Vec::with_capacity(features.len());
    for row in rows {
        let inside = measure(features, row, &mut sizes)?;
        put_record(features, row, &sizes, inside, &mut done.bytes);
        done.ends.push(done.bytes.len());
    }
    Ok(())
}

/// Refuses sample `row` if its record is longer than readers accept.
pub(crate) fn check(features: &[Feature], row: usize) -> Result<()> {
    measure(features, row, &mut Vec::new()).map(drop)
}

/// The sizes of the features of sample `row`, into `sizes`, and the length of all entries.
fn measure(features: &[Feature], row: usize, sizes: &mut Vec<Option<Sizes>>) -> Result<usize> {
    sizes.clear();
    sizes.extend(features.iter().map(|feature| Sizes::of(feature, row)));
    let inside = sizes.iter().flatten().map(|sizes| delimited(sizes.entry)).sum();
    let len = delimited(inside) as u64;
    match len <= LONGEST {
        true => Ok(inside),
        false => {
            let why = format!("is {len} bytes as an Example, and readers accept at most 2 GiB; split it");
            Err(Error::content(why)
                .hint("`set=tensors=raw` stores tensors of integers shorter; other formats have no such limit"))
        }
    }
}

/// The lengths of the nested messages.
struct Sizes {
    tag: u8,
    list: usize,
    feature: usize,
    entry: usize,
}

impl Sizes {
    fn of(feature: &Feature, row: usize) -> Option<Self> {
        let (tag, list) = feature.size(row)?;
        let inside = delimited(list);
        Some(Self { tag, list, feature: inside, entry: delimited(feature.name.len()) + delimited(inside) })
    }
}

fn put_record(features: &[Feature], row: usize, sizes: &[Option<Sizes>], inside: usize, out: &mut Vec<u8>) {
    let len = delimited(inside);
    out.reserve(len + HEADER + 4);
    out.extend_from_slice(&header(len as u64));
    let start = out.len();
    put_head(out, 0x0a, inside);
    for (feature, sizes) in features.iter().zip(sizes) {
        let Some(sizes) = sizes else { continue };
        put_head(out, 0x0a, sizes.entry);
        put_head(out, 0x0a, feature.name.len());
        out.extend_from_slice(feature.name.as_bytes());
        put_head(out, 0x12, sizes.feature);
        put_head(out, sizes.tag, sizes.list);
        feature.put(row, sizes.list, out);
    }
    let crc = masked(out.get(start..).unwrap_or_default());
    out.extend_from_slice(&crc.to_le_bytes());
}

/// The encoded content of a feature's list, by type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum List<'a> {
    Bytes(&'a [u8]),
    Floats(&'a [u8]),
    Ints(&'a [u8]),
}

/// What a record holds under the name of a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FeatureValue<'a> {
    /// A list.
    One(List<'a>),
    /// The encoded feature list of a `SequenceExample`: a list for each step.
    Steps(&'a [u8]),
}

impl List<'_> {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            List::Bytes(_) => "bytes_list",
            List::Floats(_) => "float_list",
            List::Ints(_) => "int64_list",
        }
    }
}

/// Calls `each` for every feature of the record that has a list, and every feature list. A feature without a list counts as missing, as in
/// TensorFlow.
pub(crate) fn each_feature<'a>(
    record: &'a [u8],
    each: &mut dyn FnMut(&'a str, FeatureValue<'a>) -> Result<()>,
) -> Result<()> {
    let (mut example, mut found, mut unknown) = (Message(record), false, false);
    while let Some((number, value)) = example.next()? {
        match (number, value) {
            (1 | 2, WireValue::Bytes(features)) => {
                let mut features = Message(features);
                while let Some((inner, value)) = features.next()? {
                    let (1, WireValue::Bytes(entry)) = (inner, value) else { continue };
                    let (name, value) = parse_entry(entry)?;
                    let about = |error: Error| error.context(format_args!("feature {name}")).in_field(name);
                    let values = match (number, value) {
                        (1, Some(feature)) => parse_feature(feature).map_err(about)?.map(FeatureValue::One),
                        (_, steps) => steps.map(FeatureValue::Steps),
                    };
                    if let Some(values) = values {
                        found = true;
                        each(name, values)?;
                    }
                }
            }
            _ => unknown = true,
        }
    }
    match unknown && !found {
        true => Err(Error::unsupported(
            "is another message than tf.train.Example and SequenceExample, which alone are read",
        )),
        false => Ok(()),
    }
}

/// Calls `each` for every step of the `FeatureList` in `body`; a step may lack a list.
pub(crate) fn each_step<'a>(body: &'a [u8], mut each: impl FnMut(Option<List<'a>>) -> Result<()>) -> Result<()> {
    let mut steps = Message(body);
    while let Some((number, value)) = steps.next()? {
        match (number, value) {
            (1, WireValue::Bytes(feature)) => each(parse_feature(feature)?)?,
            (1, _) => return Err(Error::content("holds steps that are not features")),
            _ => {}
        }
    }
    Ok(())
}

/// The name and the value of an entry of a map of features or of feature lists.
fn parse_entry(entry: &[u8]) -> Result<(&str, Option<&[u8]>)> {
    let (mut entry, mut name, mut feature) = (Message(entry), &[][..], None);
    while let Some((number, value)) = entry.next()? {
        match (number, value) {
            (1, WireValue::Bytes(bytes)) => name = bytes,
            (2, WireValue::Bytes(bytes)) => feature = Some(bytes),
            _ => {}
        }
    }
    let name = std::str::from_utf8(name).map_err(|_| Error::content("holds a feature whose name is not UTF-8"))?;
    Ok((name, feature))
}

fn parse_feature(feature: &[u8]) -> Result<Option<List<'_>>> {
    let (mut feature, mut list) = (Message(feature), None);
    while let Some((number, value)) = feature.next()? {
        let found = match (number, value) {
            (1, WireValue::Bytes(list)) => List::Bytes(list),
            (2, WireValue::Bytes(list)) => List::Floats(list),
            (3, WireValue::Bytes(list)) => List::Ints(list),
            _ => continue,
        };
        if list.replace(found).is_some() {
            return Err(Error::content("holds two lists"));
        }
    }
    Ok(list)
}

/// Calls `each` for every value of the `BytesList` in `body`.
pub(crate) fn each_bytes<'a>(body: &'a [u8], mut each: impl FnMut(&'a [u8]) -> Result<()>) -> Result<()> {
    let mut list = Message(body);
    while let Some((number, value)) = list.next()? {
        match (number, value) {
            (1, WireValue::Bytes(value)) => each(value)?,
            (1, _) => return Err(Error::content("holds values that are not bytes")),
            _ => {}
        }
    }
    Ok(())
}

/// Calls `each` for every run of little-endian floats of the `FloatList` in `body`.
pub(crate) fn each_floats(body: &[u8], mut each: impl FnMut(&[u8])) -> Result<()> {
    let mut list = Message(body);
    while let Some((number, value)) = list.next()? {
        match (number, value) {
            (1, WireValue::Four(value)) => each(&value),
            (1, WireValue::Bytes(packed)) if packed.len().is_multiple_of(4) => each(packed),
            (1, _) => return Err(Error::content("holds numbers that are not floats")),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use packhorse_core::Kind;

    fn all(record: &[u8]) -> Result<Vec<(String, Vec<u8>)>> {
        let mut found = Vec::new();
        each_feature(record, &mut |name, values| {
            let (kind, body) = match values {
                FeatureValue::One(list @ (List::Bytes(body) | List::Floats(body) | List::Ints(body))) => {
                    (list.name(), body)
                }
                FeatureValue::Steps(body) => ("steps", body),
            };
            found.push((format!("{name}:{kind}"), body.to_vec()));
            Ok(())
        })?;
        Ok(found)
    }

    #[test]
    fn features_are_found_and_unknown_fields_are_skipped() {
        // Features in two messages, value before key, an unknown field, and a feature without a list.
        let record = [
            0x0a, 9, 0x0a, 7, 0x12, 2, 0x0a, 0, 0x0a, 1, b'a', 0x18, 5, 0x0a, 14, 0x0a, 5, 0x0a, 1, b'b', 0x12, 0,
            0x0a, 5, 0x0a, 1, b'c', 0x12, 0,
        ];
        assert_eq!(all(&record).unwrap(), [("a:bytes_list".to_owned(), vec![])]);
        assert_eq!(all(&[]).unwrap(), []);
    }

    #[test]
    fn feature_lists_are_steps() {
        // No context, and a feature list of two steps, the second without a list.
        let record = [0x12, 13, 0x0a, 11, 0x0a, 1, b'a', 0x12, 6, 0x0a, 2, 0x1a, 0, 0x0a, 0];
        let found = all(&record).unwrap();
        assert_eq!(found, [("a:steps".to_owned(), vec![0x0a, 2, 0x1a, 0, 0x0a, 0])]);
        let mut steps = Vec::new();
        each_step(&found[0].1, |list| {
            steps.push(list.map(|list| list.name()));
            Ok(())
        })
        .unwrap();
        assert_eq!(steps, [Some("int64_list"), None]);
        assert!(each_step(&[0x08, 3], |_| Ok(())).is_err());
    }

    #[test]
    fn other_records_are_refused() {
        let kind = |record: &[u8]| all(record).unwrap_err().kind();
        // Other messages: a number alone, and text that could be features beside it.
        assert_eq!(kind(&[0x18, 5]), Kind::Unsupported);
        assert_eq!(kind(b"\x0a\x0b\x0a\x09102036563\x18\x05"), Kind::Unsupported);
        assert_eq!(kind(&[0x0a, 9, 0x0a, 7, 0x0a, 1, 0xff, 0x12, 2, 0x0a, 0]), Kind::Content);
        let twice = [0x0a, 11, 0x0a, 9, 0x0a, 1, b'a', 0x12, 4, 0x0a, 0, 0x1a, 0];
        assert_eq!(all(&twice).unwrap_err().to_string(), "feature a: holds two lists");
        assert!(each_floats(&[0x0a, 3, 0, 0, 0], |_| ()).is_err());
        assert!(each_floats(&[0x08, 3], |_| ()).is_err());
        assert!(each_bytes(&[0x08, 3], |_| Ok(())).is_err());
    }
}
