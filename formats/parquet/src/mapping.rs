//! Maps the columns of any file to fields of samples.
//!
//! | column of the file | field |
//! | --- | --- |
//! | binary; struct of `bytes` (binary) and `path` (text), Hugging Face's image and audio | blob, its bytes |
//! | (nested) lists of those | list of blobs |
//! | text, of any of Arrow's types; decimals, as their exact digits | text |
//! | Booleans, integers, floats, fixed-size binary (`\|V5`) | scalar |
//! | date and timestamp (with a time zone: the value is UTC) | scalar of 8 bytes, `<M8[D]`, `<M8[us]`, … |
//! | time of day and duration | scalar of 8 bytes, `<m8[us]`, …; [`LOGICAL`](packhorse_core::LOGICAL) says the rest |
//! | (nested) fixed-size lists of those, and `arrow.fixed_shape_tensor` | tensor |
//! | (nested) lists of those, fixed-size lists among them | list |
//! | lists without a type of elements, which are empty | list, of the type that other inputs have, or of text |
//! | `arrow.variable_shape_tensor` | ragged tensor |
//! | dictionary (categories) | as its values |
//! | struct | its parts as fields `a.b`, each null where the struct is, if at most one of the two can be |
//! | (nested) lists of structs | their parts as lists, fields `a.b` |
//! | map | its keys and its values as lists, fields `a.key` and `a.value` |
//! | intervals, unions, nulls | refused, naming column and type |
//!
//! Arrow writers declare list elements as nullable, so types don't tell whether lists contain nulls or whether structs
//! with nullable parts are null: these are refused when they occur.

use crate::huggingface;
use crate::json_text;
use crate::note::Note;
use crate::options::ColumnSelection;
use crate::stored_schema::{fits, image_parts};
use crate::temporal;
use packhorse_core::{
    CLASSES, DataType, Error, Field, FieldType, KEY, LOGICAL, NUMPY, Omission, Result, Schema, SchemaRef, UNTYPED,
    with_metadata,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A field of samples and its place in the file.
#[derive(Clone, Debug)]
pub(crate) struct MappedColumn {
    /// The delivered field.
    pub(crate) field: Field,
    pub(crate) kind: FieldType,
    /// The position of the file's column.
    pub(crate) root: usize,
    /// Positions of the children of structs, from the column inwards, also through lists.
    pub(crate) path: Vec<usize>,
    /// Whether null structs are refused, since they can't be distinguished from null parts.
    pub(crate) strict: bool,
    /// Whether the column is not decoded: all values are null.
    pub(crate) unread: bool,
    /// Whether its values are read as JSON text.
    pub(crate) json: bool,
    /// Whether nulls inside its lists are empty values.
    pub(crate) filled: bool,
    /// The position of the paths beside the bytes of pictures: a picture that has a path alone is refused.
    pub(crate) paths: Option<usize>,
}

impl MappedColumn {
    /// Marks the column as not decoded.
    fn forget(&mut self) {
        if self.field.name() != KEY {
            self.field = FieldType::Blob.field(self.field.name(), true);
            (self.kind, self.path, self.unread) = (FieldType::Blob, Vec::new(), true);
        }
    }

    /// Whether its values may turn out to be unsupported, which its type doesn't tell.
    pub(crate) fn is_doubtful(&self) -> bool {
        let lists = matches!(self.kind, FieldType::List { .. } | FieldType::Tensor { .. } | FieldType::Ragged { .. });
        !self.unread && (lists || self.strict)
    }
}

/// The columns to read of a file, in the order of delivery.
#[derive(Clone, Debug)]
pub(crate) struct Mapping {
    pub(crate) columns: Vec<MappedColumn>,
    pub(crate) schema: SchemaRef,
    /// Columns of the file that are left out.
    pub(crate) omitted: Vec<Omission>,
}

impl Mapping {
    /// Maps the chosen columns of `file`, without those in `faulty`; `note` is the note of our own sink, if any.
    ///
    /// `unreadable` gives the reason why a column can't be read, independent of its type.
    pub(crate) fn new(
        file: &Schema,
        note: Option<&Note>,
        choice: &ColumnSelection,
        faulty: &[Omission],
        unreadable: &dyn Fn(usize) -> Option<String>,
    ) -> Result<Self> {
        let mut found = Found { choice, columns: Vec::new(), omitted: faulty.to_vec() };
        let features = if note.is_none() { huggingface::declared(file) } else { BTreeMap::new() };
        for (root, field) in file.fields().iter().enumerate() {
            if let Some(why) = unreadable(root) {
                found.refuse(field.name(), field.data_type(), &why, root)?;
                continue;
            }
            if choice.is_json(field.name()) {
                found.columns.push(as_json(field, root)?);
                continue;
            }
            match note.and_then(|note| note.field(field.name())).filter(|wanted| fits(field, wanted)) {
                Some(wanted) => found.columns.push(noted(field, wanted, root)?),
                None => derive(field, ColumnPath::root(root), &mut found)?,
            }
            if let (Some(feature), Some(column)) = (features.get(field.name()), found.columns.last_mut())
                && column.field.name() == field.name()
            {
                column.field = huggingface::with_feature(column.field.clone(), &column.kind, feature);
            }
        }
        let Found { columns: mut found, omitted, .. } = found;
        found.retain(|column| !faulty.iter().any(|faulty| faulty.field == *column.field.name()));
        found.iter_mut().filter(|column| choice.is_unread(column.field.name())).for_each(MappedColumn::forget);
        let empty = omitted.iter().filter(|omission| omission.empty).map(|omission| omission.field.as_str());
        choice.check_json(file)?;
        choice.check_fill(&found.iter().map(|column| column.field.name().as_str()).collect::<Vec<_>>())?;
        found.iter_mut().for_each(|column| column.filled = choice.fills(column.field.name()));
        choice.check(found.iter().map(|column| column.field.name().as_str()).chain(empty))?;
        let mut columns: Vec<MappedColumn> =
            found.into_iter().filter(|column| choice.wants(column.field.name())).collect();
        if columns.is_empty() {
            return Err(Error::config("no column is left to read; choose others with `select`"));
        }
        columns.sort_by(|a, b| order(a).cmp(&order(b)));
        for pair in columns.windows(2) {
            if let [a, b] = pair
                && a.field.name() == b.field.name()
            {
                return Err(Error::unsupported(format!("two columns are called {}; rename one", a.field.name())));
            }
        }
        let fields: Vec<Field> = columns.iter().map(|column| column.field.clone()).collect();
        let mut metadata = note.map(Note::metadata).unwrap_or_default();
        let mut names = fields.iter().filter_map(huggingface::names);
        // Numbers of one column of classes are the dataset's classes.
        if let (Some(names), None) = (names.next(), names.next()) {
            metadata.entry(CLASSES.to_owned()).or_insert(names);
        }
        let schema = Schema::new_with_metadata(fields, metadata);
        Ok(Self { columns, schema: Arc::new(schema), omitted })
    }

    /// The positions of the file's columns to read, ascending.
    pub(crate) fn roots(&self) -> Vec<usize> {
        let read = self.columns.iter().filter(|column| !column.unread);
        let mut roots: Vec<usize> = read.map(|column| column.root).collect();
        roots.sort_unstable();
        roots.dedup();
        roots
    }
}

/// The key first, then by name.
fn order(column: &MappedColumn) -> (bool, &str) {
    (column.field.name() != KEY, column.field.name())
}

/// A column that is read as JSON text.
fn as_json(file: &Field, root: usize) -> Result<MappedColumn> {
    if let Some(why) = json_text::refused(file.data_type()) {
        return Err(Error::unsupported(format!("column {} can't be JSON: {why}", file.name())).in_field(file.name()));
    }
    let field = with_metadata(FieldType::Text.field(file.name(), file.is_nullable()), LOGICAL, "json");
    let (kind, path) = (FieldType::Text, Vec::new());
    Ok(MappedColumn { field, kind, root, path, strict: false, unread: false, json: true, filled: false, paths: None })
}

/// A column that our sink wrote.
fn noted(file: &Field, wanted: &Field, root: usize) -> Result<MappedColumn> {
    let kind = FieldType::of(wanted)?;
    let path = match kind {
        FieldType::Blob => image_parts(file).map(|(bytes, _)| bytes).into_iter().collect(),
        FieldType::List { .. } => listed_image_parts(file).map(|(_, bytes, _)| bytes).into_iter().collect(),
        _ => Vec::new(),
    };
    Ok(MappedColumn {
        field: wanted.clone(),
        kind,
        root,
        path,
        strict: false,
        unread: false,
        json: false,
        filled: false,
        paths: None,
    })
}

/// The place of a column or of a part of a struct.
#[derive(Clone)]
struct ColumnPath {
    root: usize,
    path: Vec<usize>,
    prefix: String,
    /// The number of nullable structs around it.
    nullable: usize,
}

impl ColumnPath {
    fn root(root: usize) -> Self {
        Self { root, path: Vec::new(), prefix: String::new(), nullable: 0 }
    }

    fn inside(&self, part: usize, name: &str, nullable: bool) -> Self {
        let path = self.path.iter().copied().chain([part]).collect();
        let nullable = self.nullable + usize::from(nullable);
        Self { root: self.root, path, prefix: format!("{}{name}.", self.prefix), nullable }
    }
}

/// Adds the fields of the column, or part of a struct, `file`.
fn derive(file: &Field, place: ColumnPath, found: &mut Found<'_>) -> Result<()> {
    let name = format!("{}{}", place.prefix, file.name());
    if let Some((bytes, paths)) = image_parts(file) {
        let place = place.inside(bytes, "", file.is_nullable());
        // Null bytes count as a missing field, like a null image.
        let column = column(file, FieldType::Blob, &name, None, ColumnPath { nullable: 0, ..place }, true)?;
        found.columns.push(MappedColumn { paths: Some(paths), ..column });
        return Ok(());
    }
    if let Some((kind, bytes, paths)) = listed_image_parts(file) {
        let column = column(file, kind, &name, None, place.inside(bytes, "", false), file.is_nullable())?;
        found.columns.push(MappedColumn { paths: Some(paths), ..column });
        return Ok(());
    }
    if let Some((kind, numpy)) = kind_of(file) {
        found.columns.push(column(file, kind, &name, numpy, place, file.is_nullable())?);
        return Ok(());
    }
    match file.data_type() {
        DataType::Struct(parts) if !parts.is_empty() && !is_extension(file) => parts
            .iter()
            .enumerate()
            .try_for_each(|(i, part)| derive(part, place.inside(i, file.name(), file.is_nullable()), found)),
        // pandas writes a column of nothing but None without a type.
        DataType::Null if name != KEY && found.choice.wants(&name) && !found.choice.is_unread(&name) => {
            found.omitted.push(Omission { field: name, reason: "has no value".to_owned(), empty: true });
            Ok(())
        }
        other => match listed_parts(file).filter(|_| !found.choice.is_unread(&name)) {
            Some(parts) => {
                (0..).zip(&parts).try_for_each(|(i, part)| derive(part, place.inside(i, file.name(), false), found))
            }
            None => found.refuse(&name, other, "is not supported", place.root),
        },
    }
}

/// The kind of a column of (nested) lists of image structs, and the positions of `bytes` and `path` in these.
fn listed_image_parts(list: &Field) -> Option<(FieldType, usize, usize)> {
    let (DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _)) = list.data_type() else {
        return None;
    };
    let (kind, bytes, paths) = match image_parts(item) {
        Some((bytes, paths)) => (FieldType::Blob, bytes, paths),
        None => listed_image_parts(item)?,
    };
    Some((listed(kind)?, bytes, paths))
}

/// The parts of structs in a list, each as a list of its own; a map is a list of keys and values.
fn listed_parts(list: &Field) -> Option<Vec<Field>> {
    let of = |inside: &Field, names: &[&str], listed: &dyn Fn(Arc<Field>) -> DataType| -> Option<Vec<Field>> {
        let parts: Vec<Field> = match inside.data_type() {
            _ if image_parts(inside).is_some() || is_extension(inside) => return None,
            DataType::Struct(parts) if parts.iter().any(|part| is_extension(part)) => return None,
            DataType::Struct(parts) => parts.iter().map(|part| part.as_ref().clone()).collect(),
            _ => listed_parts(inside)?,
        };
        let named = |(i, part): (usize, Field)| {
            let item = Arc::new(Field::new("item", part.data_type().clone(), true));
            Field::new(*names.get(i).unwrap_or(&part.name().as_str()), listed(item), list.is_nullable())
        };
        (!parts.is_empty()).then(|| parts.into_iter().enumerate().map(named).collect())
    };
    match list.data_type() {
        DataType::List(item) | DataType::LargeList(item) => of(item, &[], &DataType::List),
        DataType::FixedSizeList(item, size) => of(item, &[], &|item| DataType::FixedSizeList(item, *size)),
        DataType::Map(entries, _) => of(entries, &["key", "value"], &DataType::List),
        _ => None,
    }
}

/// The columns found so far.
struct Found<'a> {
    choice: &'a ColumnSelection,
    columns: Vec<MappedColumn>,
    omitted: Vec<Omission>,
}

impl Found<'_> {
    /// Handles a column that can't be read: unread, left out, or an error.
    fn refuse(&mut self, name: &str, data_type: &DataType, why: &str, root: usize) -> Result<()> {
        if self.choice.is_unread(name) {
            let field = FieldType::Blob.field(name, true);
            let (kind, path) = (FieldType::Blob, Vec::new());
            self.columns.push(MappedColumn {
                field,
                kind,
                root,
                path,
                strict: false,
                unread: true,
                json: false,
                filled: false,
                paths: None,
            });
        } else if self.choice.wants_within(name) {
            let why = format!("of type {data_type} {why}");
            if !self.choice.skip {
                return Err(Error::unsupported(format!(
                    "column {name} {why}; leave it out with `drop={name}`, or all such columns with `unsupported=skip`"
                )));
            }
            self.omitted.push(Omission { field: name.to_owned(), reason: why, empty: false });
        }
        Ok(())
    }
}

fn column(
    file: &Field,
    kind: FieldType,
    name: &str,
    numpy: Option<String>,
    place: ColumnPath,
    nullable: bool,
) -> Result<MappedColumn> {
    let is_key = name == KEY;
    let is_number = matches!(&kind, FieldType::Scalar(element) if element.is_integer());
    let kind = if is_key && is_number { FieldType::Text } else { kind };
    if is_key && kind != FieldType::Text {
        let other = file.data_type();
        return Err(Error::unsupported(format!("column {name} of type {other}: keys are text; rename the column")));
    }
    let nullable = (nullable || place.nullable > 0) && !is_key;
    let mut field = kind.field(name, nullable);
    if let Some(numpy) = numpy {
        field = with_metadata(field, NUMPY, &numpy);
    }
    if is_untyped(file.data_type()) {
        field = with_metadata(field, UNTYPED, "lists");
    }
    for (key, value) in temporal::metadata(file.data_type()) {
        field = with_metadata(field, key, &value);
    }
    let strict = place.nullable + usize::from(file.is_nullable()) > 1;
    Ok(MappedColumn {
        field,
        kind,
        root: place.root,
        path: place.path,
        strict,
        unread: false,
        json: false,
        filled: false,
        paths: None,
    })
}

fn is_extension(field: &Field) -> bool {
    field.metadata().get("ARROW:extension:name").is_some_and(|name| name.starts_with("arrow."))
}

/// The kind of a column, with the NumPy type of its metadata or Arrow type.
fn kind_of(field: &Field) -> Option<(FieldType, Option<String>)> {
    let noted = field.metadata().get(NUMPY).cloned();
    if field.metadata().get("ARROW:extension:name").is_some_and(|name| name.ends_with("_shape_tensor")) {
        let kind = FieldType::of(field).ok()?;
        let sound = kind.element().is_some_and(|element| element_of(element).is_some_and(|(e, _)| e == *element));
        return sound.then_some((kind, noted));
    }
    let (kind, numpy) = plain(field.data_type())?;
    Some((kind, noted.filter(|_| numpy.is_some()).or(numpy)))
}

/// Lists of elements without a type.
fn is_untyped(data_type: &DataType) -> bool {
    matches!(data_type, DataType::List(item) | DataType::LargeList(item) if *item.data_type() == DataType::Null)
}

fn plain(data_type: &DataType) -> Option<(FieldType, Option<String>)> {
    match data_type {
        DataType::BinaryView | DataType::Binary | DataType::LargeBinary => Some((FieldType::Blob, None)),
        DataType::Dictionary(_, values) => plain(values),
        // Of lists that are all empty pandas writes no type.
        other if is_untyped(other) => Some((listed(FieldType::Text)?, None)),
        DataType::List(item) | DataType::LargeList(item) => {
            let (kind, numpy) = plain(item.data_type())?;
            Some((listed(kind)?, numpy))
        }
        DataType::FixedSizeList(item, size) => {
            let (kind, numpy) = plain(item.data_type())?;
            Some((vector(kind, usize::try_from(*size).ok()?)?, numpy))
        }
        other => match element_of(other)? {
            (DataType::Utf8View, _) => Some((FieldType::Text, None)),
            (element, numpy) => Some((FieldType::Scalar(element), numpy)),
        },
    }
}

/// Lists of `kind`.
fn listed(kind: FieldType) -> Option<FieldType> {
    match kind {
        FieldType::Scalar(element) => Some(FieldType::List { element, depth: 1 }),
        FieldType::Text => Some(FieldType::List { element: DataType::Utf8View, depth: 1 }),
        FieldType::Blob => Some(FieldType::List { element: DataType::BinaryView, depth: 1 }),
        FieldType::List { element, depth } => Some(FieldType::List { element, depth: depth + 1 }),
        FieldType::Tensor { element, shape } => Some(FieldType::List { element, depth: shape.len() + 1 }),
        FieldType::Ragged { .. } => None,
    }
}

/// `size` times `kind`.
fn vector(kind: FieldType, size: usize) -> Option<FieldType> {
    match kind {
        FieldType::Scalar(element) => Some(FieldType::Tensor { element, shape: vec![size] }),
        FieldType::Text => Some(FieldType::Tensor { element: DataType::Utf8View, shape: vec![size] }),
        FieldType::Tensor { element, mut shape } => {
            shape.insert(0, size);
            let elements = shape.iter().try_fold(1usize, |n, d| n.checked_mul(*d))?;
            i32::try_from(elements).ok()?;
            Some(FieldType::Tensor { element, shape })
        }
        other => listed(other),
    }
}

/// The element type for an Arrow type, and its NumPy type if needed.
fn element_of(data_type: &DataType) -> Option<(DataType, Option<String>)> {
    use DataType::{
        Boolean, Decimal32, Decimal64, Decimal128, Decimal256, FixedSizeBinary, Float16, Float32, Float64, LargeUtf8,
        Utf8, Utf8View,
    };
    match data_type {
        Boolean | Float16 | Float32 | Float64 => Some((data_type.clone(), None)),
        integer if integer.is_integer() => Some((integer.clone(), None)),
        FixedSizeBinary(n) if *n > 0 => Some((data_type.clone(), Some(format!("|V{n}")))),
        Utf8View | Utf8 | LargeUtf8 | Decimal32(..) | Decimal64(..) | Decimal128(..) | Decimal256(..) => {
            Some((Utf8View, None))
        }
        other => Some((FixedSizeBinary(8), Some(temporal::numpy(other)?))),
    }
}
