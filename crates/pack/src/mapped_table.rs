//! A table whose blocks are changed on their way.

use packhorse_core::{Blocks, Result, Rows, SchemaRef, Table, TableInfo};
use std::ops::Range;
use std::sync::Arc;

/// Makes other rows of rows, the first of which is the item with this number.
pub(crate) type RowMap<'a> = Box<dyn Fn(Rows, u64) -> Result<Rows> + Send + Sync + 'a>;

/// The rows of `inner`, as many, with the columns of `schema`, which `map` makes of theirs.
pub(crate) struct MappedTable<'a> {
    pub(crate) inner: Box<dyn Table + 'a>,
    pub(crate) schema: SchemaRef,
    pub(crate) map: RowMap<'a>,
}

impl Table for MappedTable<'_> {
    fn info(&self) -> Result<TableInfo> {
        Ok(TableInfo { schema: Arc::clone(&self.schema), ..self.inner.info()? })
    }

    fn decoded_bytes(&self) -> Option<u64> {
        self.inner.decoded_bytes()
    }

    fn starts(&self, each: &mut dyn FnMut(u64) -> Result<()>) -> Result<()> {
        self.inner.starts(each)
    }

    fn rows(&self, items: Range<u64>) -> Result<Blocks<'_>> {
        let mut first = items.start;
        let mut mapped = move |rows: Rows| {
            let number = first;
            first += rows.num_rows() as u64;
            (self.map)(rows, number)
        };
        Ok(Box::new(self.inner.rows(items)?.map(move |rows| rows.and_then(&mut mapped))))
    }
}
