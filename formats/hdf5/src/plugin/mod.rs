//! Filters that are not built in: libhdf5's plugins, with the feature `hdf5-plugins`.
//!
//! `search` finds them, `library` calls them; `absent` replaces both without the feature.

#[cfg(not(feature = "hdf5-plugins"))]
mod absent;
#[cfg(feature = "hdf5-plugins")]
mod library;
#[cfg(feature = "hdf5-plugins")]
mod search;

#[cfg(not(feature = "hdf5-plugins"))]
pub(crate) use absent::{advice, find, install};
#[cfg(feature = "hdf5-plugins")]
pub(crate) use search::{advice, find, install};
