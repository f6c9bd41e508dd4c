//! Which store a location is read through.

use crate::location::Place;
use crate::{Local, Location, RemoteOptions};
use packhorse_core::{Result, Store};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// Opens locations. All that are opened through one of it, and through its clones, share connections and the two threads
/// that serve them.
///
/// Files of this machine need neither. `s3://` and `http(s)://` need the feature `remote`.
#[derive(Clone, Default)]
pub struct Stores(Arc<Inner>);

#[derive(Default)]
struct Inner {
    options: RemoteOptions,
    #[cfg(feature = "remote")]
    remotes: crate::remote::Remotes,
}

impl Stores {
    /// With these options for what is remote.
    pub fn new(options: RemoteOptions) -> Self {
        Self(Arc::new(Inner {
            options,
            #[cfg(feature = "remote")]
            remotes: crate::remote::Remotes::default(),
        }))
    }

    /// How remote files are read.
    pub fn options(&self) -> &RemoteOptions {
        &self.0.options
    }

    /// The store through which `location` is read, and the path it has there: a folder or a file, nothing is asked yet.
    ///
    /// A remote store reads: calls that would write are `Unsupported`. It may be called by many threads at once, also from
    /// asynchronous code, where it blocks. Its threads do not survive a `fork`: open after it.
    ///
    /// Errors: `Unsupported` without the feature `remote`, for what is remote; `Config` for settings that
    /// make no sense.
    pub fn open(&self, location: &Location) -> Result<(Arc<dyn Store>, PathBuf)> {
        match location.place() {
            Place::Path(path) => Ok((Arc::new(Local), path.clone())),
            place => self.remote(place).map_err(|error| error.in_input(location)),
        }
    }

    #[cfg(feature = "remote")]
    fn remote(&self, place: &Place) -> Result<(Arc<dyn Store>, PathBuf)> {
        self.0.remotes.open(place, &self.0.options)
    }

    #[cfg(not(feature = "remote"))]
    fn remote(&self, _: &Place) -> Result<(Arc<dyn Store>, PathBuf)> {
        Err(packhorse_core::Error::unsupported(
            "this packhorse reads no network: build it with the feature `remote` (cargo install packhorse --features remote)",
        ))
    }
}

impl fmt::Debug for Stores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stores").field("options", &self.0.options).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_this_machine_are_read_by_either_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a b");
        std::fs::write(&path, b"12345").unwrap();
        for text in [path.display().to_string(), format!("file://{}", path.display()).replace(' ', "%20")] {
            let (store, path) = Location::parse(&text).unwrap().open().unwrap();
            assert_eq!(store.open(&path).unwrap().len(), Some(5));
        }
    }

    #[cfg(not(feature = "remote"))]
    #[test]
    fn the_error_says_which_feature_is_missing() {
        for text in ["s3://bucket/x", "http://host/x"] {
            let error = Location::parse(text).unwrap().open().map(|_| ()).unwrap_err();
            assert_eq!(error.kind(), packhorse_core::Kind::Unsupported);
            assert!(error.to_string().starts_with(text) && error.to_string().contains("--features remote"), "{error}");
        }
    }
}
