//! Dense tensors from ragged fields and lists, also of lists, whose samples all have one shape.

use crate::casts::of_row;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, FixedSizeListArray};
use packhorse_core::{DataType, Error, Field, FieldType, Result, Rows, UNTYPED};
use std::collections::HashMap;
use std::sync::Arc;

/// Parses a shape such as `3x4`.
pub(super) fn shape(field: &str, text: &str) -> Result<Vec<usize>> {
    let shape: Option<Vec<usize>> = text.split('x').map(|n| n.parse().ok()).collect();
    let bounded = |shape: &Vec<usize>| {
        shape.iter().try_fold(1usize, |n, d| n.checked_mul(*d)).is_some_and(|n| i32::try_from(n).is_ok())
    };
    shape.filter(bounded).ok_or_else(|| Error::config(format!("`stack={field}={text}`: a shape is such as 3x4")))
}

/// The type of `field` after stacking. An array of this shape stays as it is.
pub(super) fn field(field: &Field, shape: &[usize]) -> Result<Field> {
    let refused = |what: &str| Error::config(format!("field {} ({what}) can't become an array", field.name()));
    let kind = FieldType::of(field)?;
    let element = match &kind {
        FieldType::List { element: DataType::BinaryView, .. } => {
            let hint = format!("`spread={}=N` makes a field of each value", field.name());
            return Err(refused(&kind.to_string()).hint(hint));
        }
        FieldType::List { element, depth } if *depth == 1 || *depth == shape.len() => element,
        FieldType::Ragged { element, rank } if *rank == shape.len() => element,
        FieldType::Tensor { element, shape: own } if own == shape => element,
        other => return Err(refused(&other.to_string())),
    };
    let dense = FieldType::Tensor { element: element.clone(), shape: shape.to_vec() };
    let dense = dense.field(field.name(), field.is_nullable());
    // What its values mean stays; what said how they lie in memory does not.
    let of_values = |(name, _): &(&String, &String)| !name.starts_with("ARROW:extension:") && *name != UNTYPED;
    let kept = field.metadata().iter().filter(of_values).map(|(name, value)| (name.clone(), value.clone()));
    let metadata: HashMap<String, String> = kept.chain(dense.metadata().clone()).collect();
    Ok(dense.with_metadata(metadata))
}

/// Stacks `column`, which is field `from` of `rows`, into dense tensors.
pub(super) fn apply(rows: &Rows, from: &Field, column: &ArrayRef, shape: &[usize]) -> Result<ArrayRef> {
    let bug = |e: arrow_schema::ArrowError| Error::bug(e.to_string());
    let wanted = field(from, shape)?;
    if wanted.data_type() == from.data_type() {
        return Ok(column.clone());
    }
    let DataType::FixedSizeList(item, size) = wanted.data_type() else { return Err(Error::bug("no dense array")) };
    let differs = |row: usize, found: String| {
        let wanted = shape.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
        let text = format!("{} has the shape [{found}] here, and `stack` wants [{wanted}]", from.name());
        of_row(rows, row, from.name(), text)
    };
    let list = match column.as_struct_opt() {
        None => column.clone(),
        Some(parts) => {
            let dims = parts.column(1).as_fixed_size_list();
            for row in (0..parts.len()).filter(|row| parts.is_valid(*row)) {
                let found = dims.value(row);
                let found = found.as_primitive::<arrow_array::types::Int32Type>().values();
                if !found.iter().zip(shape).all(|(a, b)| usize::try_from(*a) == Ok(*b)) {
                    return Err(differs(row, found.iter().map(i32::to_string).collect::<Vec<_>>().join(",")));
                }
            }
            parts.column(0).clone()
        }
    };
    let nulls = column.nulls().cloned();
    if let Some(row) = (0..column.len()).find(|row| column.is_null(*row)) {
        let text = format!("{} is missing, so it can't be stacked", wanted.name());
        return Err(of_row(rows, row, wanted.name(), text));
    }
    // Lists of lists have a length at each level.
    let is_nested = list.as_list_opt::<i32>().is_some_and(|list| list.values().as_list_opt::<i32>().is_some());
    let size_of = usize::try_from(*size).unwrap_or_default();
    let lengths = if is_nested { shape.to_vec() } else { vec![size_of] };
    let (len, mut values, mut of_one) = (list.len(), list, 1usize);
    for (level, length) in lengths.iter().enumerate() {
        let list = values.as_list_opt::<i32>().ok_or_else(|| Error::bug("a list of another kind"))?;
        let wrong = |at: &usize| usize::try_from(list.value_length(*at)) != Ok(*length);
        if let Some(at) = (0..list.len()).find(wrong) {
            let before = lengths.iter().take(level).map(usize::to_string);
            let found: Vec<String> = before.chain([list.value_length(at).to_string()]).collect();
            return Err(differs(at / of_one.max(1), found.join(",")));
        }
        let start = list.value_offsets().first().and_then(|start| usize::try_from(*start).ok()).unwrap_or_default();
        of_one *= length;
        let inner = list.values().slice(start, length * list.len());
        let missing = || (0..inner.len()).find(|at| inner.is_null(*at));
        if let Some(at) = (inner.null_count() > 0).then(missing).flatten() {
            let text = format!("{} has a missing element here, so it can't be stacked", from.name());
            return Err(of_row(rows, at / of_one.max(1), from.name(), text));
        }
        values = inner;
    }
    let array = FixedSizeListArray::try_new_with_length(item.clone(), *size, values, nulls, len).map_err(bug)?;
    Ok(Arc::new(array))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::builder::{Float32Builder, ListBuilder};

    /// One sample of lists of lists.
    fn stacked(lists: &[Option<&[Option<f32>]>]) -> Result<ArrayRef> {
        let mut builder = ListBuilder::new(ListBuilder::new(Float32Builder::new()));
        for list in lists {
            match list {
                Some(values) => builder.values().append_value(values.iter().copied()),
                None => builder.values().append(false),
            }
        }
        builder.append(true);
        let column: ArrayRef = Arc::new(builder.finish());
        let field = FieldType::List { element: DataType::Float32, depth: 2 }.field("x", false);
        let rows = Rows::try_from_iter([("x", column.clone())]).unwrap();
        apply(&rows, &field, &column, &[2, 2])
    }

    #[test]
    fn what_values_mean_stays() {
        let kind = FieldType::List { element: DataType::FixedSizeBinary(8), depth: 1 };
        let note = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let notes = [note(packhorse_core::NUMPY, "<M8[us]"), note(UNTYPED, "1")];
        let from = kind.field("t", false);
        let from =
            from.clone().with_metadata(from.metadata().clone().into_iter().chain(notes).collect::<HashMap<_, _>>());
        let found = field(&from, &[3]).unwrap();
        assert_eq!(found.metadata().get(packhorse_core::NUMPY).map(String::as_str), Some("<M8[us]"));
        assert!(!found.metadata().contains_key(UNTYPED));
        let dense = FieldType::Tensor { element: DataType::FixedSizeBinary(8), shape: vec![3] };
        assert_eq!(FieldType::of(&found).unwrap(), dense);
    }

    #[test]
    fn an_array_of_the_shape_stays() {
        let kind = FieldType::Tensor { element: DataType::Int32, shape: vec![2] };
        let from = kind.field("x", true);
        assert_eq!(field(&from, &[2]).unwrap().data_type(), from.data_type());
        assert!(field(&from, &[1, 2]).unwrap_err().to_string().contains("can't become an array"));
        let column = arrow_array::new_null_array(from.data_type(), 2);
        let rows = Rows::try_from_iter_with_nullable([("x", column.clone(), true)]).unwrap();
        assert_eq!(&apply(&rows, &from, &column, &[2]).unwrap(), &column);
    }

    #[test]
    fn missing_elements_of_lists_of_lists_are_refused() {
        let (one, two) = ([Some(1.0), Some(2.0)], [Some(3.0), None]);
        let whole = stacked(&[Some(&one), Some(&one)]).unwrap();
        assert_eq!((whole.len(), whole.as_fixed_size_list().value_length()), (1, 4));
        for lists in [[Some(&one[..]), Some(&two[..])], [Some(&one[..]), None]] {
            let error = stacked(&lists).unwrap_err().to_string();
            assert!(error.contains("has a missing element here"), "{error}");
        }
    }
}
