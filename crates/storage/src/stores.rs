//! Opens the right store for a location.

use crate::location::LocationKind;
use crate::{Local, Location, RemoteOptions};
use packhorse_core::{Result, Store};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// Opens locations. All stores opened through one value and its clones share connections and the two network threads.
///
/// Local files need neither. `s3://` and `http(s)://` need the feature `remote`.
#[derive(Clone, Default)]
pub struct Stores(Arc<Inner>);

#[derive(Default)]
struct Inner {
    options: RemoteOptions,
    #[cfg(feature = "remote")]
    remotes: crate::remote::Remotes,
}

impl Stores {
    /// With these options for remote stores.
    pub fn new(options: RemoteOptions) -> Self {
        Self(Arc::new(Inner {
            options,
            #[cfg(feature = "remote")]
            remotes: crate::remote::Remotes::default(),
        }))
    }

    /// The store for `location` and the path within it, a file or a folder. Sends no request yet.
    ///
    /// A remote store is read-only: writing calls are `Unsupported`. It is thread-safe and blocks, also when called
    /// from asynchronous code. Its threads do not survive a `fork`: open it afterwards.
    ///
    /// Errors: `Unsupported` for remote locations without the feature `remote`; `Config` for invalid settings.
    pub fn open(&self, location: &Location) -> Result<(Arc<dyn Store>, PathBuf)> {
        match location.place() {
            LocationKind::Path(path) => Ok((Arc::new(Local), path.clone())),
            place => self.remote(place).map_err(|error| error.in_input(location)),
        }
    }

    #[cfg(feature = "remote")]
    fn remote(&self, place: &LocationKind) -> Result<(Arc<dyn Store>, PathBuf)> {
        self.0.remotes.open(place, &self.0.options)
    }

    #[cfg(not(feature = "remote"))]
    fn remote(&self, _: &LocationKind) -> Result<(Arc<dyn Store>, PathBuf)> {
        let error = packhorse_core::Error::unsupported("this build reads no remote files");
        Err(error.with_code(packhorse_core::Code::NotBuilt).hint("build it with the feature `remote`"))
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
    fn local_files_open_by_path_and_by_url() {
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
            assert!(
                error.to_string().starts_with(text) && error.to_string().contains("the feature `remote`"),
                "{error}"
            );
        }
    }
}
