//! Names of classes in conditions.

use crate::Dataset;
use crate::condition_text::Literal;
use packhorse_core::{Code, Error, Field, HUGGINGFACE, Result, class_names, nearest, some_of};

/// The field of labels.
const LABEL: &str = "cls";

/// The names of the classes that a field's numbers stand for: those of the column, or of the dataset's labels.
pub(crate) fn classes_of(dataset: &Dataset, field: &Field) -> Vec<String> {
    class_names(field.metadata().get(HUGGINGFACE))
        .unwrap_or_else(|| if field.name() == LABEL { dataset.classes().to_vec() } else { Vec::new() })
}

/// The name of a class as its number, if there is a class list.
pub(crate) fn number_of_class(literal: &mut Literal, classes: &[String]) -> Result<()> {
    let Literal::Text(name) = &*literal else { return Ok(()) };
    match classes.iter().position(|class| class == name) {
        Some(position) => *literal = Literal::Integer(position as i128),
        // A label may be compared with a number in quotes too.
        None if classes.is_empty() || name.parse::<f64>().is_ok() => {}
        None => {
            let error = Error::config(format!("no class is called {name:?}")).with_code(Code::UnknownClass);
            let meant = nearest(name, classes.iter().map(String::as_str));
            return Err(match meant {
                Some(meant) => error.hint(format!("did you mean '{meant}'?")),
                None => error
                    .hint(format!("there are: {}", some_of(&classes.iter().map(String::as_str).collect::<Vec<_>>()))),
            });
        }
    }
    Ok(())
}
