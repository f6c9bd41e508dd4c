//! What is damaged in a dataset.

/// One thing that is not as it was.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Damage {
    /// The file.
    pub file: String,
    /// The member of it, where that is known.
    pub member: Option<String>,
    /// What is wrong.
    pub problem: String,
}
