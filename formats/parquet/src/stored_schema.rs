//! The stored form of fields: the Arrow types of a file's columns, and the conversion of rows to them.
//!
//! | field | column |
//! | --- | --- |
//! | blob whose name's last extension is an image type, and other pictures and sounds of Hugging Face | `struct<bytes: binary, path: string>`, path = `KEY.FIELD` |
//! | lists of such blobs | (nested) lists of that struct, path = null |
//! | other blobs, text, scalars | binary, string, their own type |
//! | tensor | (nested) fixed-size lists, outermost dimension first; lists where a dimension is 0 |
//! | tensor with `tensor-ext=on` | one fixed-size list with the extension `arrow.fixed_shape_tensor` |
//! | ragged tensor | `struct<data: list, shape: fixed-size list of i32>` |
//! | ticks with a NumPy type | date, time of day, timestamp, duration |
//! | lists | (nested) lists, of binary where they hold bytes |
//!
//! Every column is declared nullable, as Hugging Face requires; the note keeps the field's own nullability.

use crate::huggingface;
use crate::temporal;
use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, FixedSizeListArray, ListArray, RecordBatch, RecordBatchOptions,
    StringArray, StringViewArray, StructArray, make_array,
};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::{ArrowError, Fields};
use packhorse_core::{
    DataType, Error, Field, FieldType, HUGGINGFACE, KEY, NUMPY, Result, Rows, Schema, SchemaRef, canonical,
};
use std::sync::Arc;

const IMAGES: [&str; 8] = ["jpg", "jpeg", "png", "webp", "gif", "bmp", "tif", "tiff"];

/// The names of the parts of an image struct.
pub(crate) const BYTES: &str = "bytes";
const PATH: &str = "path";

/// Whether a blob named `name` is an image, by its extension.
pub(crate) fn is_image(name: &str) -> bool {
    let extension = name.rsplit('.').next().unwrap_or(name);
    IMAGES.iter().any(|image| extension.eq_ignore_ascii_case(image))
}

/// The positions of `bytes` and `path`, if the column is an image struct of Hugging Face.
pub(crate) fn image_parts(field: &Field) -> Option<(usize, usize)> {
    let DataType::Struct(parts) = field.data_type() else { return None };
    let position = |name: &str| parts.iter().position(|part| part.name() == name);
    let (bytes, path) = (position(BYTES)?, position(PATH)?);
    let sound = parts.len() == 2
        && matches!(parts.get(bytes)?.data_type(), DataType::Binary | DataType::LargeBinary | DataType::BinaryView)
        // Paths that are all missing have no type.
        && matches!(
            parts.get(path)?.data_type(),
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null
        );
    sound.then_some((bytes, path))
}

/// Variants of the stored form.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    /// Tensors have their extension type.
    pub(crate) tensor_ext: bool,
    /// The file is Parquet.
    pub(crate) parquet: bool,
}

/// The stored form of a schema.
#[derive(Clone, Debug)]
pub(crate) struct StoredSchema {
    fields: Vec<(FieldType, Field)>,
    given: SchemaRef,
    parquet: bool,
    /// The columns of the file, with text and bytes in types that every reader knows.
    pub(crate) schema: SchemaRef,
}

impl StoredSchema {
    /// The stored form of `schema`; an `Unsupported` error names a field and type that can't be stored.
    pub(crate) fn new(schema: &Schema, style: Style) -> Result<Self> {
        let mut fields = Vec::new();
        for field in schema.fields() {
            let kind = FieldType::of(field)?;
            check(field, &kind)?;
            fields.push((kind.clone(), stored(field, &kind, style)));
        }
        if fields.is_empty() {
            return Err(Error::unsupported("samples without a field can't be written as columns"));
        }
        let columns: Vec<Field> = fields.iter().map(|(_, field)| field.clone()).collect();
        let given = Arc::new(Schema::new(schema.fields().clone()));
        Ok(Self { fields, given, parquet: style.parquet, schema: Arc::new(Schema::new(columns)) })
    }

    /// The kind of each field, and its column.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&FieldType, &Field)> {
        self.fields.iter().map(|(kind, field)| (kind, field))
    }

    /// Converts `rows` to columns of the file, with text and bytes as views.
    pub(crate) fn columns(&self, rows: &Rows) -> Result<RecordBatch> {
        let keys = rows.column_by_name(KEY).map(|keys| canonical(&FieldType::Text, keys)).transpose()?;
        let given = self.fields.iter().zip(self.given.fields()).zip(rows.columns());
        let arrays = given.map(|(((kind, field), given), array)| {
            let array = canonical(kind, array)
                .and_then(|array| temporal::written(given, &array, self.parquet))
                .map_err(|e| e.context(format_args!("field {} of type {kind}", field.name())).in_field(field.name()))?;
            store(kind, field, array, keys.as_ref().map(|keys| keys.as_string_view()))
        });
        let arrays = arrays.collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        RecordBatch::try_new_with_options(Arc::new(viewed(&self.schema)), arrays, &options).map_err(bug)
    }
}

/// Refuses a field that can't be stored.
fn check(field: &Field, kind: &FieldType) -> Result<()> {
    let sound = match kind {
        FieldType::Tensor { shape, .. } => {
            let elements = shape.iter().try_fold(1usize, |n, d| n.checked_mul(*d));
            shape.len() <= 32 && elements.is_some_and(|n| i32::try_from(n).is_ok())
        }
        FieldType::Ragged { rank, .. } => *rank <= 32,
        FieldType::List { depth, .. } => *depth <= 32,
        _ => true,
    };
    let element = kind.element().is_none_or(|element| crate::note::element_name(element).is_some());
    match sound && element {
        true => Ok(()),
        false => Err(Error::unsupported(format!("field {} of type {kind} can't be a column", field.name()))),
    }
}

/// The column of the field `field`.
fn stored(field: &Field, kind: &FieldType, style: Style) -> Field {
    // Hugging Face ignores the feature of a field that is not nullable.
    let (name, nullable) = (field.name().as_str(), true);
    let logical = temporal::logical(field).map(|ticks| if style.parquet { temporal::in_parquet(ticks) } else { ticks });
    let kind = &written(kind, logical.as_ref());
    let tensor_ext = style.tensor_ext;
    match kind {
        FieldType::Blob if is_medium(field) => Field::new(name, medium(), nullable),
        FieldType::List { element: DataType::Binary, depth } if is_medium(field) => {
            let wrap = |inner: DataType, _| DataType::List(Arc::new(Field::new("item", inner, true)));
            Field::new(name, (0..*depth).fold(medium(), wrap), nullable)
        }
        FieldType::Tensor { element, shape } if shape.contains(&0) => {
            FieldType::List { element: element.clone(), depth: 1 }.field(name, nullable)
        }
        FieldType::Tensor { element, shape } if !tensor_ext => {
            let wrap = |inner: DataType, size: &usize| {
                let size = i32::try_from(*size).unwrap_or(i32::MAX);
                DataType::FixedSizeList(Arc::new(Field::new("item", inner, huggingface::has_classes(field))), size)
            };
            Field::new(name, shape.iter().rev().fold(element.clone(), wrap), nullable)
        }
        FieldType::Ragged { .. } if !tensor_ext => {
            let parts = kind.field(name, nullable).data_type().clone();
            // pyarrow reads the parts of a null struct as empty lists unless they are nullable.
            let parts = if field.is_nullable() && style.parquet { with_nullable_parts(parts) } else { parts };
            Field::new(name, parts, nullable)
        }
        FieldType::Tensor { element, shape } if style.parquet => {
            // Arrow's libraries recognise the extension in Parquet by its type, whose elements may be null.
            let elements = i32::try_from(shape.iter().product::<usize>()).unwrap_or(i32::MAX);
            let item = Arc::new(Field::new("item", element.clone(), true));
            kind.field(name, nullable).with_data_type(DataType::FixedSizeList(item, elements))
        }
        FieldType::Blob => Field::new(name, DataType::Binary, nullable),
        FieldType::Text => Field::new(name, DataType::Utf8, nullable),
        // Nor does it know classes and pictures in lists of values that are not nullable.
        FieldType::List { .. } if field.metadata().contains_key(HUGGINGFACE) => {
            Field::new(name, with_nullable_items(kind.field(name, nullable).data_type()), nullable)
        }
        other => other.field(name, nullable),
    }
}

/// Whether bytes of the field are pictures or other media of Hugging Face.
fn is_medium(field: &Field) -> bool {
    is_image(field.name()) || huggingface::is_medium(field)
}

/// The type that it stores these in.
fn medium() -> DataType {
    let parts = [Field::new(BYTES, DataType::Binary, true), Field::new(PATH, DataType::Utf8, true)];
    DataType::Struct(parts.into_iter().collect())
}

fn with_nullable_items(list: &DataType) -> DataType {
    match list {
        DataType::List(item) => {
            let inner = with_nullable_items(item.data_type());
            DataType::List(Arc::new(Field::clone(item).with_data_type(inner).with_nullable(true)))
        }
        other => other.clone(),
    }
}

fn with_nullable_parts(parts: DataType) -> DataType {
    match parts {
        DataType::Struct(parts) => {
            DataType::Struct(parts.iter().map(|part| Field::clone(part).with_nullable(true)).collect())
        }
        other => other,
    }
}

/// The same kind with text as `Utf8`, which every reader knows, and ticks in their `logical` type.
fn written(kind: &FieldType, logical: Option<&DataType>) -> FieldType {
    let text = |element: &DataType| match (element, logical) {
        (DataType::Utf8View, _) => DataType::Utf8,
        (DataType::BinaryView, _) => DataType::Binary,
        (DataType::FixedSizeBinary(8), Some(logical)) => logical.clone(),
        (other, _) => other.clone(),
    };
    match kind {
        FieldType::Scalar(element @ DataType::FixedSizeBinary(_)) => FieldType::Scalar(text(element)),
        FieldType::Tensor { element, shape } => FieldType::Tensor { element: text(element), shape: shape.clone() },
        FieldType::Ragged { element, rank } => FieldType::Ragged { element: text(element), rank: *rank },
        FieldType::List { element, depth } => FieldType::List { element: text(element), depth: *depth },
        other => other.clone(),
    }
}

/// Converts a canonical column to the form of `field`, with text and bytes still as views.
fn store(kind: &FieldType, field: &Field, array: ArrayRef, keys: Option<&StringViewArray>) -> Result<ArrayRef> {
    let wanted = viewed_type(field.data_type());
    match (kind, &wanted) {
        (FieldType::Blob, DataType::Struct(parts)) => {
            let path = |i: usize| {
                let key = keys.filter(|keys| array.is_valid(i) && keys.is_valid(i))?.value(i);
                Some(format!("{key}.{}", field.name()))
            };
            let paths = (0..array.len()).map(path).collect();
            with_paths(parts, array, paths)
        }
        (FieldType::Tensor { .. }, DataType::List(item)) => {
            let offsets = arrow_buffer::OffsetBuffer::from_lengths(std::iter::repeat_n(0, array.len()));
            let values = Arc::clone(array.as_fixed_size_list().values());
            Ok(Arc::new(ListArray::try_new(Arc::clone(item), offsets, values, array.nulls().cloned()).map_err(bug)?))
        }
        (FieldType::Tensor { .. }, DataType::FixedSizeList(..)) => nest(&wanted, array.as_fixed_size_list()),
        (FieldType::List { .. }, DataType::List(item)) => as_items(item, &array),
        // Only the nullability of the parts differs.
        (FieldType::Ragged { .. }, DataType::Struct(parts)) => {
            let (_, children, nulls) = array.as_struct().clone().into_parts();
            Ok(Arc::new(StructArray::try_new(parts.clone(), children, nulls).map_err(bug)?))
        }
        _ => Ok(array),
    }
}

/// Blobs with the paths of their files, as structs of these parts.
fn with_paths(parts: &Fields, blobs: ArrayRef, paths: StringViewArray) -> Result<ArrayRef> {
    let nulls = blobs.nulls().cloned();
    let children: Vec<ArrayRef> = vec![blobs, Arc::new(paths)];
    Ok(Arc::new(StructArray::try_new(parts.clone(), children, nulls).map_err(bug)?))
}

/// The lists with `item` as their values, whose nullability alone may differ, and blobs as structs.
fn as_items(item: &Arc<Field>, array: &ArrayRef) -> Result<ArrayRef> {
    let Some(lists) = array.as_list_opt::<i32>() else { return Ok(Arc::clone(array)) };
    let values = match item.data_type() {
        DataType::List(inner) => as_items(inner, lists.values())?,
        DataType::Struct(parts) => {
            with_paths(parts, Arc::clone(lists.values()), StringViewArray::new_null(lists.values().len()))?
        }
        _ => Arc::clone(lists.values()),
    };
    let (offsets, nulls) = (lists.offsets().clone(), lists.nulls().cloned());
    Ok(Arc::new(ListArray::try_new(Arc::clone(item), offsets, values, nulls).map_err(bug)?))
}

/// Nests a flat fixed-size list.
fn nest(wanted: &DataType, array: &FixedSizeListArray) -> Result<ArrayRef> {
    let mut levels = Vec::new();
    let mut at = wanted;
    while let DataType::FixedSizeList(item, size) = at {
        levels.push((item, *size));
        at = item.data_type();
    }
    let mut values = Arc::clone(array.values());
    for (depth, (item, size)) in levels.into_iter().enumerate().rev() {
        let nulls = array.nulls().filter(|_| depth == 0).cloned();
        values = Arc::new(FixedSizeListArray::try_new(Arc::clone(item), size, values, nulls).map_err(bug)?);
    }
    Ok(values)
}

/// The same schema with text and bytes as views.
pub(crate) fn viewed(schema: &Schema) -> Schema {
    let fields: Vec<Field> = schema.fields().iter().map(|field| viewed_field(field)).collect();
    Schema::new(fields)
}

/// The same field with text and bytes as views at every level, lists with 32-bit offsets, and without dictionaries.
pub(crate) fn viewed_field(field: &Field) -> Field {
    field.clone().with_data_type(viewed_type(field.data_type()))
}

fn viewed_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        DataType::Binary | DataType::LargeBinary => DataType::BinaryView,
        DataType::Dictionary(_, values) => viewed_type(values),
        DataType::List(item) | DataType::LargeList(item) => DataType::List(Arc::new(viewed_field(item))),
        DataType::FixedSizeList(item, size) => DataType::FixedSizeList(Arc::new(viewed_field(item)), *size),
        DataType::Struct(parts) => DataType::Struct(parts.iter().map(|part| viewed_field(part)).collect()),
        DataType::Map(entries, sorted) => DataType::Map(Arc::new(viewed_field(entries)), *sorted),
        other => other.clone(),
    }
}

/// Converts `array`, whose text and bytes are views, to the type `wanted`. Bits past the end of bitmaps are cleared,
/// since bitmaps are written verbatim.
pub(crate) fn plain(array: &ArrayRef, wanted: &DataType) -> Result<ArrayRef> {
    let nulls = array.nulls().filter(|nulls| nulls.null_count() > 0).map(|nulls| NullBuffer::new(clean(nulls.inner())));
    match (array.data_type(), wanted) {
        (DataType::Utf8View, DataType::Utf8) => Ok(Arc::new(array.as_string_view().iter().collect::<StringArray>())),
        (DataType::BinaryView, DataType::Binary) => {
            Ok(Arc::new(array.as_binary_view().iter().collect::<BinaryArray>()))
        }
        (DataType::Boolean, DataType::Boolean) => {
            Ok(Arc::new(BooleanArray::new(clean(array.as_boolean().values()), nulls)))
        }
        (DataType::Struct(_), DataType::Struct(parts)) => {
            let children = parts.iter().zip(array.as_struct().columns()).map(|(part, c)| plain(c, part.data_type()));
            let children = children.collect::<Result<Vec<_>>>()?;
            Ok(Arc::new(StructArray::try_new(parts.clone(), children, nulls).map_err(bug)?))
        }
        (DataType::List(_), DataType::List(item)) => {
            let lists = array.as_list::<i32>();
            let values = plain(lists.values(), item.data_type())?;
            let lists = ListArray::try_new(Arc::clone(item), lists.offsets().clone(), values, nulls);
            Ok(Arc::new(lists.map_err(bug)?))
        }
        (DataType::FixedSizeList(..), DataType::FixedSizeList(item, size)) => {
            let values = plain(array.as_fixed_size_list().values(), item.data_type())?;
            let lists = FixedSizeListArray::try_new(Arc::clone(item), *size, values, nulls);
            Ok(Arc::new(lists.map_err(bug)?))
        }
        _ => array.to_data().into_builder().nulls(nulls).build().map(make_array).map_err(bug),
    }
}

fn clean(bits: &BooleanBuffer) -> BooleanBuffer {
    bits.iter().collect()
}

/// Whether the column `found` is a stored form of the field `wanted`, in any variant.
pub(crate) fn fits(found: &Field, wanted: &Field) -> bool {
    let Ok(kind) = FieldType::of(wanted) else { return false };
    let alike = |field: &Field, tensor_ext: bool, parquet: bool| {
        let stored = stored(field, &kind, Style { tensor_ext, parquet });
        same(&viewed_type(found.data_type()), &viewed_type(stored.data_type()))
    };
    // Revision 1 stored ticks without their NumPy type.
    let bare = wanted.clone().with_metadata(
        wanted
            .metadata()
            .iter()
            .filter(|(k, _)| *k != NUMPY)
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect::<std::collections::BTreeMap<_, _>>(),
    );
    let styles = [(false, false), (true, false), (false, true), (true, true)];
    check(wanted, &kind).is_ok()
        && styles.iter().any(|(ext, parquet)| alike(wanted, *ext, *parquet) || alike(&bare, *ext, *parquet))
}

/// Whether the types are equal, ignoring the names and the nullability of list elements.
fn same(a: &DataType, b: &DataType) -> bool {
    match (a, b) {
        (DataType::List(a), DataType::List(b)) => same(a.data_type(), b.data_type()),
        (DataType::FixedSizeList(a, n), DataType::FixedSizeList(b, m)) => n == m && same(a.data_type(), b.data_type()),
        (DataType::Struct(a), DataType::Struct(b)) => {
            let pair = |(a, b): (&Arc<Field>, &Arc<Field>)| a.name() == b.name() && same(a.data_type(), b.data_type());
            a.len() == b.len() && a.iter().zip(b).all(pair)
        }
        (a, b) => a == b,
    }
}

fn bug(error: ArrowError) -> Error {
    Error::bug(error.to_string())
}
