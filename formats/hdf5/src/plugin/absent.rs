//! A build without the feature `hdf5-plugins` has no plugins.

use packhorse_core::Result;

/// There is none.
pub(crate) enum Plugin {}

impl Plugin {
    pub(crate) fn decode(&self, _: &[u32], _: &[u8], _: &mut [u8]) -> Result<usize> {
        match *self {}
    }

    pub(crate) fn encode(&self, _: &[u32], _: &[u8], _: &mut [u8]) -> Result<usize> {
        match *self {}
    }
}

pub(crate) fn find(_: u16) -> Option<&'static Plugin> {
    None
}

/// What to do about that, to read a file.
pub(crate) fn advice(id: u16) -> String {
    format!("{}, or rewrite the file with h5repack -f GZIP=4", install(id))
}

/// What to do about that, to write one.
pub(crate) fn install(_: u16) -> String {
    "build packhorse with the feature hdf5-plugins".to_owned()
}
