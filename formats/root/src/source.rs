//! The source: probing, and rows.

use crate::options::Wanted;
use crate::rows::Blocks;
use crate::table::Table;
use packhorse_core::{Input, Limits, Probe, Result, Source};
use std::ops::Range;

pub(crate) struct RootSource {
    pub(crate) wanted: Wanted,
    pub(crate) limits: Limits,
}

impl RootSource {
    fn open<'a>(&self, input: &'a dyn Input) -> Result<Table<'a>> {
        let table = Table::open(input, &self.wanted, self.limits);
        table.map_err(|e| e.in_input(input.name()))
    }
}

impl Source for RootSource {
    fn probe(&self, input: &dyn Input) -> Result<Option<Probe>> {
        let table = self.open(input)?;
        Ok(Some(Probe { schema: table.schema(), items: table.tree.entries, bytes: table.bytes() }))
    }

    fn rows<'a>(&'a self, input: &'a dyn Input, items: Range<u64>) -> Result<packhorse_core::Blocks<'a>> {
        let table = self.open(input)?;
        let schema = table.schema();
        Ok(Box::new(Blocks::new(table.file, table.tree, table.columns, schema, items)))
    }
}
