//! A build without tables of documents.

use crate::column::Lists;
use arrow_array::StringViewArray;
use packhorse_core::{Error, Outlet, Result};

/// Never made: the option that asks for it is refused.
pub(crate) enum Companion {}

impl Companion {
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
