//! Builds a column from the features of each sample.

use crate::example::{FeatureValue, List, each_bytes, each_floats, each_step};
use crate::ints;
use crate::layout::{FeatureColumn, ListKind};
use arrow_array::builder::{BinaryViewBuilder, StringViewBuilder};
use arrow_array::{Array, ArrayRef, FixedSizeListArray, ListArray, StructArray, make_array};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer};
use packhorse_core::{DataType, Error, FieldType, Kind, Limits, Result, array_of, element_width};
use std::sync::Arc;

/// The hint for a record that does not match the schema.
pub(crate) const REMEDY: &str = "if the schema was inferred, infer it from more records with `from=tfrecord` and `read=infer=N`, or describe the features in a features.json beside the files";

/// A `Bug` error.
pub(crate) fn bug(error: impl ToString) -> Error {
    Error::bug(error.to_string())
}

/// A column being built.
pub(crate) struct FeatureBuilder<'a> {
    column: &'a FeatureColumn,
    limits: Limits,
    data: Data,
    /// The number of features besides the main one.
    parts: usize,
    /// Elements so far.
    count: usize,
    /// The offsets of lists, the outermost first.
    levels: Vec<Vec<i32>>,
    /// The shapes of a ragged tensor, packed `Int32`.
    shapes: Vec<u8>,
    valid: Vec<bool>,
}

enum Data {
    Fixed(Vec<u8>, usize),
    Blobs(BinaryViewBuilder),
    Texts(StringViewBuilder),
}

impl Data {
    fn of(column: &FeatureColumn, bytes: &Buffer) -> Self {
        match column.kind.element().and_then(element_width) {
            Some(width) => Data::Fixed(Vec::new(), width),
            None if column.kind == FieldType::Blob || column.kind.element() == Some(&DataType::BinaryView) => {
                let mut views = BinaryViewBuilder::new();
                views.append_block(bytes.clone());
                Data::Blobs(views)
            }
            None => {
                let mut views = StringViewBuilder::new();
                views.append_block(bytes.clone());
                Data::Texts(views)
            }
        }
    }

    /// Adds a value, which must lie within `bytes`.
    fn view(&mut self, value: &[u8], bytes: &Buffer) -> Result<()> {
        let offset = (value.as_ptr() as usize).saturating_sub(bytes.as_ptr() as usize);
        // An empty value may point anywhere.
        let offset = if value.is_empty() { 0 } else { u32::try_from(offset).map_err(bug)? };
        let len = u32::try_from(value.len()).map_err(bug)?;
        match self {
            Data::Blobs(views) => views.try_append_view(0, offset, len).map_err(bug),
            Data::Texts(views) => {
                views.try_append_view(0, offset, len).map_err(|_| Error::content(format!("is not UTF-8; {REMEDY}")))
            }
            Data::Fixed(..) => Err(Error::bug("fixed-width elements are not views")),
        }
    }
}

impl<'a> FeatureBuilder<'a> {
    /// An empty column; blobs and text will be views into `bytes`.
    pub(crate) fn new(column: &'a FeatureColumn, bytes: &Buffer, limits: Limits) -> Self {
        let levels = match &column.kind {
            FieldType::Ragged { .. } => 1,
            FieldType::List { depth, .. } => *depth,
            _ => 0,
        };
        Self {
            column,
            limits,
            data: Data::of(column, bytes),
            parts: column.parts().len(),
            count: 0,
            levels: vec![vec![0]; levels],
            shapes: Vec::new(),
            valid: Vec::new(),
        }
    }

    /// The number of features of the column.
    pub(crate) fn features(&self) -> usize {
        self.parts + 1
    }

    /// `error`, which concerns the column.
    pub(crate) fn about(&self, error: Error) -> Error {
        let name = self.column.name();
        error.context(format_args!("feature {name}")).in_field(name)
    }

    /// Adds a sample: its features, the main one first.
    pub(crate) fn push(&mut self, values: &[Option<FeatureValue<'_>>], bytes: &Buffer) -> Result<()> {
        let (main, parts) = values.split_first().ok_or_else(|| Error::bug("a column without features"))?;
        let main = match (*main, self.column.steps) {
            (Some(FeatureValue::One(list)), false) => list,
            (Some(FeatureValue::Steps(body)), true) => return self.steps(body, bytes),
            (None, _) if parts.iter().any(Option::is_some) => {
                return Err(Error::content("is missing, but its shape or offsets are present"));
            }
            (None, _) => return self.push_null(),
            (Some(_), true) => {
                return Err(Error::content(format!("is a feature, and a feature list in other records; {REMEDY}")));
            }
            (Some(_), false) => {
                return Err(Error::content(format!("is a feature list, and a feature in other records; {REMEDY}")));
            }
        };
        let lists: Vec<Option<List<'_>>> = parts
            .iter()
            .map(|part| if let Some(FeatureValue::One(list)) = part { Some(*list) } else { None })
            .collect();
        let before = self.count;
        self.values(main, bytes)?;
        let count = self.count - before;
        match &self.column.kind {
            FieldType::Tensor { shape, .. } => self.expect(count, shape.iter().product())?,
            FieldType::Ragged { rank, .. } => self.ragged(count, *rank, &lists)?,
            FieldType::List { .. } => self.lists(count, &lists)?,
            // Some writers leave a value out by an empty list.
            _ if count == 0 => return self.push_null(),
            _ => self.expect(count, 1)?,
        }
        self.valid.push(true);
        Ok(())
    }

    /// Adds the lists of the steps of a sample: one value each, or a list in a list.
    fn steps(&mut self, body: &[u8], bytes: &Buffer) -> Result<()> {
        let are_lists = self.levels.len() > 1;
        each_step(body, |list| {
            let before = self.count;
            list.map_or(Ok(()), |list| self.values(list, bytes))?;
            match self.count - before {
                _ if are_lists => self.close(1, self.count),
                1 => Ok(()),
                other => {
                    Err(Error::content(format!("has a step of {other} values, and other steps have one; {REMEDY}")))
                }
            }
        })?;
        let end = self.levels.get(1).map_or(self.count, |level| level.len() - 1);
        self.close(0, end)?;
        self.valid.push(true);
        Ok(())
    }

    fn expect(&self, count: usize, wanted: usize) -> Result<()> {
        match count == wanted {
            true => Ok(()),
            false => {
                Err(Error::content(format!("has {count} values where {} has {wanted}; {REMEDY}", self.column.kind)))
            }
        }
    }

    /// Appends the elements of a list.
    fn values(&mut self, list: List<'_>, bytes: &Buffer) -> Result<()> {
        let element = self.column.kind.element().unwrap_or(&DataType::Binary);
        match (self.column.carrier, list, &mut self.data) {
            (ListKind::Ints, List::Ints(body), Data::Fixed(out, width)) => {
                ints::read(body, element, out)?;
                self.count = out.len() / *width;
            }
            (ListKind::Floats, List::Floats(body), Data::Fixed(out, width)) => {
                each_floats(body, |packed| out.extend_from_slice(packed))?;
                self.count = out.len() / *width;
            }
            (ListKind::Raw, List::Bytes(body), Data::Fixed(out, width)) => {
                raw(body, *width, out)?;
                self.count = out.len() / *width;
            }
            (ListKind::Bytes, List::Bytes(body), data) => each_bytes(body, |value| {
                self.count += 1;
                data.view(value, bytes)
            })?,
            (carrier, list, _) => {
                let wanted = if carrier == ListKind::Raw { "bytes_list" } else { carrier.name() };
                return Err(Error::content(format!(
                    "is a {} where {} is stored as {wanted}; {REMEDY}",
                    list.name(),
                    self.column.kind
                )));
            }
        }
        Ok(())
    }

    fn ragged(&mut self, count: usize, rank: usize, parts: &[Option<List<'_>>]) -> Result<()> {
        let [Some(List::Ints(body))] = parts else { return Err(Error::content("lacks its .shape")) };
        let (mut product, mut dimensions) = (Some(1usize), 0);
        ints::each_int(body, |x| {
            let size = i32::try_from(x as i64)
                .ok()
                .filter(|size| *size >= 0)
                .ok_or_else(|| Error::content("has a negative or huge .shape"))?;
            self.shapes.extend_from_slice(&size.to_le_bytes());
            product = product.and_then(|n| n.checked_mul(size as usize));
            dimensions += 1;
            Ok(())
        })?;
        if dimensions != rank || product != Some(count) {
            return Err(Error::content(format!(
                "has {count} values, which do not match its .shape of {dimensions} dimensions"
            )));
        }
        self.close(0, self.count)
    }

    /// Ends the nested lists of a sample of `count` elements.
    fn lists(&mut self, count: usize, parts: &[Option<List<'_>>]) -> Result<()> {
        // The number of lists, finally elements, on the level below.
        let mut below = None;
        for (i, part) in parts.iter().enumerate() {
            let Some(List::Ints(body)) = part else {
                return Err(Error::content(format!("lacks its .offsets{}", i + 1)));
            };
            let wrong =
                || Error::content(format!("has .offsets{} that don't ascend from 0, or don't match its values", i + 1));
            let level = self.levels.get_mut(i + 1).ok_or_else(|| Error::bug("a list without offsets"))?;
            let base = i64::from(level.last().copied().unwrap_or_default());
            let (mut last, mut lists) = (None, 0usize);
            ints::each_int(body, |x| {
                let x = x as i64;
                if last.map_or(x != 0, |last| x < last) {
                    return Err(wrong());
                }
                if last.replace(x).is_some() {
                    lists += 1;
                    level.push(x.checked_add(base).and_then(|x| i32::try_from(x).ok()).ok_or_else(wrong)?);
                }
                Ok(())
            })?;
            let last = last.and_then(|last| usize::try_from(last).ok()).ok_or_else(wrong)?;
            if below.is_some_and(|below| below != lists) {
                return Err(wrong());
            }
            if i == 0 {
                let end = level.len() - 1;
                self.close(0, end)?;
            }
            below = Some(last);
        }
        match below {
            None => self.close(0, self.count),
            Some(below) if below == count => Ok(()),
            Some(below) => Err(Error::content(format!("has {count} values, but its offsets end at {below}"))),
        }
    }

    /// Ends a list on level `level` at entry `end` of the level below.
    fn close(&mut self, level: usize, end: usize) -> Result<()> {
        let end = i32::try_from(end).map_err(|_| Error::new(Kind::Limit, "has over 2^31 values in a few records"))?;
        self.levels.get_mut(level).ok_or_else(|| Error::bug("a list without offsets"))?.push(end);
        Ok(())
    }

    fn push_null(&mut self) -> Result<()> {
        if !self.column.field.is_nullable() {
            return Err(Error::content(format!("is missing, but the schema requires it; {REMEDY}")));
        }
        self.valid.push(false);
        let n = match &self.column.kind {
            FieldType::Tensor { shape, .. } => shape.iter().product(),
            FieldType::Ragged { rank, .. } => {
                self.shapes.resize(self.shapes.len() + rank * 4, 0);
                return self.close(0, self.count);
            }
            FieldType::List { .. } => {
                let end = self.levels.get(1).map_or(self.count, |level| level.len() - 1);
                return self.close(0, end);
            }
            _ => 1,
        };
        self.count += n;
        match &mut self.data {
            Data::Fixed(out, width) => {
                let len = self.limits.blob((n as u64).saturating_mul(*width as u64))?;
                out.resize(out.len() + len, 0);
            }
            Data::Blobs(views) => views.append_null(),
            Data::Texts(views) if self.column.kind == FieldType::Text => views.append_null(),
            Data::Texts(views) => {
                let n = self.limits.blob((n as u64).saturating_mul(VIEW as u64))? / VIEW;
                (0..n).for_each(|_| views.append_value(""));
            }
        }
        Ok(())
    }

    /// The approximate size in bytes, without the data of views.
    pub(crate) fn size(&self) -> usize {
        let data = match &self.data {
            Data::Fixed(out, _) => out.len(),
            _ => self.count.saturating_mul(VIEW),
        };
        data + self.shapes.len() + self.levels.iter().map(|level| level.len() * 4).sum::<usize>() + self.valid.len()
    }

    pub(crate) fn finish(self) -> Result<ArrayRef> {
        let n = self.valid.len();
        let nulls = self.valid.contains(&false).then(|| NullBuffer::from(self.valid));
        let leaves: ArrayRef = match self.data {
            Data::Blobs(mut views) => Arc::new(views.finish()),
            Data::Texts(mut views) => Arc::new(views.finish()),
            Data::Fixed(bytes, _) => {
                let element = self.column.kind.element().ok_or_else(|| Error::bug("a column without elements"))?;
                array_of(element, Buffer::from_vec(bytes), self.count)?
            }
        };
        match (&self.column.kind, self.column.field.data_type()) {
            (FieldType::Scalar(_), _) => {
                leaves.to_data().into_builder().nulls(nulls).build().map(make_array).map_err(bug)
            }
            (FieldType::Tensor { .. }, DataType::FixedSizeList(item, size)) => {
                let list = FixedSizeListArray::try_new_with_length(item.clone(), *size, leaves, nulls, n);
                Ok(Arc::new(list.map_err(bug)?))
            }
            (FieldType::Ragged { .. }, DataType::Struct(parts)) => {
                let [data, shape] = [0, 1].map(|i| parts.get(i).map(|part| part.data_type()));
                let (Some(data), Some(DataType::FixedSizeList(item, rank))) = (data, shape) else {
                    return Err(Error::bug("a ragged tensor without parts"));
                };
                let dims = self.shapes.len() / 4;
                let dims = array_of(&DataType::Int32, Buffer::from_vec(self.shapes), dims)?;
                let shape = FixedSizeListArray::try_new_with_length(item.clone(), *rank, dims, None, n).map_err(bug)?;
                let data = nested(data, self.levels, leaves, None)?;
                let ragged = StructArray::try_new(parts.clone(), vec![data, Arc::new(shape)], nulls);
                Ok(Arc::new(ragged.map_err(bug)?))
            }
            (FieldType::List { .. }, list) => nested(list, self.levels, leaves, nulls),
            _ => Ok(leaves),
        }
    }
}

/// Bytes of a view.
const VIEW: usize = 16;

/// Appends the single value of a raw feature.
fn raw(body: &[u8], width: usize, out: &mut Vec<u8>) -> Result<()> {
    let mut values = 0;
    each_bytes(body, |value| {
        values += 1;
        out.extend_from_slice(value);
        match value.len().is_multiple_of(width) {
            true => Ok(()),
            false => Err(Error::content(format!("has {} bytes, not a multiple of {width}", value.len()))),
        }
    })?;
    if values == 1 { Ok(()) } else { Err(Error::content(format!("has {values} values where a raw feature has one"))) }
}

/// Nested lists; only the outermost may be null.
fn nested(list: &DataType, levels: Vec<Vec<i32>>, leaves: ArrayRef, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
    let mut items = Vec::new();
    let mut inside = list;
    for _ in &levels {
        let DataType::List(item) = inside else { return Err(Error::bug("a list without offsets")) };
        items.push(item.clone());
        inside = item.data_type();
    }
    let mut array = leaves;
    for (level, (item, offsets)) in items.into_iter().zip(levels).enumerate().rev() {
        let nulls = nulls.clone().filter(|_| level == 0);
        let offsets = OffsetBuffer::new(offsets.into());
        array = Arc::new(ListArray::try_new(item, offsets, array, nulls).map_err(bug)?);
    }
    Ok(array)
}
