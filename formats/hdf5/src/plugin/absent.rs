//! Replaces the plugins in builds without the feature `hdf5-plugins`.

use packhorse_core::Result;

/// Never exists in this build.
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

/// What to do if a filter is missing for reading.
pub(crate) fn advice(id: u16) -> String {
    format!("{}, or rewrite the file with h5repack -f GZIP=4", install(id))
}

/// What to do if a filter is missing for writing.
pub(crate) fn install(_: u16) -> String {
    "build packhorse with the feature hdf5-plugins".to_owned()
}
