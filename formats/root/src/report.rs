//! What becomes of each branch, for those who want to know before they convert.

use packhorse_core::{FieldType, Omission};

/// A branch (or a leaf of one, or a field of an RNTuple), and what becomes of it.
#[derive(Clone, Debug)]
pub struct BranchReport {
    /// The name of the field: the branch's own, with those of the branches around it and dots between.
    pub name: String,
    /// The C++ type, as far as the file says it.
    pub type_name: String,
    /// What the column holds, or why there is none.
    pub holds: Result<FieldType, String>,
}

impl BranchReport {
    /// What the rows lack by it, if it is left out.
    pub(crate) fn omission(&self) -> Option<Omission> {
        let reason = self.holds.as_ref().err()?;
        let reason = match self.type_name.is_empty() || reason.contains(&self.type_name) {
            true => reason.clone(),
            false => format!("{reason} (of type {})", self.type_name),
        };
        Some(Omission { field: self.name.clone(), reason })
    }
}
