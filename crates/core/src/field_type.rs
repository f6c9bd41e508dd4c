//! What a column holds, said once for all rooms: how tensors, ragged arrays and jagged lists are Arrow.
//!
//! | [`FieldType`] | Arrow type of the column | one sample holds |
//! | --- | --- | --- |
//! | `Blob` | `BinaryView` (also `Binary`, `LargeBinary`) | bytes of any length |
//! | `Text` | `Utf8View` (also `Utf8`, `LargeUtf8`) | UTF-8 |
//! | `Scalar` | the element's own type | one element |
//! | `Tensor` | `arrow.fixed_shape_tensor`: `FixedSizeList` of elements | the same shape in every sample, C order |
//! | `Ragged` | `arrow.variable_shape_tensor`: struct of `data` (list of elements) and `shape` (i32) | a shape of its own, the same rank |
//! | `List` | (nested) `List` or `LargeList` of elements, or of bytes | jagged data, as physicists write it; the pictures of a sample |
//!
//! The extension types are those of the
//! [Arrow specification](https://arrow.apache.org/docs/format/CanonicalExtensions.html). Elements are
//! `Boolean`, integers, floats (`Float16` too), `Utf8View`, and `FixedSizeBinary` for types that Arrow
//! has no twin of; for those (and where the width of text matters) the metadata [`NUMPY`] of the
//! column names the NumPy type, in little-endian byte order.

use crate::{DataType, Error, Field, Result};
use std::collections::HashMap;
use std::sync::Arc;

/// The metadata of a column that names its NumPy type (`<c8`, `|S5`, `<M8[ns]`, `<U7`).
pub const NUMPY: &str = "packhorse.numpy";

/// The metadata of a column whose numbers stand for others: a JSON object of `scale_factor`, `add_offset`,
/// `_FillValue`, `missing_value`, `units`, `calendar`, as the CF conventions mean them. Columns that differ in it are
/// not one.
pub const PACKED: &str = "packhorse.packed";

/// The metadata of a column of dates or times, ticks of 8 bytes whose [`NUMPY`] type is `<M8[…]` or `<m8[…]`, where the
/// file they come from says more: `date32`, `date64`, `time32[s]`, `time64[us]`, `timestamp[us, tz=UTC]`, as Arrow's
/// documents name types. Formats that have such types write them; to others the column is ticks. Of a column of text: `json`, where each
/// value is a JSON text.
pub const LOGICAL: &str = "packhorse.logical";

/// The metadata of a column whose blobs are encoded: `image/jpeg`, `image/png`, …
pub const ENCODING: &str = "packhorse.encoding";

/// The metadata of a column that Hugging Face's `datasets` wrote, where its type does not tell what it is: the JSON of its feature, such as
/// `{"_type": "Image"}` or the names of a `ClassLabel`.
pub const HUGGINGFACE: &str = "packhorse.huggingface";
/// Metadata of a field whose type its values do not tell: `lists`, which are all empty, of the elements that other inputs have, or of text;
/// `one`, where each sample seen has one value, which is a list of one where other inputs have lists; `text`, lists of bytes that happen to
/// be UTF-8.
pub const UNTYPED: &str = "packhorse.untyped";

/// The metadata of a schema that names the table of a file, where files of the format may hold several.
pub const TABLE: &str = "packhorse.table";

/// The metadata of a schema that holds the class list of the field `cls`, a JSON array of names.
pub const CLASSES: &str = "packhorse.classes";

const EXTENSION: &str = "ARROW:extension:name";
const PARAMETERS: &str = "ARROW:extension:metadata";
const FIXED: &str = "arrow.fixed_shape_tensor";
const VARIABLE: &str = "arrow.variable_shape_tensor";
/// The names that the specification gives to the parts of a variable-shape tensor.
const DATA: &str = "data";
const SHAPE: &str = "shape";

/// What a column holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldType {
    /// Bytes of any length.
    Blob,
    /// UTF-8 of any length.
    Text,
    /// One element a sample.
    Scalar(DataType),
    /// Elements of one shape, the same in every sample, in C order.
    Tensor {
        /// The type of an element.
        element: DataType,
        /// Its dimensions, without that of the samples; at least one. A dimension may be 0.
        shape: Vec<usize>,
    },
    /// Elements of a shape that differs from sample to sample, in C order.
    Ragged {
        /// The type of an element.
        element: DataType,
        /// How many dimensions, at least one.
        rank: usize,
    },
    /// Lists of lists of elements.
    List {
        /// The type of an element; here it may also be bytes of any length.
        element: DataType,
        /// How many lists are inside each other, at least one.
        depth: usize,
    },
}

impl FieldType {
    /// What the column `field` holds; `Unsupported`, naming field and type, if it is none of these.
    pub fn of(field: &Field) -> Result<Self> {
        let other = || Error::unsupported(format!("field {} of type {}", field.name(), field.data_type()));
        match field.metadata().get(EXTENSION).map(String::as_str) {
            Some(FIXED) => fixed(field).ok_or_else(other),
            Some(VARIABLE) => variable(field).ok_or_else(other),
            _ => plain(field.data_type()).ok_or_else(other),
        }
    }

    /// The same with elements of text as views, which packhorse's own sources deliver.
    pub fn with_views(mut self) -> Self {
        if let FieldType::Tensor { element, .. } | FieldType::Ragged { element, .. } | FieldType::List { element, .. } =
            &mut self
        {
            match element {
                DataType::Utf8 | DataType::LargeUtf8 => *element = DataType::Utf8View,
                DataType::Binary | DataType::LargeBinary => *element = DataType::BinaryView,
                _ => {}
            }
        }
        self
    }

    /// The column called `name` that holds this, in the types that packhorse's own sources deliver.
    pub fn field(&self, name: &str, nullable: bool) -> Field {
        match self {
            FieldType::Blob => Field::new(name, DataType::BinaryView, nullable),
            FieldType::Text => Field::new(name, DataType::Utf8View, nullable),
            FieldType::Scalar(element) => Field::new(name, element.clone(), nullable),
            FieldType::Tensor { element, shape } => {
                let size = i32::try_from(shape.iter().product::<usize>()).unwrap_or(i32::MAX);
                let list = DataType::FixedSizeList(Arc::new(item(element.clone())), size);
                let parameters = format!("{{\"shape\":[{}]}}", join(shape.iter()));
                extension(Field::new(name, list, nullable), FIXED, &parameters)
            }
            FieldType::Ragged { element, rank } => {
                let rank = i32::try_from(*rank).unwrap_or(i32::MAX);
                let data = Field::new(DATA, DataType::List(Arc::new(item(element.clone()))), false);
                let shape = DataType::FixedSizeList(Arc::new(item(DataType::Int32)), rank);
                let parts = DataType::Struct([data, Field::new(SHAPE, shape, false)].into_iter().collect());
                extension(Field::new(name, parts, nullable), VARIABLE, "{}")
            }
            FieldType::List { element, depth } => {
                let wrap = |inner: DataType, _| DataType::List(Arc::new(item(inner)));
                Field::new(name, (0..*depth).fold(element.clone(), wrap), nullable)
            }
        }
    }

    /// Whether samples hold bytes of any length, one or several.
    pub fn holds_blobs(&self) -> bool {
        use DataType::{Binary, BinaryView, LargeBinary};
        matches!(self, FieldType::Blob | FieldType::List { element: BinaryView | Binary | LargeBinary, .. })
    }

    /// The type of an element; `None` for blobs and text.
    pub fn element(&self) -> Option<&DataType> {
        match self {
            FieldType::Blob | FieldType::Text => None,
            FieldType::Scalar(element)
            | FieldType::Tensor { element, .. }
            | FieldType::Ragged { element, .. }
            | FieldType::List { element, .. } => Some(element),
        }
    }
}

impl std::fmt::Display for FieldType {
    /// As users read it: `Float32[3,224,224]`, `UInt8[?,?,?]`, `list<list<Float64>>`, `list<blob>`, `blob`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            FieldType::Blob => f.write_str("blob"),
            FieldType::Text => f.write_str("text"),
            FieldType::Scalar(element) => write!(f, "{element}"),
            FieldType::Tensor { element, shape } => write!(f, "{element}[{}]", join(shape.iter())),
            FieldType::Ragged { element, rank } => write!(f, "{element}[{}]", join((0..*rank).map(|_| '?'))),
            FieldType::List { element: DataType::BinaryView, depth } => {
                write!(f, "{}blob{}", "list<".repeat(*depth), ">".repeat(*depth))
            }
            FieldType::List { element, depth } => {
                write!(f, "{}{element}{}", "list<".repeat(*depth), ">".repeat(*depth))
            }
        }
    }
}

/// The name of the NumPy type that the column's metadata gives, if it does.
pub fn numpy_type(field: &Field) -> Option<&str> {
    field.metadata().get(NUMPY).map(String::as_str)
}

/// `field` with one more entry of metadata.
pub fn with_metadata(field: Field, key: &str, value: &str) -> Field {
    let mut metadata: HashMap<String, String> = field.metadata().clone().into();
    metadata.insert(key.to_owned(), value.to_owned());
    field.with_metadata(metadata)
}

/// The field inside a list; its name is Arrow's own, and no element is null.
fn item(element: DataType) -> Field {
    Field::new("item", element, false)
}

fn extension(field: Field, name: &str, parameters: &str) -> Field {
    with_metadata(with_metadata(field, EXTENSION, name), PARAMETERS, parameters)
}

fn join(parts: impl Iterator<Item = impl ToString>) -> String {
    parts.map(|part| part.to_string()).collect::<Vec<_>>().join(",")
}

fn is_element(data_type: &DataType) -> bool {
    use DataType::{Boolean, FixedSizeBinary, Float16, Float32, Float64, Utf8, Utf8View};
    data_type.is_integer()
        || matches!(data_type, Boolean | Float16 | Float32 | Float64 | Utf8View | Utf8 | FixedSizeBinary(_))
}

fn plain(data_type: &DataType) -> Option<FieldType> {
    match data_type {
        DataType::BinaryView | DataType::Binary | DataType::LargeBinary => Some(FieldType::Blob),
        DataType::Utf8View | DataType::Utf8 | DataType::LargeUtf8 => Some(FieldType::Text),
        DataType::List(item) | DataType::LargeList(item) => match plain(item.data_type())? {
            FieldType::List { element, depth } => Some(FieldType::List { element, depth: depth + 1 }),
            FieldType::Scalar(element) => Some(FieldType::List { element, depth: 1 }),
            FieldType::Text | FieldType::Blob => Some(FieldType::List { element: item.data_type().clone(), depth: 1 }),
            _ => None,
        },
        // A fixed list that says no more is a vector, or vectors in a vector.
        DataType::FixedSizeList(item, size) => {
            let size = usize::try_from(*size).ok()?;
            match plain(item.data_type())? {
                FieldType::Scalar(element) => Some(FieldType::Tensor { element, shape: vec![size] }),
                FieldType::Tensor { element, mut shape } => {
                    shape.insert(0, size);
                    Some(FieldType::Tensor { element, shape })
                }
                _ => None,
            }
        }
        element if is_element(element) => Some(FieldType::Scalar(element.clone())),
        _ => None,
    }
}

fn fixed(field: &Field) -> Option<FieldType> {
    let DataType::FixedSizeList(item, size) = field.data_type() else { return None };
    let shape = numbers(field.metadata().get(PARAMETERS)?, "\"shape\"")?;
    let permuted = is_permuted(field);
    let product = shape.iter().try_fold(1usize, |n, d| n.checked_mul(*d))?;
    let fits = !permuted && product == usize::try_from(*size).ok()? && !shape.is_empty();
    (fits && is_element(item.data_type())).then(|| FieldType::Tensor { element: item.data_type().clone(), shape })
}

fn variable(field: &Field) -> Option<FieldType> {
    let DataType::Struct(parts) = field.data_type() else { return None };
    let part = |name: &str| parts.iter().find(|f| f.name() == name).map(|f| f.data_type());
    let DataType::FixedSizeList(_, rank) = part(SHAPE)? else { return None };
    let (DataType::List(item) | DataType::LargeList(item)) = part(DATA)? else { return None };
    let permuted = is_permuted(field);
    (!permuted && is_element(item.data_type()))
        .then_some(FieldType::Ragged { element: item.data_type().clone(), rank: usize::try_from(*rank).ok()? })
}

/// Whether the dimensions are not in C order: packhorse never writes such tensors and does not read them.
fn is_permuted(field: &Field) -> bool {
    const PERMUTATION: &str = "\"permutation\"";
    let Some(parameters) = field.metadata().get(PARAMETERS).filter(|text| text.contains(PERMUTATION)) else {
        return false;
    };
    // pyarrow writes the permutation that changes nothing too.
    numbers(parameters, PERMUTATION).is_none_or(|order| !order.iter().copied().eq(0..order.len()))
}

/// The numbers of the JSON array that follows `name`.
fn numbers(json: &str, name: &str) -> Option<Vec<usize>> {
    let (_, rest) = json.split_once(name)?;
    let inside = rest.trim_start().strip_prefix(':')?.trim_start().strip_prefix('[')?.split(']').next()?;
    inside.split(',').filter(|n| !n.trim().is_empty()).map(|n| n.trim().parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_is_recognised() {
        let f32 = DataType::Float32;
        for kind in [
            FieldType::Blob,
            FieldType::Text,
            FieldType::Scalar(DataType::Boolean),
            FieldType::Scalar(DataType::FixedSizeBinary(16)),
            FieldType::Tensor { element: f32.clone(), shape: vec![3, 0, 2] },
            FieldType::Tensor { element: DataType::Utf8View, shape: vec![4] },
            FieldType::Ragged { element: f32.clone(), rank: 3 },
            FieldType::List { element: f32, depth: 3 },
            FieldType::List { element: DataType::Utf8View, depth: 1 },
            FieldType::List { element: DataType::BinaryView, depth: 2 },
        ] {
            assert_eq!(FieldType::of(&kind.field("x", true)).unwrap(), kind);
        }
    }

    #[test]
    fn fixed_lists_of_others_are_tensors() {
        let inner = DataType::FixedSizeList(Arc::new(item(DataType::Int8)), 2);
        let outer = Field::new("x", DataType::FixedSizeList(Arc::new(item(inner)), 5), false);
        let found = FieldType::of(&outer).unwrap();
        assert_eq!(found, FieldType::Tensor { element: DataType::Int8, shape: vec![5, 2] });
        assert_eq!(found.to_string(), "Int8[5,2]");
    }

    #[test]
    fn a_permutation_that_changes_nothing_is_none() {
        let kind = FieldType::Tensor { element: DataType::Int8, shape: vec![3, 2] };
        let of = |order: &str| {
            let parameters = format!("{{\"shape\":[3,2],\"permutation\":{order}}}");
            FieldType::of(&with_metadata(kind.field("x", false), PARAMETERS, &parameters))
        };
        assert_eq!(of("[0,1]").unwrap(), kind);
        assert!(of("[1,0]").is_err());
    }

    #[test]
    fn what_is_none_of_these_is_named() {
        let odd = Field::new("when", DataType::Date32, false);
        let error = FieldType::of(&odd).unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string()),
            (crate::Kind::Unsupported, "field when of type Date32".to_owned())
        );
        let lies = FieldType::Tensor { element: DataType::Int8, shape: vec![2, 3] }.field("x", false);
        let lies = with_metadata(lies, PARAMETERS, "{\"shape\":[2,4]}");
        assert!(FieldType::of(&lies).is_err());
    }
}
