//! The first values of an array, for people.

use crate::line::of_numpy;
use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, downcast_primitive_array};
use packhorse_core::{DataType, FieldType};

/// So many values of an array are shown.
const SHOWN: usize = 8;

/// The longest text of a value, in characters.
const LONGEST: usize = 20;

/// The first values and the shape of row `row` of a column of arrays: `[1, 2, 3, …] Int64[12]`. `None` for other columns. `numpy` is the
/// type of elements that Arrow has none for.
pub(crate) fn first_values(kind: &FieldType, numpy: Option<&str>, column: &ArrayRef, row: usize) -> Option<String> {
    let mut left = First { left: SHOWN, numpy };
    let name = |element: &DataType| match (numpy, element) {
        (Some(numpy), _) => numpy.to_owned(),
        (None, DataType::Utf8View) => FieldType::Text.to_string(),
        (None, DataType::BinaryView) => FieldType::Blob.to_string(),
        (None, element) => element.to_string(),
    };
    match kind {
        FieldType::Blob | FieldType::Text | FieldType::Scalar(_) => None,
        FieldType::Tensor { element, shape } => {
            let values = column.as_fixed_size_list_opt()?.value(row);
            let shape: Vec<String> = shape.iter().map(usize::to_string).collect();
            Some(format!("{} {}[{}]", left.listed(&values), name(element), shape.join(",")))
        }
        FieldType::Ragged { element, .. } => {
            let parts = column.as_struct_opt()?;
            let values = parts.column_by_name("data")?.as_list_opt::<i32>()?.value(row);
            let shape = parts.column_by_name("shape")?.as_fixed_size_list_opt()?.value(row);
            let shape: Vec<String> =
                shape.as_primitive_opt::<Int32Type>()?.values().iter().map(i32::to_string).collect();
            Some(format!("{} {}[{}]", left.listed(&values), name(element), shape.join(",")))
        }
        FieldType::List { element, depth: 1 } => {
            let values = inner(column, row)?;
            Some(format!("{} {}[{}]", left.listed(&values), name(element), values.len()))
        }
        FieldType::List { element, .. } => {
            let kind = kind.to_string().replacen(&element.to_string(), &name(element), 1);
            Some(format!("{} {kind}", left.listed(&inner(column, row)?)))
        }
    }
}

/// The list in row `row`.
fn inner(lists: &dyn Array, row: usize) -> Option<ArrayRef> {
    let short = lists.as_list_opt::<i32>().map(|lists| lists.value(row));
    short.or_else(|| lists.as_list_opt::<i64>().map(|lists| lists.value(row)))
}

/// The first values of one array.
struct First<'a> {
    /// How many more are shown.
    left: usize,
    numpy: Option<&'a str>,
}

impl First<'_> {
    /// The values in brackets, as far as there are any left.
    fn listed(&mut self, values: &ArrayRef) -> String {
        let mut shown = Vec::new();
        for at in 0..values.len() {
            if self.left == 0 {
                shown.push("…".to_owned());
                break;
            }
            shown.push(match inner(values, at) {
                Some(below) => {
                    // A list of empty lists ends too.
                    self.left -= usize::from(below.is_empty());
                    self.listed(&below)
                }
                None => {
                    self.left -= 1;
                    self.value(values, at)
                }
            });
        }
        format!("[{}]", shown.join(", "))
    }

    fn value(&self, values: &ArrayRef, at: usize) -> String {
        if values.is_null(at) {
            return "null".to_owned();
        }
        downcast_primitive_array!(
            values => format!("{:?}", values.value(at)),
            DataType::Boolean => values.as_boolean().value(at).to_string(),
            DataType::Utf8View => text(values.as_string_view().value(at)),
            DataType::Utf8 => text(values.as_string::<i32>().value(at)),
            DataType::BinaryView => format!("{} B", values.as_binary_view().value(at).len()),
            DataType::FixedSizeBinary(_) => {
                let bytes = values.as_fixed_size_binary().value(at);
                if self.numpy.is_some_and(|kind| kind.starts_with("|S")) {
                    return text(String::from_utf8_lossy(bytes).trim_end_matches('\0'));
                }
                self.numpy.and_then(|kind| of_numpy(kind, bytes)).unwrap_or_else(|| bytes.escape_ascii().to_string())
            }
            _ => "?".to_owned()
        )
    }
}

fn text(text: &str) -> String {
    let short: String = text.chars().take(LONGEST).collect();
    if short.len() < text.len() { format!("{short:?}…") } else { format!("{text:?}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::builder::{Int64Builder, ListBuilder, StringViewBuilder};
    use arrow_array::{Float32Array, StructArray};
    use packhorse_core::Field;
    use std::sync::Arc;

    fn kind(column: &ArrayRef) -> FieldType {
        FieldType::of(&Field::new("x", column.data_type().clone(), true)).unwrap()
    }

    fn lists(rows: &[&[i64]]) -> ArrayRef {
        let mut lists = ListBuilder::new(Int64Builder::new());
        rows.iter().for_each(|row| lists.append_value(row.iter().copied().map(Some)));
        Arc::new(lists.finish())
    }

    #[test]
    fn long_lists_are_cut_and_short_ones_are_whole() {
        let column = lists(&[&[1, 2, 3], &[], &(0..100).collect::<Vec<_>>()]);
        let shown = |row| first_values(&kind(&column), None, &column, row).unwrap();
        assert_eq!((shown(0), shown(1)), ("[1, 2, 3] Int64[3]".to_owned(), "[] Int64[0]".to_owned()));
        assert_eq!(shown(2), "[0, 1, 2, 3, 4, 5, 6, 7, …] Int64[100]");
    }

    #[test]
    fn lists_of_lists_are_shown_inside_each_other() {
        let mut outer = ListBuilder::new(ListBuilder::new(Int64Builder::new()));
        outer.values().append_value([Some(1), Some(2)]);
        (0..50).for_each(|_| outer.values().append_value([]));
        outer.append(true);
        let column: ArrayRef = Arc::new(outer.finish());
        let shown = first_values(&kind(&column), None, &column, 0).unwrap();
        assert_eq!(shown, "[[1, 2], [], [], [], [], [], [], …] list<list<Int64>>");
    }

    #[test]
    fn ragged_arrays_have_their_own_shapes() {
        let field = FieldType::Ragged { element: DataType::Int64, rank: 2 }.field("x", false);
        let DataType::Struct(parts) = field.data_type() else { unreachable!("{field}") };
        let DataType::FixedSizeList(item, 2) = parts[1].data_type() else { unreachable!("{field}") };
        let numbers: ArrayRef = Arc::new(arrow_array::Int32Array::from(vec![1, 2, 2, 1]));
        let shapes = arrow_array::FixedSizeListArray::new(item.clone(), 2, numbers, None);
        let DataType::List(item) = parts[0].data_type() else { unreachable!("{field}") };
        let mut data = ListBuilder::new(Int64Builder::new()).with_field(item.clone());
        [[7, 8], [9, 10]].into_iter().for_each(|row| data.append_value(row.map(Some)));
        let data: ArrayRef = Arc::new(data.finish());
        let column: ArrayRef = Arc::new(StructArray::new(parts.clone(), vec![data, Arc::new(shapes)], None));
        let kind = FieldType::of(&field).unwrap();
        assert_eq!(first_values(&kind, None, &column, 1).unwrap(), "[9, 10] Int64[2,1]");
    }

    #[test]
    fn long_texts_are_cut_and_scalars_are_not_arrays() {
        let mut texts = ListBuilder::new(StringViewBuilder::new());
        texts.append_value([Some("a\nb"), Some("a text of more than twenty characters"), None]);
        let column: ArrayRef = Arc::new(texts.finish());
        let shown = first_values(&kind(&column), None, &column, 0).unwrap();
        assert_eq!(shown, r#"["a\nb", "a text of more than "…, null] text[3]"#);
        let column: ArrayRef = Arc::new(Float32Array::from(vec![1.0]));
        assert_eq!(first_values(&kind(&column), None, &column, 0), None);
    }
}
