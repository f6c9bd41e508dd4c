//! What becomes of each branch, for those who want to know before they convert.

use packhorse_core::FieldType;

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
