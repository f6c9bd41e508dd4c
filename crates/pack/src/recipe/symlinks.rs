//! How symbolic links are handled.

use crate::choice::choice;

/// What to do with symbolic links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Symlinks {
    /// Take their targets. A link to a folder above it is not entered.
    #[default]
    Follow,
    /// Leave them out.
    Skip,
}

choice!(Symlinks: Follow = "follow", Skip = "skip");
