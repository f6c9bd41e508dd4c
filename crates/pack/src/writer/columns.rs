//! Checks pushed rows against the schema of the writer.

use crate::merged_columns::shown;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, RecordBatch, new_null_array};
use packhorse_core::{
    Code, Error, Field, FieldType, KEY, Kind, Result, Rows, Schema, SchemaRef, canonical, key_column,
};
use std::sync::Arc;

/// The columns that rows must have.
pub(super) struct PushedColumns {
    schema: SchemaRef,
    /// Number of classes; 0 without a class list.
    classes: usize,
}

impl PushedColumns {
    pub(super) fn new(schema: SchemaRef, classes: usize) -> Self {
        Self { schema, classes }
    }

    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The rows with the schema's columns in its order.
    pub(super) fn arranged(&self, rows: &Rows) -> Result<Rows> {
        let given = rows.schema();
        if let Some(other) = given.fields().iter().find(|field| self.schema.column_with_name(field.name()).is_none()) {
            let name = other.name();
            let message = format!("field {name} is not in the schema of the writer");
            return Err(Error::config(message).with_code(Code::ColumnsDiffer).in_field(name));
        }
        let columns =
            self.schema.fields().iter().map(|field| column(rows, &given, field)).collect::<Result<Vec<_>>>()?;
        let pairs = self.schema.fields().iter().zip(&columns);
        // A blob too large for a view has another type.
        let fields = pairs.map(|(field, array)| field.as_ref().clone().with_data_type(array.data_type().clone()));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let schema = if schema == self.schema { self.schema.clone() } else { schema };
        let rows = RecordBatch::try_new(schema, columns).map_err(|e| Error::content(e.to_string()))?;
        self.check_labels(&rows)?;
        Ok(rows)
    }

    fn check_labels(&self, rows: &Rows) -> Result<()> {
        let Some(labels) = rows.column_by_name("cls").and_then(|column| column.as_primitive_opt::<Int64Type>()) else {
            return Ok(());
        };
        if self.classes == 0 {
            return Ok(());
        }
        let known = |label: i64| usize::try_from(label).is_ok_and(|label| label < self.classes);
        let Some(row) = labels.iter().position(|label| label.is_some_and(|label| !known(label))) else { return Ok(()) };
        let message = format!("has the label {}, and there are {} classes from 0", labels.value(row), self.classes);
        Err(Error::content(message).in_field("cls").in_sample(key_column(rows)?.value(row)))
    }
}

/// The type of a column, whichever of Arrow's types its text has.
fn kind(field: &Field) -> Option<FieldType> {
    FieldType::of(field).ok().map(FieldType::with_views)
}

/// Whether blobs are too many bytes for views of them.
fn is_large(array: &ArrayRef) -> bool {
    let values = array.as_binary_opt::<i64>().map_or(0, |blobs| blobs.values().len());
    u32::try_from(values).is_err()
}

/// The values in the type of `field`. Errors: those of the first row whose value is not one.
fn conformed(rows: &Rows, array: &ArrayRef, field: &Field, kind: &FieldType) -> Result<ArrayRef> {
    if is_large(array) {
        return Ok(Arc::clone(array));
    }
    canonical(kind, array).map_err(|error| {
        let row = (0..array.len()).find(|row| canonical(kind, &array.slice(*row, 1)).is_err());
        let hint = (error.kind() == Kind::Unsupported).then_some("fill them in");
        let error = hint.into_iter().fold(error, Error::hint).with_kind(Kind::Content).in_field(field.name());
        row.into_iter().fold(error, |error, row| error.in_row_of(rows, row).at_row(row as u64))
    })
}

/// The column of `rows` for `field`.
fn column(rows: &Rows, given: &Schema, field: &Field) -> Result<ArrayRef> {
    let name = field.name();
    let differs = |message: String| Error::content(message).with_code(Code::ColumnsDiffer).in_field(name);
    let array = match given.column_with_name(name) {
        None if field.is_nullable() => new_null_array(field.data_type(), rows.num_rows()),
        None => return Err(differs(format!("the rows have no field {name}, and every sample must have it"))),
        Some((at, found)) => match (kind(found), kind(field)) {
            (Some(found), Some(wanted)) if found == wanted => conformed(rows, rows.column(at), field, &wanted)?,
            _ => {
                let (found, wanted) = (shown(found), shown(field));
                let message = format!("field {name} is {found} here and {wanted} in the schema of the writer");
                return Err(differs(message));
            }
        },
    };
    let missing = (0..array.len()).find(|row| array.null_count() > 0 && !field.is_nullable() && array.is_null(*row));
    match missing {
        None => Ok(array),
        Some(row) if name == KEY => Err(Error::content("has no key").at_row(row as u64)),
        Some(row) => {
            let error = differs(format!("has no value of field {name}, and every sample must have one"));
            Err(error.in_row_of(rows, row).at_row(row as u64))
        }
    }
}
