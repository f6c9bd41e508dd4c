//! The source's settings.

use crate::column_type::ColumnType;
use packhorse_core::{Error, Options, Result};
use std::collections::BTreeMap;

/// How a file divides its bytes into fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dialect {
    pub(crate) delimiter: u8,
    /// Whether quotes enclose fields; if not, they are text.
    pub(crate) quotes: bool,
}

/// What the first line is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Header {
    /// The names of the columns, if it does not look like a row.
    #[default]
    Likely,
    /// The names of the columns.
    First,
    /// A row. Columns are named by their positions.
    None,
}

/// The parsed options.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) header: Header,
    delimiter: Option<u8>,
    /// Whether quotes are text.
    plain_quotes: bool,
    /// The texts of missing values, beside the empty one.
    pub(crate) nulls: Vec<String>,
    /// The types given in `schema`, by column, and whether values may be missing where none is.
    pub(crate) kinds: BTreeMap<String, (ColumnType, bool)>,
}

impl Settings {
    pub(crate) fn parse(options: &Options) -> Result<Self> {
        options.only(&["delimiter", "header", "null", "quote", "schema"])?;
        let header = match options.get("header") {
            None => Header::Likely,
            Some("first") => Header::First,
            Some("none") => Header::None,
            Some(text) => return Err(Options::refuse("header", format_args!("\"{text}\" is neither first nor none"))),
        };
        let plain_quotes = match options.get("quote") {
            None | Some("\"") => false,
            Some("none") => true,
            Some(text) => {
                return Err(Options::refuse("quote", format_args!("\"{text}\" is neither none nor a double quote")));
            }
        };
        let delimiter = match options.get("delimiter") {
            None => None,
            Some("\\t" | "tab") => Some(b'\t'),
            Some(text) => match text.as_bytes() {
                [byte] if !matches!(byte, b'"' | b'\r' | b'\n') && byte.is_ascii() => Some(*byte),
                _ => {
                    let why = format_args!("\"{text}\" is not a single byte, such as ; or tab");
                    return Err(Options::refuse("delimiter", why));
                }
            },
        };
        let nulls = options.get("null").unwrap_or_default();
        let nulls = nulls.split(',').filter(|text| !text.is_empty()).map(str::to_owned).collect();
        let schema = options.get("schema").unwrap_or_default();
        let kinds =
            schema.split(',').map(str::trim).filter(|pair| !pair.is_empty()).map(column).collect::<Result<_>>()?;
        Ok(Self { header, delimiter, plain_quotes, nulls, kinds })
    }

    /// The value of a field; empty if it is missing.
    pub(crate) fn given<'v>(&self, value: &'v [u8]) -> &'v [u8] {
        if self.nulls.iter().any(|null| null.as_bytes() == value) { &[] } else { value }
    }

    /// Whether a delimiter is given.
    pub(crate) fn has_delimiter(&self) -> bool {
        self.delimiter.is_some()
    }

    /// The dialect of the file `name`.
    pub(crate) fn dialect(&self, name: &str) -> Dialect {
        let name = name.to_ascii_lowercase();
        let inside =
            [".gz", ".zst", ".zstd", ".bz2", ".xz"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(&name);
        let usual = if inside.ends_with(".tsv") || inside.ends_with(".tab") { b'\t' } else { b',' };
        Dialect { delimiter: self.delimiter.unwrap_or(usual), quotes: !self.plain_quotes }
    }
}

fn column(pair: &str) -> Result<(String, (ColumnType, bool))> {
    let known = || ColumnType::NAMES.map(|(name, _)| name).join(", ");
    let (name, kind) = pair
        .rsplit_once(':')
        .ok_or_else(|| Error::config(format!("`schema`: \"{pair}\" is not NAME:TYPE; types are {}", known())))?;
    let (word, nullable) = kind.trim().strip_suffix('?').map_or((kind.trim(), false), |kind| (kind.trim_end(), true));
    let kind = ColumnType::NAMES.iter().find(|(known, _)| *known == word).map(|(_, kind)| *kind);
    let kind = kind.ok_or_else(|| {
        Error::config(format!(
            "`schema`: \"{pair}\" has an unknown type; types are {}, with ? where values may be missing",
            known()
        ))
    })?;
    Ok((name.trim().to_owned(), (kind, nullable)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_parsed_or_refused() {
        let parse = |pairs: &[(&str, &str)]| Settings::parse(&pairs.iter().copied().collect());
        let settings = parse(&[("schema", "a:int64, b c:text?"), ("delimiter", ";")]).unwrap();
        assert_eq!((settings.kinds["b c"], settings.kinds["a"]), ((ColumnType::Text, true), (ColumnType::Int, false)));
        assert_eq!(settings.dialect("x.tsv"), Dialect { delimiter: b';', quotes: true });
        let plain = Settings::default();
        assert_eq!((plain.dialect("x.TSV.gz").delimiter, plain.dialect("x.csv").delimiter), (b'\t', b','));
        assert!(!parse(&[("quote", "none")]).unwrap().dialect("x.tsv").quotes && parse(&[("quote", "'")]).is_err());
        for (name, value) in [
            ("schema", "a"),
            ("schema", "a:int"),
            ("delimiter", ""),
            ("delimiter", "\""),
            ("header", "no"),
            ("header", ""),
        ] {
            assert!(parse(&[(name, value)]).is_err(), "{name}={value}");
        }
    }
}
