//! The fields that a loader is asked for, with those that its device needs.

use super::{FieldKind, FieldOptions, all};
use crate::Column;
use crate::requested_columns::RequestedColumns;
use packhorse_core::{Error, Result, Schema};
use std::collections::HashSet;

/// The requested fields (all if empty), and those that the device needs.
pub(crate) type AskedFields<'a> = (&'a [FieldOptions], &'a [FieldOptions]);

/// The fields of a loader.
///
/// Errors (kind `Config`): no fields; a field that has the name of a needed one and is another.
pub(crate) fn chosen((asked, needed): AskedFields<'_>, schema: &Schema) -> Result<Vec<FieldOptions>> {
    let mut fields = if asked.is_empty() { all(schema) } else { asked.to_vec() };
    let columns: HashSet<&str> = schema.fields().iter().map(|column| column.name().as_str()).collect();
    let has = |name: &String| columns.contains(name.as_str());
    for field in &mut fields {
        // A column may have a name that reads as several.
        let whole = field.from.0.join(";");
        if has(&whole) {
            field.from = Column(vec![whole]);
        }
        // Fields that were left out may be in the shards all the same.
        if field.from.0.iter().any(has) {
            field.from.0.retain(has);
        }
    }
    for needed in needed {
        match fields.iter().find(|field| field.name == needed.name) {
            None => fields.push(needed.clone()),
            Some(field) if field.kind == needed.kind => {}
            Some(field) => return Err(taken(field)),
        }
    }
    if fields.is_empty() {
        return Err(Error::config("samples have no fields"));
    }
    Ok(fields)
}

/// The error of a field that has the name of one that the device makes itself.
fn taken(field: &FieldOptions) -> Error {
    let message =
        format!("column {} would be the field {}, which the device makes itself", field.from.0.join(";"), field.name);
    Error::config(message).in_field(&field.name).hint("choose the fields of the batch, and give this one another name")
}

/// The columns that the fields are read from.
pub(crate) fn columns(fields: &[FieldOptions]) -> RequestedColumns {
    let column = |field: &FieldOptions| match field.kind {
        FieldKind::Draws => Column(Vec::new()),
        _ => field.from.clone(),
    };
    let mut columns = RequestedColumns::new(fields.iter().map(column).collect());
    let present = (0..).zip(fields).filter(|(_, field)| field.kind == FieldKind::Present(None));
    columns.present = present.map(|(at, _)| at).collect();
    columns
}
