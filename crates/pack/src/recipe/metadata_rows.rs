//! How many rows of the metadata a sample has.

use crate::choice::choice;

/// The rows of the metadata that are of one sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MetadataRows {
    /// One row: the `json` field is its object.
    #[default]
    One,
    /// Any number of rows: the `json` field is the list of their objects, in the order of the table.
    List,
}

choice!(MetadataRows: One = "one", List = "list");
