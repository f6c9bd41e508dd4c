//! Errors of packhorse as exceptions. The classes are Python's own, in `packhorse/_errors.py`.

use packhorse::core::{Code, Error, Kind};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

/// The results of functions that Python calls.
pub(crate) type Result<T, E = Raised> = std::result::Result<T, E>;

/// How a function writes a setting that a message names, by its name and value.
type Spelling = fn(&str, &str) -> String;

/// An exception, or an error that becomes one.
pub(crate) enum Raised {
    Ours(Error, Spelling),
    Python(PyErr),
}

impl Raised {
    /// An error of a function that takes the settings of a recipe.
    pub(crate) fn packing(error: impl Into<Self>) -> Self {
        error.into().spelt(|name, value| format!("{name}={value}"))
    }

    /// An error of `Dataset.join`.
    pub(crate) fn joining(error: impl Into<Self>) -> Self {
        error.into().spelt(|name, value| format!("{}={value}", name.strip_prefix("join_").unwrap_or(name)))
    }

    fn spelt(self, spelling: Spelling) -> Self {
        match self {
            Self::Ours(error, _) => Self::Ours(error, spelling),
            other => other,
        }
    }
}

impl From<Error> for Raised {
    fn from(error: Error) -> Self {
        Self::Ours(error, reading)
    }
}

impl From<PyErr> for Raised {
    fn from(error: PyErr) -> Self {
        Self::Python(error)
    }
}

impl From<Raised> for PyErr {
    fn from(raised: Raised) -> Self {
        match raised {
            Raised::Ours(error, spelling) => {
                Python::attach(|py| exception(py, &error, spelling).unwrap_or_else(|failed| failed))
            }
            Raised::Python(error) => error,
        }
    }
}

/// The exception of an error: its class by kind and code, with all that the error knows.
fn exception(py: Python<'_>, error: &Error, spelling: Spelling) -> PyResult<PyErr> {
    let settings = |text: &str| settings(text, spelling);
    static CLASSES: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let classes = CLASSES.get_or_try_init(py, || py.import("packhorse._errors").map(Bound::unbind))?.bind(py);
    let name = match (error.code(), error.kind()) {
        (Code::StateDiffers, _) => "StateError",
        (Code::NoSuchFile, _) => "MissingFileError",
        (_, Kind::Content) => "ContentError",
        (_, Kind::Environment) => "StorageError",
        (_, Kind::Changed) => "ChangedError",
        (_, Kind::Config) => "ConfigError",
        (_, Kind::Incomplete) => "IncompleteError",
        (_, Kind::Limit) => "LimitError",
        (_, Kind::Unsupported) => "UnsupportedError",
        (_, Kind::Cancelled) => "CancelledError",
        (_, Kind::Bug) => "InternalError",
    };
    let facts = PyDict::new(py);
    facts.set_item("kind", error.kind().name())?;
    facts.set_item("code", error.code().name())?;
    facts.set_item("message", settings(error.message()))?;
    facts.set_item("hint", error.hints().map(settings))?;
    facts.set_item("input", error.input())?;
    facts.set_item("sample", error.sample())?;
    facts.set_item("field", error.field())?;
    facts.set_item("row", error.row())?;
    Ok(PyErr::from_value(classes.getattr(name)?.call((settings(&error.to_string()),), Some(&facts))?))
}

/// A setting as `open` and loaders take it, or as what packs the dataset takes it.
fn reading(name: &str, value: &str) -> String {
    match name {
        "tree" | "branches" | "datasets" | "groups" | "attributes" | "unsupported" | "schema" => {
            format!("read={{\"{name}\": {value}}}")
        }
        "read" => match value.trim_matches('"').split_once('=') {
            Some((name, value)) => format!("read={{{name:?}: {value:?}}}"),
            None => format!("read={value}"),
        },
        "from" => format!("format={value}"),
        "drop" | "select" | "field" | "decode" | "cast" => format!("packhorse.pack(…, {name}={value})"),
        _ => format!("{name}={value}"),
    }
}

/// Settings as Python writes them: `` `on-error=skip` `` is `` `on_error="skip"` ``.
fn settings(text: &str, spelling: Spelling) -> String {
    let mut shown = String::with_capacity(text.len());
    for (number, part) in text.split('`').enumerate() {
        if number > 0 {
            shown.push('`');
        }
        let word = |name: &str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'-');
        match part.split_once('=') {
            Some((name, value)) if number % 2 == 1 && word(name) => {
                let value = match value {
                    "true" => "True".to_owned(),
                    number if number.parse::<f64>().is_ok() => number.to_owned(),
                    text => format!("{text:?}"),
                };
                shown.push_str(&spelling(&name.replace('-', "_"), &value));
            }
            None if number % 2 == 1 && word(part) => {
                let (name, spelt) = (part.replace('-', "_"), spelling(&part.replace('-', "_"), "…"));
                shown.push_str(if spelt.starts_with(&name) { &name } else { &spelt });
            }
            _ => shown.push_str(part),
        }
    }
    shown
}
