//! How a table of metadata is written: the settings of `metadata-read`.

use packhorse_core::{Error, Result, nearest};

/// What stands between the columns of a table of text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Delimiter {
    Text(String),
    /// Runs of spaces and tabs.
    Spaces,
}

/// The parsed settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TableOptions {
    pub(crate) delimiter: Option<Delimiter>,
    /// The first line is a row, and columns are called `column1`, `column2` and so on.
    pub(crate) no_header: bool,
    /// Quotes are text.
    pub(crate) plain_quotes: bool,
    /// The number of columns: the last one takes the rest of the line.
    pub(crate) columns: Option<usize>,
    /// Lines before the table.
    pub(crate) skip: u64,
    /// The texts of missing values, beside the empty one.
    pub(crate) nulls: Vec<String>,
    /// Where in a file of JSON the list of rows is: members from the outside in, with dots between them.
    pub(crate) records: Option<String>,
}

impl TableOptions {
    const NAMES: [&str; 7] = ["delimiter", "header", "quote", "columns", "skip", "null", "records"];

    /// Parses `NAME=VALUE` texts.
    ///
    /// Errors (kind `Config`): unknown names and values.
    pub(crate) fn parse(texts: &[String]) -> Result<Self> {
        let mut options = Self::default();
        for text in texts {
            let (name, value) =
                text.split_once('=').ok_or_else(|| refused(&format!("takes NAME=VALUE, not {text:?}")))?;
            options.set(name, value)?;
        }
        // Only lines have runs of spaces, longer delimiters and a rest.
        let needs_lines = options.columns.is_some()
            || matches!(&options.delimiter, Some(Delimiter::Text(text)) if text.len() > 1)
            || options.delimiter == Some(Delimiter::Spaces);
        options.plain_quotes |= needs_lines;
        Ok(options)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let wrong = |wanted: &str| Err(refused(&format!("{name}={value}: takes {wanted}")));
        match (name, value) {
            ("delimiter", "" | "\"" | "\n" | "\r" | "\u{4}") => return wrong("a text such as ; or |, tab, or spaces"),
            ("delimiter", "tab" | "\\t") => self.delimiter = Some(Delimiter::Text("\t".to_owned())),
            ("delimiter", "spaces") => self.delimiter = Some(Delimiter::Spaces),
            // A word would be a mistake: `space`, `\s+`.
            ("delimiter", text) if text.len() > 1 && text.contains(|c: char| c.is_alphanumeric() || c == '\\') => {
                return wrong("a text such as ; or |, tab, or spaces");
            }
            ("delimiter", text) => self.delimiter = Some(Delimiter::Text(text.to_owned())),
            ("header", "first") => self.no_header = false,
            ("header", "none") => self.no_header = true,
            ("header", _) => return wrong("first or none"),
            ("quote", "\"") => self.plain_quotes = false,
            ("quote", "none") => self.plain_quotes = true,
            ("quote", _) => return wrong("none or a double quote"),
            ("columns", number) => match number.parse() {
                Ok(columns) if columns > 0 => self.columns = Some(columns),
                _ => return wrong("the number of columns"),
            },
            ("skip", number) => match number.parse() {
                Ok(skip) => self.skip = skip,
                Err(_) => return wrong("the number of lines before the table"),
            },
            ("null", texts) => {
                self.nulls = texts.split(',').filter(|text| !text.is_empty()).map(str::to_owned).collect()
            }
            ("records", path) => self.records = Some(path.to_owned()),
            _ => {
                let meant = nearest(name, Self::NAMES).map(|name| format!("did you mean {name}?"));
                let error = refused(&format!("has no setting {name}; there are {}", Self::NAMES.join(", ")));
                return Err(meant.into_iter().fold(error, Error::hint));
            }
        }
        Ok(())
    }

    /// Refuses settings that have no effect on a table: most are for tables of text, and `records` for files of JSON.
    pub(crate) fn check(&self, is_text: bool, is_json: bool) -> Result<()> {
        let is_of_text = *self != Self { records: self.records.clone(), ..Self::default() };
        if is_of_text && !is_text {
            return Err(refused("says how tables of text are written, which this one is not"));
        }
        match self.records.is_some() && !is_json {
            true => Err(refused("records=… is for a file of JSON, whose name ends in .json")),
            false => Ok(()),
        }
    }

    /// Whether a value is missing.
    pub(crate) fn is_null(&self, value: &[u8]) -> bool {
        value.is_empty() || self.nulls.iter().any(|null| null.as_bytes() == value)
    }
}

fn refused(message: &str) -> Error {
    Error::config(format!("`metadata-read` {message}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_parsed_or_refused() {
        let parse =
            |texts: &[&str]| TableOptions::parse(&texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>());
        let list = parse(&["delimiter=spaces", "header=none", "columns=2", "skip=1"]).unwrap();
        assert_eq!(
            (list.delimiter, list.no_header, list.columns, list.skip),
            (Some(Delimiter::Spaces), true, Some(2), 1)
        );
        assert!(list.plain_quotes && parse(&["delimiter=::"]).unwrap().plain_quotes);
        assert!(!parse(&["delimiter=;"]).unwrap().plain_quotes && parse(&["quote=none"]).unwrap().plain_quotes);
        assert_eq!(parse(&["records=a.b"]).unwrap().records, Some("a.b".to_owned()));
        for (text, (is_text, is_json), works) in [
            ("records=a", (false, true), true),
            ("records=a", (true, false), false),
            ("null=NA", (true, false), true),
            ("null=NA", (false, true), false),
            ("header=none", (false, false), false),
        ] {
            assert_eq!(parse(&[text]).unwrap().check(is_text, is_json).is_ok(), works, "{text}");
        }
        for bad in [
            "delimiter",
            "delimiter=",
            "delimiter=space",
            "delimiter=\\s+",
            "header=yes",
            "quote='",
            "columns=0",
            "skip=x",
            "headr=none",
        ] {
            assert!(parse(&[bad]).is_err(), "{bad}");
        }
        assert!(parse(&["headr=none"]).unwrap_err().to_string().contains("did you mean header?"));
    }
}
