//! Open inputs: their metadata and their rows. Knows neither formats nor readers.

use crate::{Error, Result, Rows, SchemaRef};
use std::ops::Range;

/// An open input. Its metadata is parsed once, when it is opened or first needed; after that, any number of threads
/// read different ranges of it at once.
pub trait Table: Send + Sync {
    /// Schema and counts. Most formats read headers only; one whose headers don't give the number of samples
    /// reads the whole input. `Unsupported` where the source [lists](crate::Source::lists) fields.
    fn info(&self) -> Result<TableInfo>;

    /// About the bytes of all rows in memory, where the format knows that they may be more than [`TableInfo::bytes`].
    fn decoded_bytes(&self) -> Option<u64> {
        None
    }

    /// Calls `each` with the item at which each sample begins, in order; reads all of the input. Not needed where items
    /// are samples ([`TableInfo::counted`]).
    fn starts(&self, each: &mut dyn FnMut(u64) -> Result<()>) -> Result<()> {
        let _ = each;
        Err(Error::unsupported("its samples can't be counted ahead"))
    }

    /// The samples of the items numbered `items` (past the end: as many as there are), grouped as the format groups
    /// them. Of typed rows the schema is that of [`Table::info`].
    fn rows(&self, items: Range<u64>) -> Result<Blocks<'_>>;
}

/// Schema and counts of an input of typed rows, from its headers.
#[derive(Clone, Debug)]
pub struct TableInfo {
    /// The columns, fields in the order of their names; with [`KEY`](crate::KEY) first where the file
    /// has keys of its own. What the extension types are: [`FieldType`](crate::FieldType).
    pub schema: SchemaRef,
    /// How many items: samples if they are `counted`.
    pub items: u64,
    /// About how many bytes they are, without compression. What they take in memory: [`Table::decoded_bytes`].
    pub bytes: u64,
    /// Whether each item is a sample. If not, items are whatever lets the input be split without reading
    /// it (the bytes of a text file: a document belongs to the range that holds its first byte), ranges of
    /// them hold any number of samples, and the [`KEY`](crate::KEY) of a row is its place in the input.
    pub counted: bool,
    /// Fields of the input that its rows lack, since the source can't read them: reported to the user and recorded with
    /// the dataset. In the order of the input.
    pub omitted: Vec<Omission>,
}

/// A field of an input that its rows lack.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Omission {
    /// Its name in the input: a branch, a dataset, a member of a compound type (`events.name`).
    pub field: String,
    /// Why it can't be read, as a lowercase fragment: its type, or the feature that is missing.
    pub reason: String,
    /// Whether it has no value in the input, and no type: where other inputs have the field, its values here are null.
    pub empty: bool,
}

/// Blocks of rows, each bounded in bytes. An error ends them; but where items are not samples
/// ([`TableInfo::counted`]) an error that may be skipped (`Content`, `Limit`) concerns one sample only, and
/// more blocks may follow it.
pub type Blocks<'a> = Box<dyn Iterator<Item = Result<Rows>> + Send + 'a>;

/// The blocks that `next` gives, up to the first `None` or error; the error names the input `name`.
pub fn blocks<'a>(name: &'a str, mut next: impl FnMut() -> Result<Option<Rows>> + Send + 'a) -> Blocks<'a> {
    let mut done = false;
    Box::new(std::iter::from_fn(move || {
        if done {
            return None;
        }
        let block = next().map_err(|e| e.in_input(name)).transpose();
        done = !matches!(block, Some(Ok(_)));
        block
    }))
}
