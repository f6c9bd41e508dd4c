//! The source's settings.

use crate::column_type::ColumnType;
use packhorse_core::{Error, Options, Result};
use std::collections::BTreeMap;

/// The parsed options.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    delimiter: Option<u8>,
    /// The types given in `schema`, by column.
    pub(crate) kinds: BTreeMap<String, ColumnType>,
}

impl Settings {
    pub(crate) fn parse(options: &Options) -> Result<Self> {
        options.only(&["delimiter", "schema"])?;
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
        let schema = options.get("schema").unwrap_or_default();
        let kinds =
            schema.split(',').map(str::trim).filter(|pair| !pair.is_empty()).map(column).collect::<Result<_>>()?;
        Ok(Self { delimiter, kinds })
    }

    /// Whether a delimiter is given.
    pub(crate) fn has_delimiter(&self) -> bool {
        self.delimiter.is_some()
    }

    /// The delimiter in the file `name`.
    pub(crate) fn delimiter(&self, name: &str) -> u8 {
        let name = name.to_ascii_lowercase();
        let inside =
            [".gz", ".zst", ".zstd", ".bz2", ".xz"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(&name);
        self.delimiter.unwrap_or(if inside.ends_with(".tsv") || inside.ends_with(".tab") { b'\t' } else { b',' })
    }
}

fn column(pair: &str) -> Result<(String, ColumnType)> {
    let known = || ColumnType::NAMES.map(|(name, _)| name).join(", ");
    let (name, kind) = pair
        .rsplit_once(':')
        .ok_or_else(|| Error::config(format!("`schema`: \"{pair}\" is not NAME:TYPE; types are {}", known())))?;
    let kind = ColumnType::NAMES.iter().find(|(word, _)| *word == kind.trim()).map(|(_, kind)| *kind);
    let kind =
        kind.ok_or_else(|| Error::config(format!("`schema`: \"{pair}\" has an unknown type; types are {}", known())))?;
    Ok((name.trim().to_owned(), kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_parsed_or_refused() {
        let parse = |pairs: &[(&str, &str)]| Settings::parse(&pairs.iter().copied().collect());
        let settings = parse(&[("schema", "a:int64, b c:text"), ("delimiter", ";")]).unwrap();
        assert_eq!(settings.kinds["b c"], ColumnType::Text);
        assert_eq!(settings.delimiter("x.tsv"), b';');
        let plain = Settings::default();
        assert_eq!((plain.delimiter("x.TSV.gz"), plain.delimiter("x.csv")), (b'\t', b','));
        for (name, value) in
            [("schema", "a"), ("schema", "a:int"), ("delimiter", ""), ("delimiter", "\""), ("header", "no")]
        {
            assert!(parse(&[(name, value)]).is_err(), "{name}={value}");
        }
    }
}
