//! Lists of lists of Python, of any lengths, as a column of rows.

use crate::columns::{MOST_ELEMENTS, check_length, is_list, unlike};
use crate::element::ArrayElement;
use crate::error::Result;
use crate::numbers::{list_of, number};
use arrow_array::{ArrayRef, ListArray};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer};
use arrow_schema::DataType;
use packhorse::core::{Error, FieldType, array_of, named_number};
use pyo3::prelude::*;
use std::sync::Arc;

/// The values of a field of lists, one inside the other, or nothing.
pub(crate) struct NestedLists {
    element: DataType,
    /// The lengths of the lists, the outermost level first: one for each row, then one for each list in these.
    lengths: Vec<Vec<usize>>,
    /// The innermost values, little-endian.
    bytes: Vec<u8>,
    valid: Vec<bool>,
}

impl NestedLists {
    /// Those of a type such as `list<list<float32>>`; `None` for another text, and for other elements than numbers.
    pub(crate) fn declared(dtype: &str) -> Option<Self> {
        let (mut of, mut lengths) = (dtype, Vec::new());
        while let Some(inner) = of.strip_prefix("list<").and_then(|rest| rest.strip_suffix('>')) {
            (of, lengths) = (inner, [lengths, vec![Vec::new()]].concat());
        }
        let element = named_number(&of.to_lowercase()).filter(|_| !lengths.is_empty())?;
        Some(Self { element, lengths, bytes: Vec::new(), valid: Vec::new() })
    }

    pub(crate) fn kind(&self) -> FieldType {
        FieldType::List { element: self.element.clone(), depth: self.lengths.len() }
    }

    /// Appends a value; returns its bytes.
    pub(crate) fn push(&mut self, name: &str, value: &Bound<'_, PyAny>) -> Result<usize> {
        let before = self.bytes.len();
        let mut lengths = vec![Vec::new(); self.lengths.len()];
        let pushed = self.lists(name, value, &mut lengths);
        let width = ArrayElement::of(&self.element).map_or(1, |element| element.width);
        let pushed = pushed.and_then(|()| Ok(check_length(name, self.bytes.len() / width, MOST_ELEMENTS)?));
        if pushed.is_err() {
            self.bytes.truncate(before);
        }
        pushed?;
        self.lengths.iter_mut().zip(lengths).for_each(|(all, new)| all.extend(new));
        self.valid.push(true);
        Ok(self.bytes.len() - before)
    }

    /// Appends the values of a list, and its length to the first of `lengths`, and those of lists in it to the others.
    fn lists(&mut self, name: &str, value: &Bound<'_, PyAny>, lengths: &mut [Vec<usize>]) -> Result<()> {
        let Some((own, inner)) = lengths.split_first_mut() else { return Ok(()) };
        if inner.is_empty() {
            let mut found = number(name, value, None)?;
            if found.element != self.element && is_list(value) {
                found = list_of(name, value, &self.element, found)?;
            }
            let [length] = found.shape[..] else {
                return Err(unlike(name, value, "a list of numbers in the innermost lists").into());
            };
            if length > 0 && (found.element != self.element || found.numpy.is_some()) {
                let message = format!("field {name} has lists of {}, and {} is wanted", found.element, self.element);
                return Err(Error::content(message).in_field(name).hint("convert it").into());
            }
            self.bytes.extend(found.bytes);
            own.push(length);
            return Ok(());
        }
        let items = value.try_iter().map_err(|_| unlike(name, value, "a list of lists"))?;
        let mut length = 0;
        for item in items {
            self.lists(name, &item?, inner)?;
            length += 1;
        }
        own.push(length);
        Ok(())
    }

    /// Appends nothing.
    pub(crate) fn push_null(&mut self) {
        self.lengths.iter_mut().take(1).for_each(|rows| rows.push(0));
        self.valid.push(false);
    }

    /// Takes back what was appended beyond `rows` rows.
    pub(crate) fn truncate(&mut self, rows: usize) {
        self.valid.truncate(rows);
        let mut kept = rows;
        for lengths in &mut self.lengths {
            lengths.truncate(kept);
            kept = lengths.iter().sum();
        }
        self.bytes.truncate(kept * ArrayElement::of(&self.element).map_or(1, |element| element.width));
    }

    /// The values so far, which it gives away.
    pub(crate) fn take(&mut self) -> Result<ArrayRef, Error> {
        let broken = |error: arrow_schema::ArrowError| Error::bug(error.to_string());
        let count = self.lengths.last().map_or(0, |innermost| innermost.iter().sum());
        let mut array = array_of(&self.element, Buffer::from_vec(std::mem::take(&mut self.bytes)), count)?;
        let nulls = NullBuffer::from(std::mem::take(&mut self.valid));
        for (level, lengths) in self.lengths.iter_mut().enumerate().rev() {
            let item = Arc::new(arrow_schema::Field::new("item", array.data_type().clone(), false));
            let offsets = OffsetBuffer::from_lengths(std::mem::take(lengths));
            let nulls = (level == 0).then(|| nulls.clone());
            array = Arc::new(ListArray::try_new(item, offsets, array, nulls).map_err(broken)?);
        }
        Ok(array)
    }
}

/// The same lists with the items of `data_type`.
pub(crate) fn of_items(lists: ListArray, data_type: DataType) -> Result<ArrayRef, Error> {
    let DataType::List(item) = data_type else { return Err(Error::bug("another list")) };
    let (_, offsets, values, nulls) = lists.into_parts();
    let lists = ListArray::try_new(item, offsets, values, nulls);
    Ok(Arc::new(lists.map_err(|error| Error::bug(error.to_string()))?))
}
