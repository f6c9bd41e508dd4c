//! Infers the schema from the first records, if there is no schema document.

use crate::example::{List, each_bytes, each_feature, each_floats};
use crate::ints::each_int;
use crate::layout::{FeatureColumn, FeatureLayout};
use crate::record_reader::RecordReader;
use crate::scan::in_record;
use packhorse_core::{DataType, Error, FieldType, KEY, Result};
use std::collections::{BTreeMap, BTreeSet};

/// The records, and about the most bytes, that are read where no number of records is asked for.
pub(crate) const RECORDS: u64 = 1000;
pub(crate) const BYTES: u64 = 16 << 20;

/// The statistics of a feature.
struct FeatureStats {
    list: &'static str,
    records: u64,
    fewest: usize,
    most: usize,
    text: bool,
}

/// Infers the columns from the records, of which about `most` bytes are read.
pub(crate) fn infer(records: &mut RecordReader<'_>, most: u64, unread: &BTreeSet<String>) -> Result<FeatureLayout> {
    let mut seen: BTreeMap<String, FeatureStats> = BTreeMap::new();
    let (mut count, mut bytes) = (0, 0);
    while let Some(chunk) = if bytes < most { records.chunk()? } else { None } {
        for (number, range) in (chunk.first..).zip(chunk.data) {
            if bytes >= most {
                break;
            }
            bytes += range.len() as u64;
            let record = chunk.bytes.get(range).unwrap_or_default();
            look(record, unread, &mut seen).map_err(|e| in_record(e, number))?;
            count += 1;
        }
    }
    FeatureLayout::sorted(
        seen.iter()
            .map(|(name, seen)| match unread.contains(name) {
                true => FeatureColumn::new(name, FieldType::Blob, true, None),
                false => column(name, seen, count),
            })
            .collect::<Result<_>>()?,
    )
}

fn look(record: &[u8], unread: &BTreeSet<String>, seen: &mut BTreeMap<String, FeatureStats>) -> Result<()> {
    each_feature(record, &mut |name, list| {
        if unread.contains(name) {
            let none = FeatureStats { list: list.name(), records: 0, fewest: 0, most: 0, text: true };
            seen.entry(name.to_owned()).or_insert(none);
            return Ok(());
        }
        let (mut n, mut text) = (0, true);
        match list {
            List::Ints(body) => each_int(body, |_| {
                n += 1;
                Ok(())
            })?,
            List::Floats(body) => each_floats(body, |packed| n += packed.len() / 4)?,
            List::Bytes(body) => {
                each_bytes(body, |_| {
                    n += 1;
                    Ok(())
                })?;
                // A single value in every record is a blob, even if it is text.
                if seen.get(name).is_none_or(|before| before.text) {
                    each_bytes(body, |value| {
                        text = text && std::str::from_utf8(value).is_ok();
                        Ok(())
                    })?;
                }
            }
        }
        let list = list.name();
        let Some(before) = seen.get_mut(name) else {
            seen.insert(name.to_owned(), FeatureStats { list, records: 1, fewest: n, most: n, text });
            return Ok(());
        };
        if before.list != list {
            return Err(Error::content(format!("feature {name}: is a {list}, but was a {} before", before.list)));
        }
        before.records += 1;
        (before.fewest, before.most) = (before.fewest.min(n), before.most.max(n));
        before.text &= text;
        Ok(())
    })
}

fn column(name: &str, seen: &FeatureStats, count: u64) -> Result<FeatureColumn> {
    let one = seen.fewest == 1 && seen.most == 1;
    // Some writers leave a picture out by an empty list.
    let lacks_some = seen.list == "bytes_list" && (seen.fewest, seen.most, seen.text) == (0, 1, false);
    let always = seen.records >= count && !lacks_some;
    let kind = match seen.list {
        "bytes_list" if name == KEY => FieldType::Text,
        "bytes_list" if one || lacks_some => FieldType::Blob,
        "bytes_list" if seen.text => FieldType::List { element: DataType::Utf8View, depth: 1 },
        "bytes_list" => FieldType::List { element: DataType::BinaryView, depth: 1 },
        "float_list" => numbers(DataType::Float32, seen),
        _ => numbers(DataType::Int64, seen),
    };
    if name == KEY && !(kind == FieldType::Text && one && always && seen.text) {
        return Err(Error::unsupported(format!("feature {KEY}: must be one text in every record")));
    }
    FeatureColumn::new(name, kind, !always, None)
}

fn numbers(element: DataType, seen: &FeatureStats) -> FieldType {
    match (seen.fewest, seen.most) {
        (1, 1) => FieldType::Scalar(element),
        (n, m) if n == m && n > 0 && i32::try_from(n).is_ok() => FieldType::Tensor { element, shape: vec![n] },
        _ => FieldType::List { element, depth: 1 },
    }
}
