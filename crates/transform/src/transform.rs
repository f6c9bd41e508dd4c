//! What a transform promises. Owns the trait alone; knows no transform.

use packhorse_core::{Result, Rows, SchemaRef};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How many of what a transform met, by name: `pictures unchanged`.
pub type Counts = BTreeMap<String, u64>;

/// Rows in, rows out. Pure: what comes out depends on the rows and on [`Transform::describe`], not
/// on threads, the machine, or how samples are grouped into blocks.
pub trait Transform: Send + Sync {
    /// Its name, revision and settled options as canonical text, such as
    /// `image/1 resize=256,short quality=90`. It goes into the plan: equal text, equal bytes. The
    /// revision is raised whenever the bytes that come out change.
    fn describe(&self) -> String;

    /// The schema of what comes out for rows of schema `input`; a `Config` error that names the field
    /// if such rows can't be taken.
    fn schema(&self, input: &SchemaRef) -> Result<SchemaRef>;

    /// Transforms `rows`: as many come out as went in, in the same order. Fails on the first sample
    /// that can't be transformed, with a `Content` error (`Limit` where a limit is at fault) that
    /// names it.
    fn apply(&self, rows: Rows) -> Result<Rows>;

    /// [`Transform::apply`], which adds to `counts` what is worth telling of these rows. What it adds before an error is
    /// anything.
    fn apply_counted(&self, rows: Rows, counts: &mut Counts) -> Result<Rows> {
        let _ = counts;
        self.apply(rows)
    }

    /// A field that is a sample's only one is best read behind so many bytes, under 64, of memory that is
    /// aligned for any element: then less must be copied. A hint that what comes out never depends on.
    fn lead(&self) -> usize {
        0
    }

    /// Files that whoever makes this transform again from its description needs (a tokenizer): names
    /// and bytes. They are kept in the dataset's folder.
    fn files(&self) -> Vec<(String, Arc<[u8]>)> {
        Vec::new()
    }

    /// Expected bytes out for each byte in, for cutting shards by size before anything is read.
    fn factor(&self) -> f64;
}
