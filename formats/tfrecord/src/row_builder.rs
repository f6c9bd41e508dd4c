//! Builds the rows of a block, record by record.

use crate::example::{FeatureValue, each_feature, each_step};
use crate::feature_builder::{FeatureBuilder, REMEDY, bug};
use crate::layout::FeatureLayout;
use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_buffer::Buffer;
use packhorse_core::{Error, Limits, Result, Rows};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The sorted names of all features of a layout, with their slots. Slots are in column order: for each column the main
/// feature, then its parts.
pub(crate) struct FeatureNames {
    names: Vec<(String, usize)>,
    /// Those that are passed over.
    unread: Arc<BTreeSet<String>>,
}

impl FeatureNames {
    pub(crate) fn of(layout: &FeatureLayout, unread: &Arc<BTreeSet<String>>) -> Self {
        let mut names = Vec::new();
        for name in layout.0.iter().flat_map(|column| [vec![column.name().to_owned()], column.parts()].concat()) {
            names.push((name, names.len()));
        }
        names.sort();
        Self { names, unread: Arc::clone(unread) }
    }

    /// The slot of `name`. `guess` is its likely position, and is moved to that of the next feature.
    fn find(&self, name: &str, guess: &mut usize) -> Option<usize> {
        if self.names.get(*guess).is_none_or(|(n, _)| n != name) {
            *guess = self.names.binary_search_by(|(n, _)| n.as_str().cmp(name)).ok()?;
        }
        let (_, slot) = self.names.get(*guess)?;
        *guess += 1;
        Some(*slot)
    }
}

/// Whether these are steps of which none has a list.
fn lacks_lists(values: FeatureValue<'_>) -> Result<bool> {
    let FeatureValue::Steps(body) = values else { return Ok(false) };
    let mut lacks = true;
    each_step(body, |list| {
        lacks &= list.is_none();
        Ok(())
    })?;
    Ok(lacks)
}

/// A block of rows being built.
pub(crate) struct RowBuilder<'a> {
    layout: &'a FeatureLayout,
    names: &'a FeatureNames,
    bytes: &'a Buffer,
    columns: Vec<FeatureBuilder<'a>>,
    /// The values of the current record, by slot.
    found: Vec<Option<FeatureValue<'a>>>,
    rows: usize,
}

impl<'a> RowBuilder<'a> {
    /// An empty block; blobs and text will be views into `bytes`.
    pub(crate) fn new(layout: &'a FeatureLayout, names: &'a FeatureNames, bytes: &'a Buffer, limits: Limits) -> Self {
        let columns = layout.0.iter().map(|column| FeatureBuilder::new(column, bytes, limits)).collect();
        Self { layout, names, bytes, columns, found: vec![None; names.names.len()], rows: 0 }
    }

    /// Adds a record, which must lie within the block's bytes.
    pub(crate) fn push(&mut self, record: &'a [u8]) -> Result<()> {
        self.found.fill(None);
        let (names, found) = (self.names, &mut self.found);
        let mut guess = 0;
        each_feature(record, &mut |name, values| {
            if names.unread.contains(name) {
                return Ok(());
            }
            match names.find(name, &mut guess).and_then(|slot| found.get_mut(slot)) {
                Some(slot) => *slot = Some(values),
                // Nothing told its type.
                None if lacks_lists(values)? => {}
                None => return Err(Error::content(format!("feature {name} is not in the schema; {REMEDY}"))),
            }
            Ok(())
        })?;
        let mut rest = &self.found[..];
        for builder in &mut self.columns {
            let (values, others) = rest.split_at(rest.len().min(builder.features()));
            rest = others;
            builder.push(values, self.bytes).map_err(|e| builder.about(e))?;
        }
        self.rows += 1;
        Ok(())
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// The approximate size of the columns in bytes, without the data of views.
    pub(crate) fn size(&self) -> usize {
        self.columns.iter().map(FeatureBuilder::size).sum()
    }

    pub(crate) fn finish(self) -> Result<Rows> {
        let arrays = self.columns.into_iter().map(FeatureBuilder::finish).collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        RecordBatch::try_new_with_options(self.layout.schema(), arrays, &options).map_err(bug)
    }
}
