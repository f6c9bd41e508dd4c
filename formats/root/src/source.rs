//! The source: opens tables, and lists the trees of a file.

use crate::compression::Coders;
use crate::file::{Item, RootFile};
use crate::ntuple::NtupleRows;
use crate::options::Wanted;
use crate::rows::TreeRows;
use crate::table::{self, Data, RootTable};
use packhorse_core::{
    Blocks, Error, Input, InputTable, Kind, Limits, Pool, Result, SchemaRef, Source, Table, TableInfo, blocks,
};
use std::ops::Range;
use std::sync::Arc;

pub(crate) struct RootSource {
    pub(crate) wanted: Wanted,
    pub(crate) limits: Limits,
    /// Memory and decompressors, reused from file to file.
    pub(crate) buffers: Pool,
    pub(crate) coders: Arc<Coders>,
}

impl Source for RootSource {
    fn open<'a>(&self, input: Arc<dyn Input + 'a>) -> Result<Box<dyn Table + 'a>> {
        let open = || {
            let table = RootTable::open(Arc::clone(&input), &self.wanted, self.limits)?;
            let schema = table.schema()?;
            let file = input.len().unwrap_or(u64::MAX);
            self.wanted.expansion.check(table.entries(), table.bytes(), file, "branches")?;
            let table = RootTable { file: table.file.with(&self.buffers, &self.coders), ..table };
            Ok(Open { table, schema })
        };
        Ok(Box::new(open().map_err(|e: Error| e.in_input(input.name()))?))
    }

    fn tables(&self, input: &dyn Input) -> Result<Vec<InputTable>> {
        let listed = RootFile::open(Arc::new(input), self.limits).and_then(|file| table::tables(&file));
        let mut items = listed.map_err(|e| e.in_input(input.name()))?;
        // Of several cycles of a tree, the highest comes first; it is what the name refers to.
        items.dedup_by(|later, first| later.path == first.path);
        let one = |item: &Item| {
            let wanted = self.wanted.of_tree(format!("{};{}", item.path, item.key.cycle));
            let table = RootTable::open(Arc::new(input), &wanted, self.limits)?;
            let refused = match table.schema() {
                Ok(_) => None,
                Err(e) if e.kind() == Kind::Unsupported => Some(e.text().into_owned()),
                Err(e) => return Err(e),
            };
            Ok(InputTable { name: item.path.clone(), items: table.entries(), refused })
        };
        items.iter().map(one).collect::<Result<_>>().map_err(|e| e.in_input(input.name()))
    }
}

/// An open tree.
struct Open<'a> {
    table: RootTable<'a>,
    schema: SchemaRef,
}

impl Table for Open<'_> {
    fn info(&self) -> Result<TableInfo> {
        let (schema, omitted) = (Arc::clone(&self.schema), self.table.omitted.clone());
        Ok(TableInfo { schema, items: self.table.entries(), bytes: self.table.bytes(), counted: true, omitted })
    }

    fn rows(&self, items: Range<u64>) -> Result<Blocks<'_>> {
        let (file, schema) = (&self.table.file, &self.schema);
        let name = file.input().name();
        Ok(match &self.table.data {
            Data::Tree(tree, columns) => {
                let mut rows = TreeRows::new(file, tree, columns, schema, items);
                blocks(name, move || rows.block())
            }
            Data::Ntuple(ntuple, columns) => {
                let mut rows = NtupleRows::new(file, ntuple, columns, schema, items);
                blocks(name, move || rows.block())
            }
        })
    }
}
