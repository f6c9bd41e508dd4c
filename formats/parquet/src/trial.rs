//! Finds columns whose values turn out to be unsupported: nulls inside lists, null structs among null parts. With
//! `unsupported=skip`, each column that may be affected is read ahead, alone.

use crate::mapping::Mapping;
use packhorse_core::{Input, Kind, Omission, Result, Source};
use std::sync::Arc;

/// The columns of `input` with unsupported values, and why; `alone` gives a source of one field.
pub(crate) fn faulty(
    mapping: &Mapping,
    input: &dyn Input,
    alone: &dyn Fn(&str) -> Box<dyn Source>,
) -> Result<Vec<Omission>> {
    let mut faulty = Vec::new();
    for name in mapping.columns.iter().filter(|column| column.is_doubtful()).map(|column| column.field.name()) {
        let read = || alone(name).open(Arc::new(input))?.rows(0..u64::MAX)?.try_for_each(|rows| rows.map(drop));
        match read().err() {
            // Damage is reported when the file is read for its rows.
            Some(error) if error.kind() == Kind::Unsupported => {
                faulty.push(Omission { field: name.clone(), reason: reason(name, error.message()), empty: false });
            }
            Some(error) if matches!(error.kind(), Kind::Content | Kind::Limit) => {}
            Some(error) => return Err(error),
            None => {}
        }
    }
    Ok(faulty)
}

/// The reason in an error message, without the column's name and the hint.
fn reason(name: &str, message: &str) -> String {
    let message = message.strip_prefix(&format!("column {name} ")).unwrap_or(message);
    message.split(';').next().unwrap_or(message).to_owned()
}
