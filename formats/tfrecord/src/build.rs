//! Records as rows: the columns of a block, grown a record at a time.

use crate::example::{List, each_feature};
use crate::growing::{Growing, REMEDY, bug};
use crate::layout::Layout;
use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_buffer::Buffer;
use packhorse_core::{Error, Limits, Result, Rows};

/// The names of all features of a layout in order, and which slot is theirs: columns in their order, of
/// each the feature called as itself and then its parts.
pub(crate) struct Names(Vec<(String, usize)>);

impl Names {
    pub(crate) fn of(layout: &Layout) -> Self {
        let mut names = Vec::new();
        for name in layout.0.iter().flat_map(|column| [vec![column.name().to_owned()], column.parts()].concat()) {
            names.push((name, names.len()));
        }
        names.sort();
        Self(names)
    }

    /// The slot of `name`; `guess` is where it probably stands, and then where the next one does.
    fn find(&self, name: &str, guess: &mut usize) -> Option<usize> {
        if self.0.get(*guess).is_none_or(|(n, _)| n != name) {
            *guess = self.0.binary_search_by(|(n, _)| n.as_str().cmp(name)).ok()?;
        }
        let (_, slot) = self.0.get(*guess)?;
        *guess += 1;
        Some(*slot)
    }
}

/// A block of rows that grows.
pub(crate) struct Block<'a> {
    layout: &'a Layout,
    names: &'a Names,
    bytes: &'a Buffer,
    columns: Vec<Growing<'a>>,
    /// What the record at hand holds, by slot.
    found: Vec<Option<List<'a>>>,
    rows: usize,
}

impl<'a> Block<'a> {
    /// No rows yet; blobs and text will be views into `bytes`.
    pub(crate) fn new(layout: &'a Layout, names: &'a Names, bytes: &'a Buffer, limits: Limits) -> Self {
        let columns = layout.0.iter().map(|column| Growing::new(column, bytes, limits)).collect();
        Self { layout, names, bytes, columns, found: vec![None; names.0.len()], rows: 0 }
    }

    /// Adds a record, which lies within the block's bytes.
    pub(crate) fn push(&mut self, record: &'a [u8]) -> Result<()> {
        self.found.fill(None);
        let (names, found) = (self.names, &mut self.found);
        let mut guess = 0;
        each_feature(record, &mut |name, list| {
            let unknown = || Error::content(format!("feature {name} is not in the schema; {REMEDY}"));
            *names.find(name, &mut guess).and_then(|slot| found.get_mut(slot)).ok_or_else(unknown)? = Some(list);
            Ok(())
        })?;
        let mut rest = &self.found[..];
        for growing in &mut self.columns {
            let (lists, others) = rest.split_at(rest.len().min(growing.features()));
            rest = others;
            growing.push(lists, self.bytes).map_err(|e| growing.about(e))?;
        }
        self.rows += 1;
        Ok(())
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// About how many bytes the columns take up, without what blobs and text point to.
    pub(crate) fn size(&self) -> usize {
        self.columns.iter().map(Growing::size).sum()
    }

    pub(crate) fn finish(self) -> Result<Rows> {
        let arrays = self.columns.into_iter().map(Growing::finish).collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        RecordBatch::try_new_with_options(self.layout.schema(), arrays, &options).map_err(bug)
    }
}
