//! Types of columns, and their names in the option `schema`.

use packhorse_core::{DataType, FieldType};
use std::fmt;

/// The type of a value that is neither a list nor an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JsonScalar {
    Bool,
    Int,
    Unsigned,
    Float,
    Text,
}

impl JsonScalar {
    const NAMES: [(&'static str, JsonScalar); 5] = [
        ("bool", JsonScalar::Bool),
        ("int64", JsonScalar::Int),
        ("uint64", JsonScalar::Unsigned),
        ("float64", JsonScalar::Float),
        ("text", JsonScalar::Text),
    ];

    fn data_type(self) -> DataType {
        match self {
            JsonScalar::Bool => DataType::Boolean,
            JsonScalar::Int => DataType::Int64,
            JsonScalar::Unsigned => DataType::UInt64,
            JsonScalar::Float => DataType::Float64,
            JsonScalar::Text => DataType::Utf8View,
        }
    }
}

impl fmt::Display for JsonScalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::NAMES.iter().find(|(_, element)| element == self).map_or("", |(name, _)| name))
    }
}

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ColumnType {
    /// `element` in `depth` lists inside each other; 0 for a single value.
    Plain { element: JsonScalar, depth: usize },
    /// The text of any value, as it is written.
    Json,
}

impl ColumnType {
    /// Parses `int64`, `list<list<text>>`, `json`; `None` for anything else.
    pub(super) fn parse(text: &str) -> Option<Self> {
        if text == "json" {
            return Some(Self::Json);
        }
        if let Some(inside) = text.strip_prefix("list<").and_then(|rest| rest.strip_suffix('>')) {
            return match Self::parse(inside.trim())? {
                Self::Plain { element, depth } if depth < super::DEPTH => {
                    Some(Self::Plain { element, depth: depth + 1 })
                }
                _ => None,
            };
        }
        let element = JsonScalar::NAMES.iter().find(|(name, _)| *name == text)?.1;
        Some(Self::Plain { element, depth: 0 })
    }

    pub(super) fn field_type(self) -> FieldType {
        match self {
            Self::Json | Self::Plain { element: JsonScalar::Text, depth: 0 } => FieldType::Text,
            Self::Plain { element, depth: 0 } => FieldType::Scalar(element.data_type()),
            Self::Plain { element, depth } => FieldType::List { element: element.data_type(), depth },
        }
    }
}

impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json => f.write_str("json"),
            Self::Plain { element, depth } => write!(f, "{}{element}{}", "list<".repeat(*depth), ">".repeat(*depth)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_parsed_as_they_are_shown() {
        for name in ["bool", "int64", "uint64", "float64", "text", "json", "list<int64>", "list<list<text>>"] {
            assert_eq!(ColumnType::parse(name).unwrap().to_string(), name);
        }
        let deep = "list<".repeat(super::super::DEPTH + 1) + "text" + &">".repeat(super::super::DEPTH + 1);
        for name in ["", "int", "list<>", "list<json>", "list<text", "text>", &deep] {
            assert_eq!(ColumnType::parse(name), None, "{name}");
        }
    }
}
