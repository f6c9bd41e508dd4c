//! Reading runs: consecutive samples of an input of typed rows, block by block.

use crate::feed::{Assembly, Block};
use crate::plan::LABEL;
use crate::steps::assembled;
use arrow_array::{ArrayRef, Int64Array, StringViewArray};
use packhorse_core::{Error, Field, FieldType, Input, KEY, Options, Result, Rows, key_column};
use packhorse_dataset::{Entry, Piece, SkipRecord};
use std::ops::Range;
use std::sync::Arc;

impl Assembly<'_> {
    /// Reads the samples of `entry`, transforms them, and hands them over in order, a block at a time.
    pub(crate) fn run(&self, entry: Entry, each: &mut dyn FnMut(Block) -> Result<()>) -> Result<()> {
        let Some((piece, items)) = entry.run() else { return Err(Error::bug("no run of samples")) };
        let opened = self.inputs.table(piece)?;
        let path = self.inputs.path(piece);
        let mut at = items.start;
        let done = self.blocks(opened.input()?, piece, items.clone(), &mut |rows| {
            self.inputs.check_cancel()?;
            let samples = rows.num_rows() as u64;
            let rows = named(rows, &entry, at)?;
            let mut block = Block::of(samples, share(piece, samples), vec![entry.clone()]);
            self.transform(rows, &mut block)?;
            at += samples;
            each(block)
        });
        match done {
            Ok(()) if at == items.end => Ok(()),
            Ok(()) => Err(Error::new(
                packhorse_core::Kind::Changed,
                format!("gave {} samples of the {} planned; plan again into a new folder", at, items.end),
            )
            .in_input(path.display())),
            Err(e) if self.skips(&e) => {
                // What comes before the fault is packed; where the next good sample starts is not known.
                let lost = items.end - at;
                let mut block = Block::of(lost, share(piece, lost), Vec::new());
                let reason = format!("{} (so samples {at} to {} are left out)", e.message(), items.end - 1);
                block.skipped.push(SkipRecord {
                    input: Some(piece.path.clone()),
                    sample: Some(key(&entry, at)),
                    reason,
                    samples: lost,
                });
                each(block)
            }
            Err(e) => Err(if e.input().is_none() { e.in_input(path.display()) } else { e }),
        }
    }

    fn blocks(
        &self,
        input: &dyn Input,
        piece: &Piece,
        items: Range<u64>,
        each: &mut dyn FnMut(Rows) -> Result<()>,
    ) -> Result<()> {
        let none = Options::new();
        let options = self.sources.get(&piece.field).unwrap_or(&none);
        let source = self.registry.get(&piece.field)?.source(options, self.limits)?;
        for rows in source.rows(input, items)? {
            each(rows?)?;
        }
        Ok(())
    }
}

fn share(piece: &Piece, samples: u64) -> u64 {
    let (from, to, bytes) = piece.items.unwrap_or((0, 1, 0));
    (bytes as f64 * samples as f64 / (to - from).max(1) as f64) as u64
}

/// The key of sample `item` of a run.
fn key(entry: &Entry, item: u64) -> String {
    format!("{}/{item:09}", entry.key)
}

/// Rows with a key, and with the label and the metadata that the plan has for the run.
fn named(rows: Rows, entry: &Entry, first: u64) -> Result<Rows> {
    let n = rows.num_rows();
    let schema = rows.schema();
    let mut columns: Vec<(Field, ArrayRef)> =
        schema.fields().iter().map(|f| f.as_ref().clone()).zip(rows.columns().to_vec()).collect();
    if key_column(&rows).is_err() {
        let keys = StringViewArray::from_iter_values((0..n as u64).map(|i| key(entry, first + i)));
        columns.push((FieldType::Text.field(KEY, false), Arc::new(keys)));
    }
    if let Some(label) = entry.cls {
        columns.push((Field::new("cls", LABEL, false), Arc::new(Int64Array::from_value(i64::from(label), n))));
    }
    if let Some(json) = &entry.json {
        let rows = StringViewArray::from_iter_values(std::iter::repeat_n(json.get(), n));
        columns.push((FieldType::Text.field("json", false), Arc::new(rows)));
    }
    assembled(columns)
}
