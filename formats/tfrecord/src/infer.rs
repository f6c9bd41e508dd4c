//! Infers the schema from the first records, if there is no schema document.

use crate::example::{FeatureValue, List, each_bytes, each_feature, each_floats, each_step};
use crate::ints::each_int;
use crate::layout::{FeatureColumn, FeatureLayout};
use crate::record_reader::RecordReader;
use crate::scan::in_record;
use packhorse_core::{DataType, Error, FieldType, KEY, Result, UNTYPED};
use std::collections::{BTreeMap, BTreeSet};

/// The records, and about the most bytes, that are read where no number of records is asked for.
pub(crate) const RECORDS: u64 = 1000;
pub(crate) const BYTES: u64 = 16 << 20;

/// The statistics of a feature.
struct FeatureStats {
    list: &'static str,
    records: u64,
    /// Of values in a record; of feature lists in a step.
    fewest: usize,
    most: usize,
    text: bool,
    /// Whether it is a feature list, with a list for each step.
    steps: bool,
}

impl FeatureStats {
    /// Those of one list. A single value in every record is a blob, even if it is text; `text` is false where it is known that not all are.
    fn of(list: List<'_>, steps: bool, mut text: bool) -> Result<Self> {
        let mut most = 0;
        match list {
            List::Ints(body) => each_int(body, |_| {
                most += 1;
                Ok(())
            })?,
            List::Floats(body) => each_floats(body, |packed| most += packed.len() / 4)?,
            List::Bytes(body) => each_bytes(body, |value| {
                most += 1;
                text = text && std::str::from_utf8(value).is_ok();
                Ok(())
            })?,
        }
        Ok(Self { list: list.name(), records: 1, fewest: most, most, text, steps })
    }

    /// Adds those of another list.
    fn add(&mut self, name: &str, other: &Self) -> Result<()> {
        let kind = |stats: &Self| if stats.steps { "feature list" } else { "feature" };
        if self.steps != other.steps {
            return Err(Error::content(format!("{name} is a {}, but was a {} before", kind(other), kind(self))));
        }
        if self.list != other.list {
            return Err(Error::content(format!("feature {name}: is a {}, but was a {} before", other.list, self.list)));
        }
        (self.fewest, self.most) = (self.fewest.min(other.fewest), self.most.max(other.most));
        self.text &= other.text;
        Ok(())
    }
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
    each_feature(record, &mut |name, values| {
        if unread.contains(name) {
            let none = FeatureStats { list: "", records: 0, fewest: 0, most: 0, text: true, steps: false };
            seen.entry(name.to_owned()).or_insert(none);
            return Ok(());
        }
        let (mut found, mut lacks): (Option<FeatureStats>, bool) = (None, false);
        let may_be_text = seen.get(name).is_none_or(|before| before.text);
        match values {
            FeatureValue::One(list) => found = Some(FeatureStats::of(list, false, may_be_text)?),
            // Steps without a list, and no steps, don't tell their type.
            FeatureValue::Steps(body) => each_step(body, |list| match (list, &mut found) {
                (None, _) => {
                    lacks = true;
                    Ok(())
                }
                (Some(list), None) => {
                    found = Some(FeatureStats::of(list, true, may_be_text)?);
                    Ok(())
                }
                (Some(list), Some(found)) => found.add(name, &FeatureStats::of(list, true, found.text)?),
            })?,
        }
        let Some(mut found) = found else { return Ok(()) };
        if lacks {
            found.fewest = 0;
        }
        match seen.get_mut(name) {
            None => drop(seen.insert(name.to_owned(), found)),
            Some(before) => {
                before.add(name, &found)?;
                before.records += 1;
            }
        }
        Ok(())
    })
}

fn column(name: &str, seen: &FeatureStats, count: u64) -> Result<FeatureColumn> {
    let one = seen.fewest == 1 && seen.most == 1;
    // Some writers leave a picture out by an empty list.
    let lacks_some = seen.list == "bytes_list" && (seen.fewest, seen.most, seen.text) == (0, 1, false);
    let always = seen.records >= count && !lacks_some;
    if seen.steps && name != KEY {
        return steps(name, seen, always);
    }
    let kind = match seen.list {
        "bytes_list" if name == KEY => FieldType::Text,
        "bytes_list" if one || lacks_some => FieldType::Blob,
        "bytes_list" if seen.text => FieldType::List { element: DataType::Utf8View, depth: 1 },
        "bytes_list" => FieldType::List { element: DataType::BinaryView, depth: 1 },
        "float_list" => numbers(DataType::Float32, seen),
        _ => numbers(DataType::Int64, seen),
    };
    if name == KEY && !(kind == FieldType::Text && one && always && seen.text && !seen.steps) {
        return Err(Error::unsupported(format!("feature {KEY}: must be one text in every record")));
    }
    let column = FeatureColumn::new(name, kind, !always, None)?;
    let untyped = match (seen.list, seen.most) {
        _ if name == KEY => None,
        // Nothing tells whether they hold text.
        ("bytes_list", 0) => Some("lists"),
        ("bytes_list", _) if !one && !lacks_some && seen.text => Some("text"),
        _ if one => Some("one"),
        _ => None,
    };
    let untyped = untyped.map(|what| (UNTYPED.to_owned(), what.to_owned()));
    Ok(column.with_metadata(untyped.into_iter().collect()))
}

/// The column of a feature list: a list of the values of steps that have one each, else a list of the lists of all steps.
fn steps(name: &str, seen: &FeatureStats, always: bool) -> Result<FeatureColumn> {
    let element = match seen.list {
        "bytes_list" if seen.text => DataType::Utf8View,
        "bytes_list" => DataType::BinaryView,
        "float_list" => DataType::Float32,
        _ => DataType::Int64,
    };
    let depth = if (seen.fewest, seen.most) == (1, 1) { 1 } else { 2 };
    let untyped = (element == DataType::Utf8View && depth == 1).then(|| (UNTYPED.to_owned(), "text".to_owned()));
    let column = FeatureColumn::new(name, FieldType::List { element, depth }, !always, None)?;
    Ok(FeatureColumn { steps: true, ..column.with_metadata(untyped.into_iter().collect()) })
}

fn numbers(element: DataType, seen: &FeatureStats) -> FieldType {
    match (seen.fewest, seen.most) {
        (1, 1) => FieldType::Scalar(element),
        (n, m) if n == m && n > 0 && i32::try_from(n).is_ok() => FieldType::Tensor { element, shape: vec![n] },
        _ => FieldType::List { element, depth: 1 },
    }
}
