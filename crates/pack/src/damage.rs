//! Defects of a dataset.

/// One defect of a dataset.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Damage {
    /// The file.
    pub file: String,
    /// The member in the file, if known.
    pub member: Option<String>,
    /// The defect.
    pub problem: String,
}
