//! Reads the columns that views join to samples.

use crate::Dataset;
use crate::dataset::Joined;
use crate::requested_columns::Column;
use crate::sample_block::{DecodedRows, JoinedValues, SampleBlock, same_rows};
use crate::table::Tables;
use packhorse_core::{Error, Result, Rows};
use std::sync::Arc;

/// The requested columns that are joined ones.
pub(crate) struct JoinedColumns {
    /// The tables, and the blocks of each that were read.
    tables: Vec<(Arc<Joined>, Tables)>,
    /// See [`SampleBlock::joined_columns`]; empty if no requested column is joined.
    columns: Vec<Vec<Option<(usize, usize)>>>,
}

impl JoinedColumns {
    /// Those among `columns`, with `bytes` of cached rows.
    pub(crate) fn new(dataset: &Dataset, columns: &[Column], bytes: usize) -> Self {
        if dataset.joined().is_empty() {
            return Self { tables: Vec::new(), columns: Vec::new() };
        }
        let joined = |name: &String| dataset.schema().column_with_name(name).and_then(|_| dataset.joined_column(name));
        let found = |column: &Column| {
            let names: Vec<_> = column.0.iter().map(joined).collect();
            if names.iter().all(Option::is_none) { Vec::new() } else { names }
        };
        let mut columns: Vec<_> = columns.iter().map(found).collect();
        if columns.iter().all(Vec::is_empty) {
            columns.clear();
        }
        let tables = dataset.joined().iter().map(|joined| (Arc::clone(joined), Tables::new(bytes, None))).collect();
        Self { tables, columns }
    }

    /// Whether there are any.
    pub(crate) fn any(&self) -> bool {
        !self.columns.is_empty()
    }

    /// Adds the values of samples, given as shards and positions there, to `out`.
    pub(crate) fn read(&self, samples: &[(u32, u64)], out: &mut SampleBlock) -> Result<()> {
        out.joined_columns.clone_from(&self.columns);
        for (number, (joined, tables)) in self.tables.iter().enumerate() {
            let mut values = JoinedValues::default();
            if self.columns.iter().flatten().flatten().any(|(table, _)| *table == number) {
                let mut last: Option<(u64, usize)> = None;
                for (shard, at) in samples {
                    values.places.push(match joined.row(*shard, *at) {
                        Some(row) => Some(place(joined, tables, row, &mut last, &mut values.pieces)?),
                        None => None,
                    });
                }
            }
            out.joined.push(values);
        }
        Ok(())
    }
}

/// The piece among `pieces` that has a row, and its position there. `last`: a block and its first piece among them.
fn place(
    joined: &Joined,
    tables: &Tables,
    row: u64,
    last: &mut Option<(u64, usize)>,
    pieces: &mut Vec<Rows>,
) -> Result<(usize, usize)> {
    let (number, inside) = Joined::place(row);
    let block = tables.decoded((0, number), || joined.block(number))?;
    let (DecodedRows { rows, .. }, at) =
        block.row(inside).ok_or_else(|| Error::content("lacks rows of joined columns"))?;
    let same = |piece: &Rows| same_rows(piece, rows);
    let known = last
        .filter(|(block, _)| *block == number)
        .and_then(|(_, first)| pieces.get(first..)?.iter().position(same).map(|place| first + place));
    let known = known.or_else(|| pieces.iter().rposition(same));
    let piece = known.unwrap_or_else(|| {
        pieces.push(rows.clone());
        pieces.len() - 1
    });
    *last = Some((number, piece));
    Ok((piece, at))
}
