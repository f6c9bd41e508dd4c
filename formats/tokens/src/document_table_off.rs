//! Replaces the table of documents in builds without the feature `documents`.

use crate::lists::Lists;
use arrow_array::StringViewArray;
use packhorse_core::{Error, Outlet, Result};

/// Never created: the option is refused.
pub(crate) enum DocumentTable {}

impl DocumentTable {
    pub(crate) fn create(_: &mut dyn Outlet) -> Result<Self> {
        Err(Error::unsupported("this build has no tables of documents"))
    }

    pub(crate) fn push(&mut self, _: Option<&StringViewArray>, _: &Lists, _: usize) -> Result<()> {
        match *self {}
    }

    pub(crate) fn finish(self) -> Result<()> {
        match self {}
    }
}
