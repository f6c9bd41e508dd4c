//! Maps the fields of an RNTuple to columns: one per number or text at the leaves of the field tree.
//! Records become part of the names; lists and arrays stay nested.

use super::page::{self, is_index};
use super::schema::{FieldRecord, SchemaDescription};
use packhorse_core::{DataType, FieldType};
use std::collections::BTreeMap;

/// How a column is assembled from RNTuple columns.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    /// Numbers; the columns are alternative representations, of which each cluster uses one.
    Number { columns: Vec<usize>, element: DataType },
    /// The size of a collection.
    Count { columns: Vec<usize>, element: DataType },
    /// Strings: their ends, and their characters.
    Text { ends: Vec<usize>, characters: Vec<usize> },
    /// Lists: their ends, and their values.
    List { ends: Vec<usize>, inner: Box<Node> },
    /// Arrays of fixed length.
    Array { len: usize, inner: Box<Node> },
}

/// A leaf of the field tree: a column, or why it can't be read.
pub(crate) struct LeafField {
    pub(crate) name: String,
    /// The name with the base class, for members of two bases with the same name.
    qualified: String,
    pub(crate) type_name: String,
    pub(crate) node: Result<Node, String>,
}

/// Limits against hostile files: nesting of fields, bytes of a name, representations of a field.
const DEPTH: usize = 16;
const NAME: usize = 4096;
const COLUMNS: usize = 64;
/// The most elements of a fixed array.
const LEN: u64 = 1 << 28;
const LEAF: u16 = 0;
const COLLECTION: u16 = 1;
const RECORD: u16 = 2;

/// The columns of all fields.
pub(crate) fn leaves(records: &SchemaDescription) -> Vec<LeafField> {
    let mut compiler = Compiler { records, children: vec![Vec::new(); records.fields.len()], columns: Vec::new() };
    for (number, field) in records.fields.iter().enumerate() {
        if let Some(children) = compiler.children.get_mut(field.parent).filter(|_| field.parent != number) {
            children.push(number);
        }
    }
    compiler.columns = vec![Vec::new(); records.fields.len()];
    for (number, column) in records.columns.iter().enumerate() {
        if let Some(columns) = compiler.columns.get_mut(column.field) {
            columns.push(number);
        }
    }
    let mut found = Vec::new();
    let top = records.fields.iter().enumerate().filter(|(number, field)| field.parent == *number);
    for (number, field) in top {
        let path = Path { name: field.name.clone(), qualified: field.name.clone(), base: None };
        let before = found.len();
        compiler.field(number, &path, DEPTH, &mut found);
        if found.len() == before {
            found.push(path.leaf(&field.type_name, Err("a record without members".to_owned())));
        }
    }
    let mut count = BTreeMap::new();
    found.iter().for_each(|leaf| *count.entry(leaf.name.clone()).or_insert(0) += 1);
    for leaf in found.iter_mut().filter(|leaf| count.get(&leaf.name).is_some_and(|n| *n > 1)) {
        leaf.name.clone_from(&leaf.qualified);
    }
    found
}

/// The name of a field, and the outermost base class on the way to it.
struct Path {
    name: String,
    qualified: String,
    base: Option<String>,
}

impl Path {
    fn inside(&self, field: &FieldRecord) -> Self {
        // The members of a base class belong to the class.
        let is_base = field.name.strip_prefix(":_").is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()));
        if is_base {
            let base = self.base.clone().unwrap_or_else(|| field.type_name.clone());
            return Self { name: self.name.clone(), qualified: self.qualified.clone(), base: Some(base) };
        }
        let base = self.base.as_ref().map(|base| format!("{base}::")).unwrap_or_default();
        Self {
            name: format!("{}.{}", self.name, field.name),
            qualified: format!("{}.{base}{}", self.qualified, field.name),
            base: None,
        }
    }

    fn leaf(&self, type_name: &str, node: Result<Node, String>) -> LeafField {
        LeafField { name: self.name.clone(), qualified: self.qualified.clone(), type_name: type_name.to_owned(), node }
    }
}

struct Compiler<'a> {
    records: &'a SchemaDescription,
    /// The child fields, and the columns, of each field.
    children: Vec<Vec<usize>>,
    columns: Vec<Vec<usize>>,
}

impl Compiler<'_> {
    /// Appends the leaves of the field `number` with the name `path`.
    fn field(&self, number: usize, path: &Path, depth: usize, out: &mut Vec<LeafField>) {
        let Some(field) = self.records.fields.get(number) else { return };
        let leaf = |node| path.leaf(&field.type_name, node);
        if path.qualified.len() > NAME {
            return out.push(LeafField {
                name: number.to_string(),
                qualified: number.to_string(),
                ..leaf(Err("its name is too long".to_owned()))
            });
        }
        let Some(depth) = depth.checked_sub(1) else {
            return out.push(leaf(Err(format!("fields nested more than {DEPTH} deep"))));
        };
        let children = self.children.get(number).map(Vec::as_slice).unwrap_or_default();
        let columns = self.columns.get(field.source.unwrap_or(number)).map(Vec::as_slice).unwrap_or_default();
        match (field.role, field.array, children) {
            (LEAF, Some(len), _) => self.array(number, len, path, depth, out),
            // `std::atomic` and enumerations only wrap another field.
            (LEAF, None, [child]) if columns.is_empty() => self.field(*child, path, depth, out),
            (LEAF, None, _) => out.push(leaf(self.leaf(columns, &field.type_name))),
            (COLLECTION, None, [child]) if !is_nullable(&field.type_name) => {
                let inside = self.inside(*child, path, depth);
                out.extend(inside.into_iter().map(|inner| self.list(columns, inner)));
            }
            // An empty base class is not an error.
            (RECORD, None, []) if path.base.is_none() => out.push(leaf(Err("a record without members".to_owned()))),
            (RECORD, None, _) => {
                for child in children {
                    if let Some(record) = self.records.fields.get(*child) {
                        self.field(*child, &path.inside(record), depth, out);
                    }
                }
            }
            _ => out.push(leaf(Err(format!("a field of type {}", field.type_name)))),
        }
    }

    fn inside(&self, child: usize, path: &Path, depth: usize) -> Vec<LeafField> {
        let mut inside = Vec::new();
        self.field(child, path, depth, &mut inside);
        inside
    }

    fn array(&self, number: usize, len: u64, path: &Path, depth: usize, out: &mut Vec<LeafField>) {
        let Some(field) = self.records.fields.get(number) else { return };
        let mut inside = match self.children.get(number).map(Vec::as_slice) {
            Some([child]) => self.inside(*child, path, depth),
            // A `std::bitset` has its own column.
            _ => {
                let columns = self.columns.get(number).map(Vec::as_slice).unwrap_or_default();
                let node = self.leaf(columns, &field.type_name);
                vec![path.leaf(&field.type_name, node)]
            }
        };
        let fits = usize::try_from(len).ok().filter(|_| (1..=LEN).contains(&len));
        for leaf in &mut inside {
            leaf.node = match (leaf.node.clone(), fits) {
                (Ok(inner), Some(len)) if inner.values().saturating_mul(len as u64) <= LEN => {
                    Ok(Node::Array { len, inner: Box::new(inner) })
                }
                (Ok(_), _) => Err(format!("an array of {len} elements")),
                (refused, _) => refused,
            };
        }
        out.extend(inside);
    }

    fn list(&self, columns: &[usize], mut leaf: LeafField) -> LeafField {
        leaf.node = leaf.node.and_then(|inner| {
            match columns.iter().all(|c| self.is_index(*c)) && (1..=COLUMNS).contains(&columns.len()) {
                true => Ok(Node::List { ends: columns.to_vec(), inner: Box::new(inner) }),
                false => Err("a collection without a column of ends".to_owned()),
            }
        });
        leaf
    }

    fn is_index(&self, column: usize) -> bool {
        self.records.columns.get(column).is_some_and(|column| is_index(column.kind))
    }

    /// A field with its own columns.
    fn leaf(&self, columns: &[usize], type_name: &str) -> Result<Node, String> {
        let (ends, values): (Vec<usize>, Vec<usize>) = columns.iter().partition(|column| self.is_index(**column));
        if type_name == "std::string" && !ends.is_empty() && ends.len() == values.len() {
            return Ok(Node::Text { ends, characters: values });
        }
        if type_name.contains("RNTupleCardinality") && values.is_empty() && !ends.is_empty() {
            let wide = type_name.contains("64");
            return Ok(Node::Count { columns: ends, element: if wide { DataType::UInt64 } else { DataType::UInt32 } });
        }
        let unknown = || format!("a field of type {type_name}");
        if !ends.is_empty() || !(1..=COLUMNS).contains(&values.len()) {
            return Err(unknown());
        }
        let types = values.iter().map(|column| Some(page::kind(self.records.columns.get(*column)?.kind)?.0));
        let types: Vec<DataType> = types.collect::<Option<_>>().ok_or_else(unknown)?;
        let element = widest(&types).ok_or_else(unknown)?;
        Ok(Node::Number { columns: values, element })
    }
}

/// The type that can hold the values of all `types`: equal types, or the widest float.
fn widest(types: &[DataType]) -> Option<DataType> {
    let first = types.first()?;
    let same = types.iter().all(|other| other == first);
    if same {
        return Some(first.clone());
    }
    let floats = types.iter().all(DataType::is_floating);
    floats.then(|| types.iter().max_by_key(|float| float.primitive_width()).cloned()).flatten()
}

/// Types that hold one value or none, which packhorse's lists can't express.
fn is_nullable(type_name: &str) -> bool {
    ["std::optional<", "std::unique_ptr<"].iter().any(|start| type_name.starts_with(start))
}

impl Node {
    /// The number of values per entry if it is fixed, else 1.
    fn values(&self) -> u64 {
        match self {
            Node::Array { len, inner } => inner.values().saturating_mul(*len as u64),
            _ => 1,
        }
    }

    /// The column type.
    pub(crate) fn holds(&self) -> FieldType {
        let mut shape = Vec::new();
        let mut node = self;
        while let Node::Array { len, inner } = node {
            shape.push(*len);
            node = inner;
        }
        match node {
            Node::Number { element, .. } | Node::Count { element, .. } if shape.is_empty() => {
                FieldType::Scalar(element.clone())
            }
            Node::Number { element, .. } | Node::Count { element, .. } => {
                FieldType::Tensor { element: element.clone(), shape }
            }
            Node::Text { .. } if shape.is_empty() => FieldType::Text,
            _ => self.list(0),
        }
    }

    fn list(&self, depth: usize) -> FieldType {
        match self {
            Node::Number { element, .. } | Node::Count { element, .. } => {
                FieldType::List { element: element.clone(), depth }
            }
            Node::Text { .. } => FieldType::List { element: DataType::Utf8View, depth },
            Node::List { inner, .. } | Node::Array { inner, .. } => inner.list(depth + 1),
        }
    }

    /// All RNTuple columns that it may need.
    pub(crate) fn columns(&self) -> Vec<usize> {
        match self {
            Node::Number { columns, .. } | Node::Count { columns, .. } => columns.clone(),
            Node::Text { ends, characters } => [ends.as_slice(), characters.as_slice()].concat(),
            Node::List { ends, inner } => [ends.clone(), inner.columns()].concat(),
            Node::Array { inner, .. } => inner.columns(),
        }
    }
}
