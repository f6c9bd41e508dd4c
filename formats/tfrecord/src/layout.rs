//! The mapping between fields and `tf.train.Feature`.
//!
//! | elements | stored as |
//! | --- | --- |
//! | `Boolean`, integers | values of an `int64_list`; `UInt64` as the signed number of the same 64 bits |
//! | `Float32` | values of a `float_list` |
//! | blobs, text, elements of text and of bytes | values of a `bytes_list` |
//! | `Float16`, `Float64`, `FixedSizeBinary` | *raw*: a `bytes_list` of one value, the packed little-endian elements |
//!
//! A null is a missing feature. Ragged tensors add `NAME.shape`; lists of lists add `NAME.offsets1` (the outermost) and
//! so on, the row splits of `tf.io.RaggedFeature`.

use packhorse_core::{DataType, Error, Field, FieldType, KEY, Result, Schema, SchemaRef, element_width, with_metadata};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The list that stores the elements of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListKind {
    /// `int64_list`.
    Ints,
    /// `float_list`.
    Floats,
    /// `bytes_list`, one value per element.
    Bytes,
    /// `bytes_list` of one value.
    Raw,
}

impl ListKind {
    pub(crate) const ALL: [ListKind; 4] = [ListKind::Ints, ListKind::Floats, ListKind::Bytes, ListKind::Raw];

    /// Its name in schema documents.
    pub(crate) fn name(self) -> &'static str {
        match self {
            ListKind::Ints => "int64_list",
            ListKind::Floats => "float_list",
            ListKind::Bytes => "bytes_list",
            ListKind::Raw => "raw",
        }
    }

    /// The default for `element` (`None` for blobs and text).
    fn natural(element: Option<&DataType>) -> Self {
        match element {
            None | Some(DataType::Utf8View | DataType::BinaryView) => ListKind::Bytes,
            Some(DataType::Float32) => ListKind::Floats,
            Some(DataType::Boolean) => ListKind::Ints,
            Some(other) if other.is_integer() => ListKind::Ints,
            Some(_) => ListKind::Raw,
        }
    }
}

/// A column and its features.
#[derive(Clone, Debug)]
pub(crate) struct FeatureColumn {
    /// The field that the source delivers.
    pub(crate) field: Field,
    pub(crate) kind: FieldType,
    pub(crate) carrier: ListKind,
    /// Whether records hold a list for each step of a sample: the feature lists of a `SequenceExample`.
    pub(crate) steps: bool,
}

/// The most dimensions, and the deepest nesting of lists.
pub(crate) const DEEPEST: usize = 32;

impl FeatureColumn {
    /// The column `name` of `kind`, stored by default or as `carrier`, if that is possible.
    pub(crate) fn new(name: &str, kind: FieldType, nullable: bool, carrier: Option<ListKind>) -> Result<Self> {
        let kind = kind.with_views();
        let natural = ListKind::natural(kind.element());
        let raw = kind.element().is_some_and(|element| element_width(element).is_some());
        let carrier = carrier.unwrap_or(natural);
        let no = |why: &str| Err(Error::unsupported(format!("field {name} of type {kind}: {why}")));
        if carrier != natural && !(carrier == ListKind::Raw && raw) {
            return no(&format!("can't be stored as {}", carrier.name()));
        }
        if kind.element().and_then(element_width) == Some(0) {
            return no("its elements are empty");
        }
        let (dimensions, size) = match &kind {
            FieldType::Tensor { shape, .. } => {
                (shape.len(), shape.iter().try_fold(1usize, |n, d| n.checked_mul(*d)).unwrap_or(usize::MAX))
            }
            FieldType::Ragged { rank, .. } => (*rank, 1),
            FieldType::List { depth, .. } => (*depth, 1),
            _ => (1, 1),
        };
        if dimensions == 0 || dimensions > DEEPEST || i32::try_from(size).is_err() {
            return no("has no dimension, over 32, or over 2^31 elements");
        }
        Ok(Self { field: kind.field(name, nullable), kind, carrier, steps: false })
    }

    /// The column of a field; `raw` stores tensors as raw bytes.
    fn of(field: &Field, raw: bool) -> Result<Self> {
        let kind = FieldType::of(field)?;
        if field.name() == KEY && (kind != FieldType::Text || field.is_nullable()) {
            return Err(Error::unsupported(format!("field {KEY} of type {kind}: keys are text, and never null")));
        }
        let is_tensor = matches!(kind, FieldType::Tensor { .. } | FieldType::Ragged { .. });
        let wide = kind.element().is_some_and(|element| element_width(element).is_some());
        let column =
            Self::new(field.name(), kind, field.is_nullable(), (raw && is_tensor && wide).then_some(ListKind::Raw))?;
        let own = field.metadata().iter().filter(|(key, _)| !key.starts_with("ARROW:extension:"));
        Ok(column.with_metadata(own.map(|(k, v)| (k.clone(), v.clone())).collect()))
    }

    pub(crate) fn with_metadata(mut self, metadata: BTreeMap<String, String>) -> Self {
        self.field = metadata.iter().fold(self.field, |field, (key, value)| with_metadata(field, key, value));
        self
    }

    /// The metadata of the column, without its extension type.
    pub(crate) fn metadata(&self) -> BTreeMap<String, String> {
        let own = self.field.metadata().iter().filter(|(key, _)| !key.starts_with("ARROW:extension:"));
        own.map(|(k, v)| (k.clone(), v.clone())).collect()
    }

    pub(crate) fn name(&self) -> &str {
        self.field.name()
    }

    /// The names of the features besides the main one, which has the name of the column.
    pub(crate) fn parts(&self) -> Vec<String> {
        match &self.kind {
            _ if self.steps => Vec::new(),
            FieldType::Ragged { .. } => vec![format!("{}.shape", self.name())],
            FieldType::List { depth, .. } => (1..*depth).map(|i| format!("{}.offsets{i}", self.name())).collect(),
            _ => Vec::new(),
        }
    }
}

/// The columns of a file: the key first, if any, then fields sorted by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct FeatureLayout(pub(crate) Vec<FeatureColumn>);

impl FeatureLayout {
    /// The columns of `schema`, in its order.
    pub(crate) fn of(schema: &SchemaRef, raw: bool) -> Result<Self> {
        let columns = schema.fields().iter().map(|field| FeatureColumn::of(field, raw)).collect::<Result<Vec<_>>>()?;
        let layout = Self(columns);
        layout.names()?;
        Ok(layout)
    }

    /// `columns`, sorted as sources deliver them.
    pub(crate) fn sorted(mut columns: Vec<FeatureColumn>) -> Result<Self> {
        columns.sort_by(|a, b| (a.name() != KEY, a.name()).cmp(&(b.name() != KEY, b.name())));
        let layout = Self(columns);
        layout.names()?;
        Ok(layout)
    }

    /// Refuses duplicate feature names.
    fn names(&self) -> Result<()> {
        let mut seen = BTreeSet::new();
        for name in self.0.iter().flat_map(|column| [vec![column.name().to_owned()], column.parts()].concat()) {
            if seen.contains(&name) {
                return Err(Error::unsupported(format!(
                    "two fields need the feature {name} (tensors and lists add .shape and .offsets): rename one"
                )));
            }
            seen.insert(name);
        }
        Ok(())
    }

    pub(crate) fn schema(&self) -> SchemaRef {
        Arc::new(Schema::new(self.0.iter().map(|column| column.field.clone()).collect::<Vec<_>>()))
    }
}
