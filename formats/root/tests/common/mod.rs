//! Shared by the tests against uproot: reads files, and computes digests of columns.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use md5::{Digest, Md5};
use packhorse_core::{DataType, Format, Input, Limits, MemoryInput, Options, Source, bytes_of};
use packhorse_root::Root;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// The result for one branch.
pub(crate) enum Found {
    Unsupported(String),
    Failed(String),
    Column { digest: String, element: String },
}

/// A row of the table in the documentation.
pub(crate) fn line(kind: &str, equal: usize, unsupported: usize, ours: usize) -> String {
    format!("| {kind} | {equal} | {unsupported} | {ours} |\n")
}

/// A file of a few KB may claim 100 million rows.
const ANY_SIZE: (&str, &str) = ("expansion", "any");

/// Every branch of a tree of a file.
pub(crate) fn columns(file: &Path, tree: &str) -> BTreeMap<String, Found> {
    let input = MemoryInput::new(file.to_string_lossy(), std::fs::read(file).unwrap());
    let options: Options = [("tree", tree), ANY_SIZE].into_iter().collect();
    let mut found = BTreeMap::new();
    let report = Root::report(&input, &options, Limits::default()).unwrap_or_else(|e| panic!("{tree}: {e}"));
    let readable = report.iter().any(|branch| branch.holds.is_ok());
    for branch in report {
        if let Err(reason) = branch.holds {
            found.insert(branch.name, Found::Unsupported(reason));
        }
    }
    if readable {
        let source = Root.source(&options, Limits::default()).unwrap();
        found.extend(read(&*source, &input).unwrap_or_else(|_| one_by_one(&input, tree)));
    }
    found
}

/// Reads branch by branch, so that one failure does not hide the others.
fn one_by_one(input: &dyn Input, tree: &str) -> BTreeMap<String, Found> {
    let all = Root.source(&[("tree", tree), ANY_SIZE].into_iter().collect(), Limits::default()).unwrap();
    let info = all.open(Arc::new(input)).unwrap().info().unwrap();
    let mut found = BTreeMap::new();
    for field in info.schema.fields() {
        let options = [("tree", tree), ("branches", field.name()), ANY_SIZE].into_iter().collect();
        let source = Root.source(&options, Limits::default()).unwrap();
        let one = read(&*source, input);
        found.extend(one.unwrap_or_else(|e| [(field.name().clone(), Found::Failed(e))].into_iter().collect()));
    }
    found
}

fn read(source: &dyn Source, input: &dyn Input) -> Result<BTreeMap<String, Found>, String> {
    let table = source.open(Arc::new(input)).map_err(|e| e.to_string())?;
    let info = table.info().map_err(|e| e.to_string())?;
    let mut columns: Vec<Column> = info.schema.fields().iter().map(|_| Column::default()).collect();
    let mut rows = 0;
    // Of very long trees only the first million entries are compared.
    let items = if info.items > 10_000_000 { 1_000_000 } else { info.items };
    for block in table.rows(0..items).map_err(|e| e.to_string())? {
        let block = block.map_err(|e| e.to_string())?;
        assert_eq!(block.schema().fields(), info.schema.fields());
        rows += block.num_rows() as u64;
        for (column, array) in columns.iter_mut().zip(block.columns()) {
            column.append(array, 0);
        }
    }
    assert_eq!(rows, items);
    let names = info.schema.fields().iter();
    Ok(names.zip(columns).map(|(field, column)| (field.name().clone(), column.digest(field.data_type()))).collect())
}

/// A column: the offsets of each depth, and the values.
#[derive(Default)]
struct Column {
    offsets: Vec<(i64, Vec<u8>)>,
    values: Vec<u8>,
}

impl Column {
    fn ends(&mut self, depth: usize, lens: impl Iterator<Item = i64>) {
        if self.offsets.len() == depth {
            self.offsets.push((0, 0i64.to_le_bytes().to_vec()));
        }
        let (last, bytes) = &mut self.offsets[depth];
        for len in lens {
            *last += len;
            bytes.extend_from_slice(&last.to_le_bytes());
        }
    }

    fn append(&mut self, array: &ArrayRef, depth: usize) {
        match array.data_type() {
            DataType::List(_) => {
                let list = array.as_list::<i32>();
                self.ends(depth, list.offsets().windows(2).map(|pair| i64::from(pair[1] - pair[0])));
                self.append(list.values(), depth + 1);
            }
            DataType::FixedSizeList(..) => self.append(array.as_fixed_size_list().values(), depth),
            DataType::Utf8View => {
                let text = array.as_string_view();
                self.ends(depth, text.iter().map(|text| text.unwrap().len() as i64));
                text.iter().for_each(|text| self.values.extend_from_slice(text.unwrap().as_bytes()));
            }
            _ => self.values.extend_from_slice(bytes_of(array).unwrap().as_slice()),
        }
    }

    fn digest(mut self, data_type: &DataType) -> Found {
        let mut inner = data_type;
        let mut depth = 0;
        while let DataType::List(item) | DataType::FixedSizeList(item, _) = inner {
            if matches!(inner, DataType::List(_)) {
                self.ends(depth, std::iter::empty());
                depth += 1;
            }
            inner = item.data_type();
        }
        if *inner == DataType::Utf8View {
            self.ends(depth, std::iter::empty());
        }
        let mut md5 = Md5::new();
        self.offsets.iter().for_each(|(_, bytes)| md5.update(bytes));
        md5.update(&self.values);
        let digest = md5.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Found::Column { digest, element: inner.to_string() }
    }
}
