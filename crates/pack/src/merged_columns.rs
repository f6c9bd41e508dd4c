//! Merges the column types of many inputs into one schema.

use packhorse_core::{Code, DataType, Error, Field, FieldType, NUMPY, PACKED, Result, numpy_type, with_metadata};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What to do with arrays of one name whose shapes differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Shapes {
    /// All samples have one shape, and batches are dense; another shape is a bad input.
    #[default]
    Equal,
    /// Each sample has a shape of its own.
    Ragged,
}

/// The columns of the inputs added so far, by name.
#[derive(Debug, Default)]
pub(crate) struct MergedColumns {
    columns: BTreeMap<String, Column>,
}

#[derive(Debug)]
struct Column {
    field: Field,
    /// Samples that have it.
    count: u64,
    /// The input that had it first, for errors.
    first: PathBuf,
}

impl MergedColumns {
    /// Merges the fields of `samples` samples of the input `path`; on an error nothing is merged.
    ///
    /// Errors: `Content` for types that can't be merged, naming both types and the input with the other. Pass a
    /// relative `path` if the error may be stored in a plan.
    pub(crate) fn add<'f>(
        &mut self,
        fields: impl Iterator<Item = &'f Field>,
        samples: u64,
        path: &Path,
        shapes: Shapes,
    ) -> Result<()> {
        let mut merged = Vec::new();
        for field in fields {
            let field = match self.columns.get(field.name()) {
                None => field.clone(),
                Some(known) if known.field.metadata().get(PACKED) != field.metadata().get(PACKED) => {
                    return Err(packed(known, field));
                }
                Some(known) if same_type(&known.field, field) && same_numpy(&known.field, field) => {
                    known.field.clone().with_nullable(known.field.is_nullable() || field.is_nullable())
                }
                Some(known) => join(&known.field, field, shapes).ok_or_else(|| differ(known, field))?,
            };
            merged.push(field);
        }
        for field in merged {
            let first = || path.to_owned();
            let new = || Column { field: field.clone(), count: 0, first: first() };
            let column = self.columns.entry(field.name().clone()).or_insert_with(new);
            column.count += samples;
            column.field = field;
        }
        Ok(())
    }

    /// The columns by name; those that some of `samples` samples lack are nullable.
    pub(crate) fn fields(&self, samples: u64) -> impl Iterator<Item = Field> {
        self.columns
            .values()
            .map(move |column| column.field.clone().with_nullable(column.field.is_nullable() || column.count < samples))
    }
}

/// Whether two columns have one type. Their Arrow types do not tell: tensors of 2×3 and of 6 values have the same.
pub(crate) fn same_type(a: &Field, b: &Field) -> bool {
    a.data_type() == b.data_type() && FieldType::of(a).ok() == FieldType::of(b).ok()
}

fn same_numpy(a: &Field, b: &Field) -> bool {
    numpy_type(a) == numpy_type(b)
}

/// A column that holds the values of both; `None` if they don't fit together.
fn join(a: &Field, b: &Field, shapes: Shapes) -> Option<Field> {
    let nullable = a.is_nullable() || b.is_nullable();
    let (one, other) = (FieldType::of(a).ok()?, FieldType::of(b).ok()?);
    // The width of NumPy text does not matter.
    let text = one.element() == Some(&DataType::Utf8View) || one == FieldType::Text;
    if !text && !same_numpy(a, b) || one.element() != other.element() {
        return None;
    }
    let joined = match (&one, &other) {
        _ if one == other => one,
        _ if shapes == Shapes::Equal => return None,
        _ => {
            let (rank, element) = (rank(&one)?, one.element()?.clone());
            (rank == self::rank(&other)?).then_some(FieldType::Ragged { element, rank })?
        }
    };
    let field = joined.field(a.name(), nullable);
    let numpy = [numpy_type(a), numpy_type(b)].into_iter().flatten().max_by_key(|name| (name.len(), *name));
    Some(numpy.map_or(field.clone(), |name| with_metadata(field, NUMPY, name)))
}

fn rank(kind: &FieldType) -> Option<usize> {
    match kind {
        FieldType::Tensor { shape, .. } => Some(shape.len()),
        FieldType::Ragged { rank, .. } => Some(*rank),
        _ => None,
    }
}

fn differ(known: &Column, field: &Field) -> Error {
    let hint = match (FieldType::of(&known.field), FieldType::of(field)) {
        (Ok(a), Ok(b)) if a.element() == b.element() && rank(&a).is_some() && rank(&a) == rank(&b) => {
            Some("pass `ragged` to keep a shape for each sample")
        }
        _ => None,
    };
    let (name, first) = (field.name(), known.first.display());
    let message = format!("field {name} is {} here and {} in {first}", shown(field), shown(&known.field));
    let error = Error::content(message).with_code(Code::ColumnsDiffer).in_field(name);
    hint.into_iter().fold(error, Error::hint)
}

/// The error of columns whose equal numbers stand for different values.
fn packed(known: &Column, field: &Field) -> Error {
    let notes = |field: &Field| field.metadata().get(PACKED).map_or("none", String::as_str).to_owned();
    Error::content(format!(
        "field {} has units, scale or fill values {} here and {} in {}; NetCDF: unpack it with `from=hdf5` `read=scale=apply`, \
         or leave it out",
        field.name(),
        notes(field),
        notes(&known.field),
        known.first.display()
    ))
}

/// The type, as messages show it.
pub(crate) fn shown(field: &Field) -> String {
    let kind = FieldType::of(field).map_or_else(|_| field.data_type().to_string(), |kind| kind.to_string());
    match numpy_type(field) {
        Some(numpy) => format!("{kind} ({numpy})"),
        None => kind,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(shape: &[usize]) -> Field {
        FieldType::Tensor { element: DataType::Float32, shape: shape.to_vec() }.field("x", false)
    }

    fn join_all(fields: &[Field], shapes: Shapes) -> Result<Vec<Field>> {
        let mut columns = MergedColumns::default();
        for (i, field) in fields.iter().enumerate() {
            columns.add([field].into_iter(), 1, Path::new(&format!("{i}.npz")), shapes)?;
        }
        Ok(columns.fields(fields.len() as u64).collect())
    }

    #[test]
    fn columns_of_different_scales_are_not_merged() {
        let scaled = |notes: &str| with_metadata(tensor(&[2]), PACKED, notes);
        let one = scaled("{\"scale_factor\":0.1}");
        assert_eq!(join_all(&[one.clone(), one.clone()], Shapes::Equal).unwrap(), std::slice::from_ref(&one));
        for other in [scaled("{\"scale_factor\":0.2}"), tensor(&[2])] {
            let error = join_all(&[one.clone(), other], Shapes::Ragged).unwrap_err();
            assert!(error.to_string().contains("scale=apply") && error.to_string().contains("0.npz"), "{error}");
        }
    }

    #[test]
    fn equal_shapes_stay_dense() {
        assert_eq!(join_all(&[tensor(&[2, 3]), tensor(&[2, 3])], Shapes::Equal).unwrap(), [tensor(&[2, 3])]);
    }

    #[test]
    fn other_shapes_are_refused_with_both_files_or_taken() {
        let error = join_all(&[tensor(&[2, 3]), tensor(&[2, 4])], Shapes::Equal).unwrap_err();
        let said = error.to_string();
        for part in ["Float32[2,4]", "Float32[2,3]", "0.npz", "`ragged`"] {
            assert!(said.contains(part), "no {part} in {said}");
        }
        let ragged = FieldType::Ragged { element: DataType::Float32, rank: 2 }.field("x", false);
        let fields = [tensor(&[2, 3]), tensor(&[2, 4]), tensor(&[2, 3])];
        assert_eq!(join_all(&fields, Shapes::Ragged).unwrap(), [ragged]);
        assert!(join_all(&[tensor(&[2, 3]), tensor(&[6])], Shapes::Ragged).is_err());
    }

    #[test]
    fn the_wider_text_wins_and_other_numpy_types_differ() {
        let text = |width: &str| with_metadata(FieldType::Text.field("x", false), NUMPY, width);
        assert_eq!(join_all(&[text("<U5"), text("<U12"), text("<U7")], Shapes::Equal).unwrap(), [text("<U12")]);
        let time =
            |unit: &str| with_metadata(FieldType::Scalar(DataType::FixedSizeBinary(8)).field("x", false), NUMPY, unit);
        assert!(join_all(&[time("<M8[ns]"), time("<M8[us]")], Shapes::Ragged).is_err());
    }
}
