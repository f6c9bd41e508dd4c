//! Whether encoded fields become columns.

use crate::choice::choice;

/// Which encoded fields become columns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Decode {
    /// All that this build can decode, if the sink stores values by type; else only files of several arrays, since a
    /// single array is a field already, and members of tars go to other tars as they are.
    #[default]
    Auto,
    /// Members of several arrays, too.
    Always,
    /// None: fields stay encoded.
    Never,
}

choice!(Decode: Auto = "auto", Always = "always", Never = "never");
