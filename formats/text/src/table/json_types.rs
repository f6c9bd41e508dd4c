//! The source's settings.

use super::column_type::ColumnType;
use packhorse_core::{Error, Options, Result};
use std::collections::BTreeMap;

/// The parsed options.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct JsonTypes {
    /// The types given in `schema`, by field, and whether values may be missing where none is.
    pub(super) types: BTreeMap<String, (ColumnType, bool)>,
}

impl JsonTypes {
    pub(crate) fn parse(options: &Options) -> Result<Self> {
        options.only(&["schema"])?;
        let pairs = options.get("schema").unwrap_or_default().split(',').map(str::trim);
        let types = pairs.filter(|pair| !pair.is_empty()).map(field).collect::<Result<_>>()?;
        Ok(Self { types })
    }
}

fn field(pair: &str) -> Result<(String, (ColumnType, bool))> {
    let parsed = pair.rsplit_once(':').and_then(|(name, kind)| {
        let (kind, nullable) =
            kind.trim().strip_suffix('?').map_or((kind.trim(), false), |kind| (kind.trim_end(), true));
        Some((name.trim().to_owned(), (ColumnType::parse(kind)?, nullable)))
    });
    parsed.ok_or_else(|| {
        let message = format!("`schema`: \"{pair}\" is not NAME:TYPE");
        Error::config(message).hint("types are bool, int64, uint64, float64, text, list<text> (of any of these), json, with ? where values may be missing")
    })
}
