//! The source's settings.

use crate::column_type::ColumnType;
use packhorse_core::{Error, Options, Result, shard_number};
use std::collections::BTreeMap;

/// How a file divides its bytes into fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dialect {
    pub(crate) delimiter: Delimiter,
    /// Whether quotes enclose fields; if not, they are text. Only a delimiter of one byte has quotes.
    pub(crate) quotes: bool,
    /// What comments begin with, at the start of a line.
    pub(crate) comment: Option<u8>,
    /// The lines before the names of the columns or the first row, and between names and rows.
    pub(crate) skip: u64,
    pub(crate) units: u64,
}

/// What stands between fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Delimiter {
    Byte(u8),
    /// Several bytes.
    Text(Vec<u8>),
    /// Runs of spaces and tabs; those at the ends of a line are left out.
    Spaces,
}

impl Delimiter {
    fn parse(text: &str) -> Result<Self> {
        Ok(match (text, text.as_bytes()) {
            ("\\t" | "tab", _) => Self::Byte(b'\t'),
            ("spaces", _) => Self::Spaces,
            (_, [byte]) if !matches!(byte, b'"' | b'\r' | b'\n') => Self::Byte(*byte),
            // A word would be a mistake: `space`, `\s+`.
            (_, [_, _, ..]) if !text.contains(|c: char| c.is_alphanumeric() || "\"\\\r\n".contains(c)) => {
                Self::Text(text.as_bytes().to_vec())
            }
            _ => {
                let why = format_args!("\"{text}\" can't divide columns; take a text such as ; or ::, tab, or spaces");
                return Err(Options::refuse("delimiter", why));
            }
        })
    }

    /// How messages and settings name it.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Byte(b'\t') => "tab".to_owned(),
            Self::Byte(byte) => char::from(*byte).to_string(),
            Self::Text(text) => String::from_utf8_lossy(text).into_owned(),
            Self::Spaces => "spaces".to_owned(),
        }
    }
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
    /// A row. The last comment before it names the columns.
    Comment,
}

impl Header {
    /// Whether the first line names the columns.
    pub(crate) fn is_line(self) -> bool {
        matches!(self, Self::Likely | Self::First)
    }
}

/// The parsed options.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) header: Header,
    delimiter: Option<Delimiter>,
    comment: Option<u8>,
    /// Whether quotes are text.
    plain_quotes: bool,
    skip: u64,
    units: u64,
    /// Whether fractions of numbers stand behind a comma.
    pub(crate) decimal_comma: bool,
    /// The texts of missing values, beside the empty one.
    pub(crate) nulls: Vec<String>,
    /// The types given in `schema`, by column, and whether values may be missing where none is.
    pub(crate) kinds: BTreeMap<String, (ColumnType, bool)>,
}

impl Settings {
    pub(crate) fn parse(options: &Options) -> Result<Self> {
        options.only(&["comment", "decimal", "delimiter", "header", "null", "quote", "schema", "skip", "units"])?;
        let header = match options.get("header") {
            None => Header::Likely,
            Some("first") => Header::First,
            Some("none") => Header::None,
            Some("comment") => Header::Comment,
            Some(text) => {
                return Err(Options::refuse("header", format_args!("\"{text}\" is neither first, none nor comment")));
            }
        };
        let comment = match options.get("comment").map(str::as_bytes) {
            None => None,
            Some([byte]) if byte.is_ascii_punctuation() && *byte != b'"' => Some(*byte),
            Some(_) => return Err(Options::refuse("comment", "comments begin with one sign, such as # or %")),
        };
        if header == Header::Comment && comment.is_none() {
            return Err(Options::refuse(
                "header",
                "comment needs the sign that comments begin with, such as `read=comment=#`",
            ));
        }
        let plain_quotes = match options.get("quote") {
            None | Some("\"") => false,
            Some("none") => true,
            Some(text) => {
                return Err(Options::refuse("quote", format_args!("\"{text}\" is neither none nor a double quote")));
            }
        };
        let lines = |name| match options.get(name).map(str::parse::<u16>) {
            None => Ok(0),
            Some(Ok(lines)) => Ok(u64::from(lines)),
            Some(Err(_)) => Err(Options::refuse(name, "takes a number of lines, at most 65535")),
        };
        let (skip, units) = (lines("skip")?, lines("units")?);
        if units > 0 && !header.is_line() {
            return Err(Options::refuse("units", "is about lines behind the one that names the columns"));
        }
        let decimal_comma = options.choose("decimal", &[(".", false), (",", true)])?;
        let delimiter = options.get("delimiter").map(Delimiter::parse).transpose()?;
        let nulls = options.get("null").unwrap_or_default();
        let nulls = nulls.split(',').filter(|text| !text.is_empty()).map(str::to_owned).collect();
        let schema = options.get("schema").unwrap_or_default();
        let kinds =
            schema.split(',').map(str::trim).filter(|pair| !pair.is_empty()).map(column).collect::<Result<_>>()?;
        Ok(Self { header, delimiter, comment, plain_quotes, skip, units, decimal_comma, nulls, kinds })
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
        // The number of a shard may follow the extension.
        let inside = inside.get(..shard_number(inside.as_bytes())).unwrap_or(inside);
        let usual = if inside.ends_with(".tsv") || inside.ends_with(".tab") { b'\t' } else { b',' };
        let delimiter = self.delimiter.clone().unwrap_or(Delimiter::Byte(usual));
        let quotes = !self.plain_quotes && matches!(delimiter, Delimiter::Byte(_));
        Dialect { delimiter, quotes, comment: self.comment, skip: self.skip, units: self.units }
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
        assert_eq!(
            settings.dialect("x.tsv"),
            Dialect { delimiter: Delimiter::Byte(b';'), quotes: true, comment: None, skip: 0, units: 0 }
        );
        let usual = |name: &str| Settings::default().dialect(name).delimiter;
        assert_eq!((usual("x.TSV.gz"), usual("x.csv")), (Delimiter::Byte(b'\t'), Delimiter::Byte(b',')));
        let lines = parse(&[("delimiter", "::"), ("comment", "%")]).unwrap().dialect("x.dat");
        assert_eq!(
            lines,
            Dialect {
                delimiter: Delimiter::Text(b"::".to_vec()),
                quotes: false,
                comment: Some(b'%'),
                skip: 0,
                units: 0
            }
        );
        assert!(!parse(&[("quote", "none")]).unwrap().dialect("x.tsv").quotes && parse(&[("quote", "'")]).is_err());
        assert!(parse(&[("units", "1"), ("header", "none")]).is_err());
        for (name, value) in [
            ("schema", "a"),
            ("schema", "a:int"),
            ("delimiter", ""),
            ("delimiter", "\""),
            ("delimiter", "space"),
            ("delimiter", "\\s+"),
            ("header", "no"),
            ("header", ""),
            ("header", "comment"),
            ("comment", "//"),
            ("comment", "\""),
            ("comment", "a"),
            ("skip", "-1"),
            ("units", "one"),
            ("decimal", ";"),
        ] {
            assert!(parse(&[(name, value)]).is_err(), "{name}={value}");
        }
    }
}
