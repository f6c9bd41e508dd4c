//! Reads blocks of rows from an RNTuple. A block never crosses the end of a cluster.

use super::Ntuple;
use super::node::Node;
use super::read::{ClusterReader, Kept};
use crate::file::RootFile;
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use packhorse_core::{Error, Result, Rows, SchemaRef};
use rayon::prelude::*;
use std::ops::Range;

/// The approximate bytes, and the most rows, of a block.
const BLOCK: u64 = 8 << 20;
const ROWS: u64 = 1 << 18;

/// An iterator over the blocks of a range of an RNTuple's entries.
pub(crate) struct NtupleRows<'a> {
    file: &'a RootFile<'a>,
    ntuple: &'a Ntuple,
    columns: &'a [(String, Node)],
    numbers: Vec<usize>,
    schema: &'a SchemaRef,
    next: u64,
    end: u64,
    kept: Kept,
}

impl<'a> NtupleRows<'a> {
    pub(crate) fn new(
        file: &'a RootFile<'a>,
        ntuple: &'a Ntuple,
        columns: &'a [(String, Node)],
        schema: &'a SchemaRef,
        items: Range<u64>,
    ) -> Self {
        let numbers = columns.iter().flat_map(|(_, node)| node.columns()).collect();
        let end = items.end.min(ntuple.entries);
        Self { file, ntuple, columns, numbers, schema, next: items.start, end, kept: Kept::default() }
    }

    /// The next block.
    pub(crate) fn block(&mut self) -> Result<Option<Rows>> {
        if self.next >= self.end {
            return Ok(None);
        }
        let clusters = &self.ntuple.clusters;
        let number = clusters.partition_point(|cluster| cluster.first.saturating_add(cluster.entries) <= self.next);
        let cluster = clusters.get(number).ok_or_else(|| Error::bug("an entry outside all clusters"))?;
        let each = self.ntuple.cluster_bytes(cluster, &self.numbers) / cluster.entries.max(1);
        let rows = (BLOCK / each.max(1)).clamp(1, ROWS);
        let from = self.next - cluster.first;
        let to = from.saturating_add(rows).min(cluster.entries).min(self.end - cluster.first);
        let reader = ClusterReader { file: self.file, ntuple: self.ntuple, cluster, kept: &self.kept };
        let one = |(name, node): &(String, Node)| {
            let array = reader.array(node, from..to, Some(cluster.entries), Some(name.as_str()));
            array.map_err(|e| e.context(format_args!("field {name}")).in_field(name))
        };
        let arrays: Result<Vec<ArrayRef>> = self.columns.par_iter().map(one).collect();
        let count = usize::try_from(to - from).unwrap_or(usize::MAX);
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        let rows = RecordBatch::try_new_with_options(self.schema.clone(), arrays?, &options);
        self.next += to - from;
        rows.map(Some).map_err(|e| Error::bug(e.to_string()))
    }
}
