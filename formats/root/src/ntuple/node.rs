//! What the fields of an RNTuple become: a column for each number or text at the end of a branch of the
//! tree of fields. Records vanish into the names; lists and arrays stay around what is in them.

use super::page::{self, is_index};
use super::schema::{FieldRecord, Records};
use packhorse_core::{DataType, FieldType};
use std::collections::BTreeMap;

/// How a column is put together.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    /// Numbers; columns are representations of the same, of which a cluster uses one.
    Number { columns: Vec<usize>, element: DataType },
    /// How many there are in a collection.
    Count { columns: Vec<usize>, element: DataType },
    /// Strings: where they end, and their characters.
    Text { ends: Vec<usize>, characters: Vec<usize> },
    /// Lists: where they end, and what is in them.
    List { ends: Vec<usize>, inner: Box<Node> },
    /// Always so many of what is inside.
    Array { len: usize, inner: Box<Node> },
}

/// A column, or why there is none.
pub(crate) struct Leaf {
    pub(crate) name: String,
    /// The name with the base class it comes from, for members of two bases that are called the same.
    qualified: String,
    pub(crate) type_name: String,
    pub(crate) node: Result<Node, String>,
}

const DEPTH: usize = 16;
/// Longer than any name, and more than anybody's representations of a field.
const NAME: usize = 4096;
const COLUMNS: usize = 64;
/// More elements than any fixed array has.
const LEN: u64 = 1 << 28;
const LEAF: u16 = 0;
const COLLECTION: u16 = 1;
const RECORD: u16 = 2;

/// The columns of all fields.
pub(crate) fn leaves(records: &Records) -> Vec<Leaf> {
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

/// What a field is called, and the outermost of the base classes that lead to it.
struct Path {
    name: String,
    qualified: String,
    base: Option<String>,
}

impl Path {
    fn inside(&self, field: &FieldRecord) -> Self {
        // The parts of a base class belong to the class.
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

    fn leaf(&self, type_name: &str, node: Result<Node, String>) -> Leaf {
        Leaf { name: self.name.clone(), qualified: self.qualified.clone(), type_name: type_name.to_owned(), node }
    }
}

struct Compiler<'a> {
    records: &'a Records,
    /// The fields inside each field, and the columns of each.
    children: Vec<Vec<usize>>,
    columns: Vec<Vec<usize>>,
}

impl Compiler<'_> {
    /// Appends the columns of the field `number`, called `path`.
    fn field(&self, number: usize, path: &Path, depth: usize, out: &mut Vec<Leaf>) {
        let Some(field) = self.records.fields.get(number) else { return };
        let leaf = |node| path.leaf(&field.type_name, node);
        if path.qualified.len() > NAME {
            return out.push(Leaf {
                name: number.to_string(),
                qualified: number.to_string(),
                ..leaf(Err("its name is too long".to_owned()))
            });
        }
        let Some(depth) = depth.checked_sub(1) else {
            return out.push(leaf(Err(format!("more than {DEPTH} fields inside each other"))));
        };
        let children = self.children.get(number).map(Vec::as_slice).unwrap_or_default();
        let columns = self.columns.get(field.source.unwrap_or(number)).map(Vec::as_slice).unwrap_or_default();
        match (field.role, field.array, children) {
            (LEAF, Some(len), _) => self.array(number, len, path, depth, out),
            // `std::atomic`, enumerations: what is inside is all there is.
            (LEAF, None, [child]) if columns.is_empty() => self.field(*child, path, depth, out),
            (LEAF, None, _) => out.push(leaf(self.leaf(columns, &field.type_name))),
            (COLLECTION, None, [child]) if !is_nullable(&field.type_name) => {
                let inside = self.inside(*child, path, depth);
                out.extend(inside.into_iter().map(|inner| self.list(columns, inner)));
            }
            // A base class without members takes nothing away from the class.
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

    fn inside(&self, child: usize, path: &Path, depth: usize) -> Vec<Leaf> {
        let mut inside = Vec::new();
        self.field(child, path, depth, &mut inside);
        inside
    }

    fn array(&self, number: usize, len: u64, path: &Path, depth: usize, out: &mut Vec<Leaf>) {
        let Some(field) = self.records.fields.get(number) else { return };
        let mut inside = match self.children.get(number).map(Vec::as_slice) {
            Some([child]) => self.inside(*child, path, depth),
            // The bits of a `std::bitset` are its own.
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

    fn list(&self, columns: &[usize], mut leaf: Leaf) -> Leaf {
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

    /// A field with columns of its own.
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

/// The type that holds the values of all of `types`: one type, or the widest float.
fn widest(types: &[DataType]) -> Option<DataType> {
    let first = types.first()?;
    let same = types.iter().all(|other| other == first);
    if same {
        return Some(first.clone());
    }
    let floats = types.iter().all(DataType::is_floating);
    floats.then(|| types.iter().max_by_key(|float| float.primitive_width()).cloned()).flatten()
}

/// A value or none: packhorse's lists do not say which.
fn is_nullable(type_name: &str) -> bool {
    ["std::optional<", "std::unique_ptr<"].iter().any(|start| type_name.starts_with(start))
}

impl Node {
    /// How many values an entry has if their number is fixed, else 1.
    fn values(&self) -> u64 {
        match self {
            Node::Array { len, inner } => inner.values().saturating_mul(*len as u64),
            _ => 1,
        }
    }

    /// What the column holds.
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

    /// All columns that may be read for it.
    pub(crate) fn columns(&self) -> Vec<usize> {
        match self {
            Node::Number { columns, .. } | Node::Count { columns, .. } => columns.clone(),
            Node::Text { ends, characters } => [ends.as_slice(), characters.as_slice()].concat(),
            Node::List { ends, inner } => [ends.clone(), inner.columns()].concat(),
            Node::Array { inner, .. } => inner.columns(),
        }
    }
}
