//! An encoded field (`.npz`, `.npy`) that becomes columns.

use crate::merged_columns::MergedColumns;

/// An encoded field and its columns.
#[derive(Debug)]
pub(crate) struct Decoded {
    /// The name of the format that decodes it.
    pub(crate) format: &'static str,
    /// The columns, over all samples.
    pub(crate) columns: MergedColumns,
}
