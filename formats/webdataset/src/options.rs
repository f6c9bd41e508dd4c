//! The sink's settings.

use crate::{energon, wids};
use packhorse_core::{Options, Outlet, Result, Sealed};

/// The indexes for other readers that are written with the shards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Indexes {
    pub(crate) wids: bool,
    pub(crate) md5: bool,
    pub(crate) dali: bool,
    pub(crate) energon: bool,
}

impl Indexes {
    /// Parses the option `index`, a list of `wids`, `wids:md5`, `dali`, `energon`; or `none`.
    pub(crate) fn parse(options: &Options) -> Result<Self> {
        options.only(&["index"])?;
        let mut indexes = Self::default();
        for name in options.get("index").unwrap_or("wids").split(',').filter(|name| !name.is_empty()) {
            match name.trim() {
                "none" => {}
                "wids" => indexes.wids = true,
                "wids:md5" => (indexes.wids, indexes.md5) = (true, true),
                "dali" => indexes.dali = true,
                "energon" => indexes.energon = true,
                other => {
                    let known = "wids, wids:md5, dali, energon, none";
                    return Err(Options::refuse("index", format_args!("\"{other}\" is not one of {known}")));
                }
            }
        }
        Ok(indexes)
    }

    /// Writes the indexes of the whole dataset.
    pub(crate) fn seal(self, dataset: &Sealed<'_>, out: &mut dyn Outlet) -> Result<()> {
        if self.wids {
            wids::seal(dataset, out)?;
        }
        if self.energon {
            energon::seal(dataset, out)?;
        }
        Ok(())
    }
}
