//! The columns of a table that are requested.

use super::table_options::TableOptions;
use crate::KeyEnds;
use packhorse_core::{Code, Error, Limits, Result};

/// Error texts name this many columns at most.
const LISTED: usize = 40;

/// The requested columns.
#[derive(Clone)]
pub(super) struct ColumnRequest<'a> {
    /// The name of the key column.
    pub(super) key: &'a str,
    /// The names of the columns to keep, in this order; `None` for all.
    pub(super) columns: Option<&'a [String]>,
    /// Bounds the length of a row.
    pub(super) limits: Limits,
    /// Whether it is for metadata, not for a table that is joined, which has no settings.
    pub(super) is_metadata: bool,
    /// How names of files in the key column are split; `None` keeps keys as they are.
    pub(super) key_ends: Option<&'a KeyEnds>,
    /// How the table is written.
    pub(super) options: &'a TableOptions,
    /// Whether a sample may have several rows, which become a list.
    pub(super) lists: bool,
}

/// A table as its extension says.
const USUAL: &TableOptions = &TableOptions {
    delimiter: None,
    no_header: false,
    plain_quotes: false,
    columns: None,
    skip: 0,
    nulls: Vec::new(),
    records: None,
};

/// Positions of the wanted columns in a table.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ColumnChoice {
    /// The key column.
    pub(super) key: usize,
    /// The columns to keep, in the order of the object's members.
    pub(super) columns: Vec<usize>,
}

impl<'a> ColumnRequest<'a> {
    /// Errors: `Config` for a list of columns that is empty or names one twice.
    pub(super) fn new(key: &'a str, columns: Option<&'a [String]>, limits: Limits) -> Result<Self> {
        if columns.is_some_and(<[String]>::is_empty) {
            return Err(Error::config("no column is chosen; name at least one, or leave the list out for all"));
        }
        let list = columns.unwrap_or_default();
        if let Some(twice) = list.iter().enumerate().find(|(i, name)| list.iter().take(*i).any(|n| n == *name)) {
            return Err(Error::config(format!("the column {:?} is chosen twice; name it once", twice.1)));
        }
        let key_ends = Some(&KeyEnds::FirstDot);
        Ok(Self { key, columns, limits, is_metadata: true, key_ends, options: USUAL, lists: false })
    }

    /// `error` with the way out where one name looks like those of several columns.
    fn divided(&self, error: Error, names: &[String]) -> Error {
        match names {
            [one] if self.is_metadata && one.contains([';', '|', '\t', ' ', ',']) => {
                error.hint("`metadata-read=delimiter=…` says what divides columns")
            }
            [one] if one.contains([';', '|']) => error.hint("tables have commas (.csv) or tabs (.tsv) between columns"),
            _ => error,
        }
    }

    /// Finds the requested columns among `names`.
    ///
    /// Errors: `Config` for a missing column, with those that exist; `Content` for one that occurs twice.
    pub(super) fn choose(&self, names: &[String]) -> Result<ColumnChoice> {
        let find = |wanted: &str| {
            let mut found = names.iter().enumerate().filter(|(_, name)| *name == wanted).map(|(i, _)| i);
            match (found.next(), found.next()) {
                (Some(column), None) => Ok(column),
                (Some(_), Some(_)) => Err(Error::content(format!(
                    "has the column {wanted:?} twice; rename one, or choose others as the columns to keep"
                ))),
                (None, _) => Err(self.divided(missing(wanted, names), names)),
            }
        };
        let wanted = self.columns.unwrap_or(names);
        Ok(ColumnChoice { key: find(self.key)?, columns: wanted.iter().map(|name| find(name)).collect::<Result<_>>()? })
    }
}

/// The error of a column that is missing among `names`.
pub(super) fn missing(wanted: &str, names: &[String]) -> Error {
    let mut list = names.iter().take(LISTED).map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
    if names.len() > LISTED {
        list.push_str(&format!(" and {} more", names.len() - LISTED));
    }
    Error::config(format!("has no column {wanted:?}; choose among {list}")).with_code(Code::NoSuchField)
}

#[cfg(test)]
mod tests {
    use super::*;
    use packhorse_core::Kind;

    fn names(list: &[&str]) -> Vec<String> {
        list.iter().map(|name| (*name).to_owned()).collect()
    }

    fn choose(key: &str, columns: Option<&[&str]>, table: &[&str]) -> Result<ColumnChoice> {
        let columns = columns.map(names);
        ColumnRequest::new(key, columns.as_deref(), Limits::default())?.choose(&names(table))
    }

    #[test]
    fn all_columns_or_those_asked_for_in_their_order() {
        assert_eq!(choose("b", None, &["a", "b"]).unwrap(), ColumnChoice { key: 1, columns: vec![0, 1] });
        let some = choose("b", Some(&["c", "a"]), &["a", "b", "c"]).unwrap();
        assert_eq!(some, ColumnChoice { key: 1, columns: vec![2, 0] });
    }

    #[test]
    fn a_missing_column_is_an_error_that_lists_the_others() {
        for (key, columns) in [("x", None), ("a", Some(&["x"][..]))] {
            let error = choose(key, columns, &["a", "b"]).unwrap_err();
            assert_eq!(error.kind(), Kind::Config);
            assert_eq!(error.message(), r#"has no column "x"; choose among "a", "b""#);
        }
        let many: Vec<String> = (0..50).map(|i| i.to_string()).collect();
        assert!(missing("x", &many).message().ends_with(r#""39" and 10 more"#));
    }

    #[test]
    fn a_duplicate_column_is_an_error_only_if_it_is_requested() {
        let error = choose("a", None, &["a", "b", "b"]).unwrap_err();
        assert_eq!(error.kind(), Kind::Content);
        assert!(choose("a", Some(&["a"]), &["a", "b", "b"]).is_ok());
    }

    #[test]
    fn invalid_lists_are_refused() {
        for list in [&[][..], &["a", "a"]] {
            assert_eq!(choose("a", Some(list), &["a"]).unwrap_err().kind(), Kind::Config);
        }
    }
}
