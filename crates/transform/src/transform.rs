//! The trait of all transforms.

use crate::casts::Casts;
use packhorse_core::{Result, Rows, SchemaRef};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Event counts by name, such as `pictures unchanged`.
pub type Counts = BTreeMap<String, u64>;

/// Rows in, rows out. Pure: the output depends on the rows and on [`Transform::describe`] only, not on threads, the
/// machine, or the grouping of samples into batches.
pub trait Transform: Send + Sync {
    /// Name, revision and resolved options as canonical text, such as `image/1 resize=256,short quality=90`. It is
    /// part of the plan: equal text means equal output bytes. Increment the revision whenever the output changes.
    fn describe(&self) -> String;

    /// The output schema for rows of schema `input`; a `Config` error that names the field if such rows are
    /// unsupported.
    fn schema(&self, input: &SchemaRef) -> Result<SchemaRef>;

    /// The name that a field of the inputs has afterwards; `None` for one that is left out.
    fn name_of(&self, field: &str) -> Option<String> {
        Some(field.to_owned())
    }

    /// The field of rows of schema `input` that alone decides the output; `None` where several do.
    fn only_source(&self, _input: &SchemaRef) -> Option<String> {
        None
    }

    /// What to tell users of rows of schema `input`, which are supported but may not be what they meant.
    fn remark(&self, input: &SchemaRef) -> Option<String> {
        let _ = input;
        None
    }

    /// Transforms `rows`: one row out per row in, in order. Stops at the first sample that fails, with a `Content`
    /// error (`Limit` for an exceeded limit) that names it.
    fn apply(&self, rows: Rows) -> Result<Rows>;

    /// The name under which samples that it finds bad are counted; `None` if they are not.
    fn count_of_bad(&self) -> Option<&'static str> {
        None
    }

    /// Like [`Transform::apply`]; also adds statistics to `counts`, which are undefined after an error.
    fn apply_counted(&self, rows: Rows, counts: &mut Counts) -> Result<Rows> {
        let _ = counts;
        self.apply(rows)
    }

    /// A hint for the memory layout: a field that is a sample's only one is best read at this many bytes (under 64)
    /// past an aligned address, which saves a copy. Never affects the output.
    fn alignment_padding(&self) -> usize {
        0
    }

    /// Names and bytes of files needed to rebuild this transform from its description (a tokenizer). They are stored
    /// in the dataset's folder.
    fn files(&self) -> Vec<(String, Arc<[u8]>)> {
        Vec::new()
    }

    /// The element types that it gives to fields, and the fields that it leaves out: columns whose types differ from input to input
    /// are cast on their way to it, and those that are left out need not be read.
    fn casts(&self) -> Option<&Casts> {
        None
    }

    /// Estimated output bytes per input byte, for sizing shards before anything is read.
    fn factor(&self) -> f64 {
        1.0
    }
}

/// The casts of `transforms`; none if they cast nothing.
pub fn casts_of(transforms: &[Box<dyn Transform>]) -> Casts {
    transforms.iter().find_map(|transform| transform.casts()).cloned().unwrap_or_default()
}
