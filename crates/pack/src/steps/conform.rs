//! Conversion of rows to the types of the plan.

use super::{assembled, places};
use crate::merged_columns::{is_untyped, same_type, shown};
use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, FixedSizeListArray, Int32Array, ListArray, StringViewArray, StructArray, UInt64Array,
    new_empty_array, new_null_array,
};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use packhorse_core::{Code, DataType, Error, Field, FieldType, Result, Rows, SchemaRef, numpy_type};
use packhorse_transform::{Casts, Transform};
use std::sync::Arc;

/// Converts rows to the types of the plan: columns that an input lacks become null, tensors become ragged, and elements of
/// another type are cast if the plan casts the field to its type.
pub(super) struct ConformTypes {
    pub(super) schema: SchemaRef,
    pub(super) casts: Casts,
}

impl Transform for ConformTypes {
    fn describe(&self) -> String {
        "conform".to_owned()
    }

    fn schema(&self, _: &SchemaRef) -> Result<SchemaRef> {
        Ok(self.schema.clone())
    }

    fn apply(&self, rows: Rows) -> Result<Rows> {
        let delivered = rows.schema();
        // Mostly so: the rest takes long where columns are thousands.
        if delivered.fields() == self.schema.fields() && delivered.metadata() == self.schema.metadata() {
            let lacks = |(field, column): &(&Arc<Field>, &ArrayRef)| column.null_count() > 0 && !field.is_nullable();
            return match self.schema.fields().iter().zip(rows.columns()).find(lacks) {
                Some((field, column)) => Err(lacking(&rows, column, field)),
                None => Ok(rows),
            };
        }
        let mut conformed = Vec::with_capacity(self.schema.fields().len());
        let places = places(&delivered);
        for field in self.schema.fields() {
            let found = places.get(field.name().as_str());
            let found = found.map(|at| (delivered.field(*at).clone(), rows.column(*at)));
            let column = match found {
                None => new_null_array(field.data_type(), rows.num_rows()),
                Some((found, column)) if same_type(&found, field) && same_ticks(&found, field) => column.clone(),
                Some(_) if field.is_nullable() && self.casts.drops(field.name()) => {
                    new_null_array(field.data_type(), rows.num_rows())
                }
                Some((found, column)) if is_untyped(&found) => empty_lists(&found, column, field)?,
                // A blob too large for a view.
                Some((_, column)) if *column.data_type() == DataType::LargeBinary => column.clone(),
                Some((found, column)) => self.conformed(&rows, &found, column, field)?,
            };
            if column.null_count() > 0 && !field.is_nullable() {
                return Err(lacking(&rows, &column, field));
            }
            let field = field.as_ref().clone().with_data_type(column.data_type().clone());
            conformed.push((field, column));
        }
        assembled(conformed)
    }
}

impl ConformTypes {
    /// `column` of `rows`, which is `found`, as a column of the type of `wanted`.
    fn conformed(&self, rows: &Rows, found: &Field, column: &ArrayRef, wanted: &Field) -> Result<ArrayRef> {
        let cast =
            self.casts.field(found).ok().filter(|cast| same_element(cast, wanted) && !same_element(found, wanted));
        let Some(cast) = cast else { return ragged(found, column, wanted) };
        let column = self.casts.column(rows, found, column)?;
        if same_type(&cast, wanted) { Ok(column) } else { ragged(&cast, &column, wanted) }
    }
}

/// Whether two columns have ticks of one unit, or none.
fn same_ticks(a: &Field, b: &Field) -> bool {
    let ticks = |field| numpy_type(field).filter(|name| name.starts_with("<M8") || name.starts_with("<m8"));
    ticks(a) == ticks(b)
}

fn same_element(a: &Field, b: &Field) -> bool {
    if !same_ticks(a, b) {
        return false;
    }
    let kinds = FieldType::of(a).ok().zip(FieldType::of(b).ok());
    kinds.is_some_and(|(a, b)| match a.element() {
        None => a == b,
        element => element == b.element(),
    })
}

fn lacking(rows: &Rows, column: &ArrayRef, field: &Field) -> Error {
    let error = Error::content("is missing, and the plan expects it in every sample").with_code(Code::ColumnsDiffer);
    let error = error.subject(field.name()).in_field(field.name());
    let first = (0..column.len()).find(|i| column.is_null(*i));
    let key = packhorse_core::key_column(rows).ok().zip(first).map(|(keys, i)| keys.value(i).to_owned());
    key.into_iter().fold(error, Error::in_sample)
}

fn differ(found: &Field, wanted: &Field) -> Error {
    let (found, wanted_type) = (shown(found), shown(wanted));
    let error = Error::content(format!("field {} is {found} here and {wanted_type} in the plan", wanted.name()));
    error.with_code(Code::ColumnsDiffer).in_field(wanted.name())
}

/// Empty lists as lists of the elements of `wanted`.
fn empty_lists(found: &Field, column: &ArrayRef, wanted: &Field) -> Result<ArrayRef> {
    let lists = column.as_list_opt::<i32>().filter(|lists| lists.values().is_empty());
    let (Some(lists), DataType::List(item)) = (lists, wanted.data_type()) else { return Err(differ(found, wanted)) };
    let values = new_empty_array(item.data_type());
    let lists = ListArray::try_new(item.clone(), lists.offsets().clone(), values, lists.nulls().cloned());
    Ok(Arc::new(lists.map_err(|e| Error::bug(e.to_string()))?))
}

/// Lists of one length as lists of any, of items as `item` says.
fn lists(fixed: &FixedSizeListArray, item: &Arc<Field>, nulls: Option<NullBuffer>) -> Result<ListArray> {
    let size = usize::try_from(fixed.value_length()).unwrap_or_default();
    let values = fixed.values().slice(fixed.offset() * size, fixed.len() * size);
    let offsets = OffsetBuffer::from_lengths(std::iter::repeat_n(size, fixed.len()));
    ListArray::try_new(item.clone(), offsets, values, nulls).map_err(|e| Error::bug(e.to_string()))
}

/// Single values as lists of one.
fn ones(column: &ArrayRef, item: &Arc<Field>) -> Result<ArrayRef> {
    let nulls = column.logical_nulls();
    let has = |row: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
    let kept: UInt64Array = (0..column.len()).filter(|row| has(*row)).map(|row| row as u64).collect();
    let bug = |error: arrow_schema::ArrowError| Error::bug(error.to_string());
    let mut values = arrow_select::take::take(column, &kept, None).map_err(bug)?;
    if let (DataType::Utf8View, Some(blobs)) = (item.data_type(), values.as_binary_view_opt()) {
        let text = |blob| std::str::from_utf8(blob).map_err(|_| Error::content("is not UTF-8, and others are text"));
        values =
            Arc::new(blobs.iter().flatten().map(text).map(|text| text.map(Some)).collect::<Result<StringViewArray>>()?);
    }
    let offsets = OffsetBuffer::from_lengths((0..column.len()).map(|row| usize::from(has(row))));
    Ok(Arc::new(ListArray::try_new(item.clone(), offsets, values, nulls).map_err(bug)?))
}

/// Tensors as ragged arrays, or as lists; ragged arrays of one dimension as lists; single values as lists of one; lists of text as lists
/// of its bytes.
fn ragged(found: &Field, column: &ArrayRef, wanted: &Field) -> Result<ArrayRef> {
    let differ = || differ(found, wanted);
    if let (Some(lists), DataType::List(item)) = (column.as_list_opt::<i32>(), wanted.data_type())
        && let (Some(texts), DataType::BinaryView) = (lists.values().as_string_view_opt(), item.data_type())
    {
        let (offsets, nulls) = (lists.offsets().clone(), lists.nulls().cloned());
        let lists = ListArray::try_new(item.clone(), offsets, Arc::new(texts.clone().to_binary_view()), nulls);
        return Ok(Arc::new(lists.map_err(|e| Error::bug(e.to_string()))?));
    }
    if let (Ok(FieldType::Scalar(_) | FieldType::Blob), DataType::List(item)) =
        (FieldType::of(found), wanted.data_type())
    {
        let is_text = *column.data_type() == DataType::BinaryView && *item.data_type() == DataType::Utf8View;
        if is_text || item.data_type() == column.data_type() {
            return ones(column, item).map_err(|error| error.subject(wanted.name()).in_field(wanted.name()));
        }
    }
    if let (Some(parts), DataType::List(item)) = (column.as_struct_opt(), wanted.data_type())
        && let (FieldType::Ragged { rank: 1, .. }, Some(data)) = (FieldType::of(found)?, parts.columns().first())
    {
        let data = data.as_list_opt::<i32>().ok_or_else(differ)?;
        let nulls = NullBuffer::union(parts.nulls(), data.nulls());
        let lists = ListArray::try_new(item.clone(), data.offsets().clone(), data.values().clone(), nulls);
        return Ok(Arc::new(lists.map_err(|_| differ())?));
    }
    let FieldType::Tensor { shape, element } = FieldType::of(found)? else { return Err(differ()) };
    if let (Some(list), DataType::List(item), [_]) = (column.as_fixed_size_list_opt(), wanted.data_type(), &shape[..])
        && *item.data_type() == element
    {
        return Ok(Arc::new(lists(list, item, list.nulls().cloned())?));
    }
    let fits = FieldType::of(wanted)? == FieldType::Ragged { element, rank: shape.len() };
    let (Some(list), DataType::Struct(parts), true) = (column.as_fixed_size_list_opt(), wanted.data_type(), fits)
    else {
        return Err(differ());
    };
    let [data, dims] = &parts[..] else { return Err(differ()) };
    let (DataType::List(item), DataType::FixedSizeList(dim, rank)) = (data.data_type(), dims.data_type()) else {
        return Err(differ());
    };
    let bug = |e: arrow_schema::ArrowError| Error::bug(e.to_string());
    let data = lists(list, item, None)?;
    let numbers = shape.iter().map(|d| i32::try_from(*d).unwrap_or(i32::MAX)).collect::<Vec<_>>();
    let numbers = Int32Array::from(numbers.repeat(list.len()));
    let dims = FixedSizeListArray::try_new_with_length(dim.clone(), *rank, Arc::new(numbers), None, list.len())
        .map_err(bug)?;
    let array = StructArray::try_new(parts.clone(), vec![Arc::new(data), Arc::new(dims)], list.nulls().cloned());
    Ok(Arc::new(array.map_err(bug)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps::sorted;
    use arrow_array::{StringViewArray, UInt8Array};
    use packhorse_core::KEY;

    fn rows(name: &str, n: usize, shape: &[usize]) -> Rows {
        let field = FieldType::Tensor { element: DataType::UInt8, shape: shape.to_vec() }.field(name, false);
        let DataType::FixedSizeList(item, size) = field.data_type() else { unreachable!() };
        let values: Vec<u8> = (0..n * *size as usize).map(|i| i as u8).collect();
        let array = FixedSizeListArray::try_new(item.clone(), *size, Arc::new(UInt8Array::from(values)), None).unwrap();
        let keys: Vec<String> = (0..n).map(|i| format!("k{i}")).collect();
        let keys = Arc::new(StringViewArray::from_iter_values(keys));
        assembled(vec![(FieldType::Text.field(KEY, false), keys), (field, Arc::new(array))]).unwrap()
    }

    #[test]
    fn one_shape_becomes_any_shape_and_what_is_missing_null() {
        let ragged = FieldType::Ragged { element: DataType::UInt8, rank: 2 }.field("x", true);
        let other = FieldType::Scalar(DataType::Float32).field("y", true);
        let schema = sorted(vec![other, ragged, FieldType::Text.field(KEY, false)]);
        let step = ConformTypes { schema: schema.clone(), casts: Casts::default() };
        let found = step.apply(rows("x", 4, &[2, 3]).slice(1, 2)).unwrap();
        assert_eq!(found.schema(), schema);
        assert_eq!(found.column_by_name("y").unwrap().null_count(), 2);
        let parts = found.column_by_name("x").unwrap().as_struct();
        let values = parts.column(0).as_list::<i32>().value(1);
        assert_eq!(values.as_primitive::<arrow_array::types::UInt8Type>().values(), &[12, 13, 14, 15, 16, 17]);
        assert!(step.apply(rows("x", 1, &[6])).is_err());
    }

    #[test]
    fn lists_of_one_length_become_lists_of_any() {
        let wanted = FieldType::List { element: DataType::UInt8, depth: 1 }.field("x", false);
        let schema = sorted(vec![wanted, FieldType::Text.field(KEY, false)]);
        let step = ConformTypes { schema: schema.clone(), casts: Casts::default() };
        let found = step.apply(rows("x", 4, &[3]).slice(1, 2)).unwrap();
        assert_eq!(found.schema(), schema);
        let lists = found.column_by_name("x").unwrap().as_list::<i32>();
        let value = |row| lists.value(row).as_primitive::<arrow_array::types::UInt8Type>().values().to_vec();
        assert_eq!((value(0), value(1)), (vec![3, 4, 5], vec![6, 7, 8]));
        assert!(step.apply(rows("x", 1, &[1, 3])).is_err());
        // So do ragged arrays.
        let ragged = FieldType::Ragged { element: DataType::UInt8, rank: 1 }.field("x", true);
        let ragged =
            ConformTypes { schema: sorted(vec![ragged, FieldType::Text.field(KEY, false)]), casts: Casts::default() };
        let found = step.apply(ragged.apply(rows("x", 4, &[3])).unwrap().slice(1, 2)).unwrap();
        assert_eq!(found.schema(), schema);
        let lists = found.column_by_name("x").unwrap().as_list::<i32>();
        assert_eq!((0..2).map(|row| lists.value(row).len()).collect::<Vec<_>>(), [3, 3]);
        assert_eq!(lists.value(1).as_primitive::<arrow_array::types::UInt8Type>().values(), &[6, 7, 8]);
    }

    #[test]
    fn what_every_sample_has_in_the_plan_must_be_there() {
        let schema =
            sorted(vec![FieldType::Scalar(DataType::Int8).field("y", false), FieldType::Text.field(KEY, false)]);
        let error = ConformTypes { schema, casts: Casts::default() }.apply(rows("x", 2, &[1])).unwrap_err();
        assert_eq!(error.sample(), Some("k0"));
    }

    #[test]
    fn another_element_type_is_cast_where_the_plan_casts() {
        let wanted = FieldType::Ragged { element: DataType::Float64, rank: 2 }.field("x", false);
        let schema = sorted(vec![wanted, FieldType::Text.field(KEY, false)]);
        let step = |to: &str| ConformTypes {
            schema: schema.clone(),
            casts: Casts::new(&[("x".to_owned(), to.to_owned())].into()).unwrap(),
        };
        let found = step("f64").apply(rows("x", 2, &[1, 2])).unwrap();
        assert_eq!(found.schema(), schema);
        let values = found.column_by_name("x").unwrap().as_struct().column(0).as_list::<i32>().value(1);
        assert_eq!(values.as_primitive::<arrow_array::types::Float64Type>().values(), &[2.0, 3.0]);
        for other in [step("f32"), ConformTypes { schema: schema.clone(), casts: Casts::default() }] {
            let error = other.apply(rows("x", 2, &[1, 2])).unwrap_err();
            assert!(error.to_string().contains("UInt8"), "{error}");
        }
    }
}
