//! Columns that only reading shows to be no fields: nulls inside lists, null structs among null parts. Where such columns
//! are to be left out, those that may be such are read ahead, each alone.

use crate::mapping::Mapping;
use packhorse_core::{Input, Kind, Omission, Result, Source};

/// The columns of `input` whose values can't be delivered, and why; `alone` gives a source of one field.
pub(crate) fn faulty(
    mapping: &Mapping,
    input: &dyn Input,
    alone: &dyn Fn(&str) -> Box<dyn Source>,
) -> Result<Vec<Omission>> {
    let mut faulty = Vec::new();
    for name in mapping.columns.iter().filter(|column| column.is_doubtful()).map(|column| column.field.name()) {
        let source = alone(name);
        let error = match source.rows(input, 0..u64::MAX) {
            Ok(mut blocks) => blocks.find_map(Result::err),
            Err(error) => Some(error),
        };
        match error {
            // Damage is found where the file is read in earnest, and said there.
            Some(error) if error.kind() == Kind::Unsupported => {
                faulty.push(Omission { field: name.clone(), reason: reason(name, error.message()) });
            }
            Some(error) if matches!(error.kind(), Kind::Content | Kind::Limit) => {}
            Some(error) => return Err(error),
            None => {}
        }
    }
    Ok(faulty)
}

/// What is wrong with the column, without its name and what to do.
fn reason(name: &str, message: &str) -> String {
    let message = message.strip_prefix(&format!("column {name} ")).unwrap_or(message);
    message.split(';').next().unwrap_or(message).to_owned()
}
