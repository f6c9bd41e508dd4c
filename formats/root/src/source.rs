//! The source: probing, and rows.

use crate::file::{Item, RootFile};
use crate::options::Wanted;
use crate::table::{self, Data, Table};
use crate::{ntuple, rows};
use packhorse_core::{Blocks, Input, InputTable, Kind, Limits, Pool, Probe, Result, Source};
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
    fn tables(&self, input: &dyn Input) -> Result<Vec<InputTable>> {
        let listed = RootFile::open(input, self.limits).and_then(|file| table::tables(&file));
        let mut items = listed.map_err(|e| e.in_input(input.name()))?;
        // Of a tree with several cycles the highest comes first, and is meant by the name.
        items.dedup_by(|later, first| later.path == first.path);
        let one = |item: &Item| {
            let wanted = Wanted::tree(format!("{};{}", item.path, item.key.cycle));
            let table = Table::open(input, &wanted, self.limits)?;
            let refused = match table.schema() {
                Ok(_) => None,
                Err(e) if e.kind() == Kind::Unsupported => Some(e.text().into_owned()),
                Err(e) => return Err(e),
            };
            Ok(InputTable { name: item.path.clone(), items: table.entries(), refused })
        };
        items.iter().map(one).collect::<Result<_>>().map_err(|e| e.in_input(input.name()))
    }

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
