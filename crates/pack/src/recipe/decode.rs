//! Whether encoded fields become columns.

use crate::choice::choice;

/// Which encoded fields become columns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Decode {
    /// All that this build can decode, if the sink stores values by type; else only archives of several arrays, since a
    /// single array is a field already.
    #[default]
    Auto,
    /// None: fields stay encoded.
    Never,
}

choice!(Decode: Auto = "auto", Never = "never");
