//! The source: probing, and rows.

use crate::options::Wanted;
use crate::table::{Data, Table};
use crate::{ntuple, rows};
use packhorse_core::{Blocks, Input, Limits, Pool, Probe, Result, Source};
use std::ops::Range;

pub(crate) struct RootSource {
    pub(crate) wanted: Wanted,
    pub(crate) limits: Limits,
    /// Memory that one file after the other is read into.
    pub(crate) buffers: Pool,
}

impl RootSource {
    fn open<'a>(&self, input: &'a dyn Input) -> Result<Table<'a>> {
        let table = Table::open(input, &self.wanted, self.limits);
        let table = table.map_err(|e| e.in_input(input.name()))?;
        Ok(Table { file: table.file.with_buffers(&self.buffers), ..table })
    }
}

impl Source for RootSource {
    fn probe(&self, input: &dyn Input) -> Result<Option<Probe>> {
        let table = self.open(input)?;
        let schema = table.schema().map_err(|e| e.in_input(input.name()))?;
        let (items, bytes, omitted) = (table.entries(), table.bytes(), table.omitted);
        Ok(Some(Probe { schema, items, bytes, counted: true, omitted }))
    }

    fn rows<'a>(&'a self, input: &'a dyn Input, items: Range<u64>) -> Result<Blocks<'a>> {
        let table = self.open(input)?;
        let schema = table.schema().map_err(|e| e.in_input(input.name()))?;
        Ok(match table.data {
            Data::Tree(tree, columns) => Box::new(rows::Blocks::new(table.file, tree, columns, schema, items)),
            Data::Ntuple(ntuple, columns) => Box::new(ntuple::Blocks::new(table.file, ntuple, columns, schema, items)),
        })
    }
}
