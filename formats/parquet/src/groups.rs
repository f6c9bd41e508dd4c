//! Writes a shard group by group; shared by the Parquet and the Arrow sink.

use crate::cut::{GroupCutter, GroupLimit, MOST, Then};
use crate::huggingface::{KEY_OF_FEATURES, classes, features};
use crate::note::{KEY_OF_NOTE, Note};
use crate::stored_schema::{StoredSchema, Style};
use packhorse_core::{Error, Kind, Result, Rows, Schema, SchemaRef, ShardSummary, ShardWriter};
use std::sync::Arc;

/// The buffer of a file: small columns are written and hashed together.
pub(crate) const BUFFER: usize = 256 << 10;

/// Refuses a schema that can't be written.
pub(crate) fn accept(schema: &Schema, style: Style) -> Result<()> {
    StoredSchema::new(schema, style)?;
    classes(schema).map(drop)
}

/// Refuses a field larger than a column holds.
pub(crate) fn admit(field: &str, bytes: u64) -> Result<()> {
    match bytes <= MOST {
        true => Ok(()),
        false => Err(Error::new(
            Kind::Content,
            format!(
                "field {field} has {bytes} bytes, over the limit of {MOST} for a value of a column; pack it as webdataset"
            ),
        )),
    }
}

/// The entries of the file's metadata besides Arrow's schema.
pub(crate) fn notes(schema: &Schema, stored: &StoredSchema) -> Result<[(String, String); 2]> {
    let features = (KEY_OF_FEATURES.to_owned(), features(schema, stored)?);
    Ok([features, (KEY_OF_NOTE.to_owned(), Note::write(schema)?)])
}

/// A file of row groups or record batches.
pub(crate) trait Groups: Send {
    /// Writes a piece of a group, the last one of it or not.
    fn write(&mut self, rows: &Rows, then: Then) -> Result<()>;

    /// Ends the file; returns its length in bytes.
    fn end(&mut self) -> Result<u64>;
}

/// Cuts the rows of a shard into groups.
pub(crate) struct GroupWriter<G> {
    groups: G,
    cutter: GroupCutter,
    samples: u64,
}

impl<G: Groups> GroupWriter<G> {
    /// Writes rows of `schema` in groups of at most `full`.
    pub(crate) fn new(groups: G, schema: &SchemaRef, full: GroupLimit) -> Self {
        Self { groups, cutter: GroupCutter::new(full, Arc::clone(schema)), samples: 0 }
    }
}

impl<G: Groups> ShardWriter for GroupWriter<G> {
    fn push(&mut self, rows: &Rows) -> Result<()> {
        self.samples += rows.num_rows() as u64;
        self.cutter.push(rows, |piece, then| self.groups.write(&piece, then))
    }

    fn finish(mut self: Box<Self>) -> Result<ShardSummary> {
        let Self { groups, cutter, samples } = &mut *self;
        cutter.flush(Then::End, &mut |piece, then| groups.write(&piece, then))?;
        Ok(ShardSummary { samples: *samples, bytes: groups.end()?, ..ShardSummary::default() })
    }
}
