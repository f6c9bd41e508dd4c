//! A schema from the first records, where no document tells.

use crate::example::{List, each_bytes, each_feature, each_floats};
use crate::ints::each_int;
use crate::layout::{Column, Layout};
use crate::records::Records;
use crate::scan::in_record;
use packhorse_core::{DataType, Error, FieldType, KEY, Result};
use std::collections::BTreeMap;

/// Bytes that are looked at, at most (and the record that goes beyond).
const BYTES: u64 = 16 << 20;

/// What was seen of a feature.
struct Seen {
    list: &'static str,
    records: u64,
    fewest: usize,
    most: usize,
    text: bool,
}

/// The columns that the records look like.
pub(crate) fn infer(records: &mut Records<'_>) -> Result<Layout> {
    let mut seen: BTreeMap<String, Seen> = BTreeMap::new();
    let (mut count, mut bytes) = (0, 0);
    while let Some(chunk) = if bytes < BYTES { records.chunk()? } else { None } {
        for (number, range) in (chunk.first..).zip(chunk.data) {
            if bytes >= BYTES {
                break;
            }
            bytes += range.len() as u64;
            let record = chunk.bytes.get(range).unwrap_or_default();
            look(record, &mut seen).map_err(|e| in_record(e, number))?;
            count += 1;
        }
    }
    Layout::sorted(seen.iter().map(|(name, seen)| column(name, seen, count)).collect::<Result<_>>()?)
}

fn look(record: &[u8], seen: &mut BTreeMap<String, Seen>) -> Result<()> {
    each_feature(record, &mut |name, list| {
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
                // One value is a blob, whatever it holds.
                if n > 1 || name == KEY {
                    each_bytes(body, |value| {
                        text = text && std::str::from_utf8(value).is_ok();
                        Ok(())
                    })?;
                }
            }
        }
        let list = list.name();
        let Some(before) = seen.get_mut(name) else {
            seen.insert(name.to_owned(), Seen { list, records: 1, fewest: n, most: n, text });
            return Ok(());
        };
        if before.list != list {
            return Err(Error::content(format!("feature {name}: is a {list}, and was a {} before", before.list)));
        }
        before.records += 1;
        (before.fewest, before.most) = (before.fewest.min(n), before.most.max(n));
        before.text &= text;
        Ok(())
    })
}

fn column(name: &str, seen: &Seen, count: u64) -> Result<Column> {
    let one = seen.fewest == 1 && seen.most == 1;
    let always = seen.records >= count;
    let kind = match seen.list {
        "bytes_list" if name == KEY => FieldType::Text,
        "bytes_list" if one => FieldType::Blob,
        "bytes_list" if seen.text => FieldType::List { element: DataType::Utf8View, depth: 1 },
        "bytes_list" => {
            return Err(Error::unsupported(format!("feature {name}: several values in a record that are no text")));
        }
        "float_list" => numbers(DataType::Float32, seen),
        _ => numbers(DataType::Int64, seen),
    };
    if name == KEY && !(kind == FieldType::Text && one && always && seen.text) {
        return Err(Error::unsupported(format!("feature {KEY}: is no key, which is one text in every record")));
    }
    Column::new(name, kind, !always, None)
}

fn numbers(element: DataType, seen: &Seen) -> FieldType {
    match (seen.fewest, seen.most) {
        (1, 1) => FieldType::Scalar(element),
        (n, m) if n == m && n > 0 && i32::try_from(n).is_ok() => FieldType::Tensor { element, shape: vec![n] },
        _ => FieldType::List { element, depth: 1 },
    }
}
