//! Reports the column type of each branch, or why it can't be read.

use packhorse_core::{FieldType, Omission};

/// The report on a branch, a leaf of a branch, or a field of an RNTuple.
#[derive(Clone, Debug)]
pub struct BranchReport {
    /// The field name: the names of the parent branches and of the branch, joined by dots.
    pub name: String,
    /// The C++ type, as far as the file describes it.
    pub type_name: String,
    /// The column type, or why the branch can't be read.
    pub holds: Result<FieldType, String>,
}

impl BranchReport {
    /// The omission, if the branch can't be read.
    pub(crate) fn omission(&self) -> Option<Omission> {
        let reason = self.holds.as_ref().err()?;
        let reason = match self.type_name.is_empty() || reason.contains(&self.type_name) {
            true => reason.clone(),
            false => format!("{reason} (of type {})", self.type_name),
        };
        Some(Omission { field: self.name.clone(), reason, empty: false })
    }
}
