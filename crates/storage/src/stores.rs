//! All places as one store: a path is a local path or a URL.

use crate::location::LocationKind;
use crate::{Local, Location, RemoteOptions};
use packhorse_core::{DirEntry, Error, FileStat, Input, Result, Store, StoreFile};
use std::any::Any;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Opens locations. All stores opened through one value and its clones share connections and the two network threads.
///
/// It is itself a [`Store`]: its paths are locations, such as `/data/x` and `s3://bucket/x`.
///
/// Local files need no network. Buckets (`s3://`, `gs://`, `az://`) and `http(s)://` need the feature `remote`.
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
    /// A web server is read-only: writing calls are `Unsupported`. A remote store is thread-safe and blocks, also when called
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
        let error = Error::unsupported("this build has no access to remote files");
        Err(error.with_code(packhorse_core::Code::NotBuilt).hint("build it with the feature `remote`"))
    }
}

impl Stores {
    /// Calls `call` with the store of `path` and the path within it.
    fn at<T>(&self, path: &Path, call: impl FnOnce(&dyn Store, &Path) -> Result<T>) -> Result<T> {
        match Location::url(path) {
            None => call(&Local, path),
            Some(url) => {
                let location = Location::parse(url)?;
                if location.has_secrets() {
                    let message = "has a user or a query, which paths and plans would show; use the URL without them";
                    return Err(Error::unsupported(message).in_input(location));
                }
                let (store, path) = self.open(&location)?;
                call(&*store, &path)
            }
        }
    }
}

impl Store for Stores {
    fn list(&self, dir: &Path) -> Result<Vec<PathBuf>> {
        self.at(dir, |store, dir| store.list(dir))
    }

    fn entries(&self, dir: &Path) -> Result<Vec<DirEntry>> {
        self.at(dir, |store, dir| store.entries(dir))
    }

    fn stat(&self, path: &Path, follow: bool) -> Result<FileStat> {
        self.at(path, |store, path| store.stat(path, follow))
    }

    fn shown(&self, path: &Path) -> String {
        self.at(path, |store, path| Ok(store.shown(path))).unwrap_or_else(|_| path.display().to_string())
    }

    fn open(&self, path: &Path) -> Result<Box<dyn Input>> {
        self.at(path, |store, path| store.open(path))
    }

    fn read(&self, path: &Path, buf: &mut [u8]) -> Result<Option<FileStat>> {
        self.at(path, |store, path| store.read(path, buf))
    }

    fn create(&self, path: &Path) -> Result<Box<dyn StoreFile>> {
        self.at(path, |store, path| store.create(path))
    }

    fn upload(&self, path: &Path, patchable: bool) -> Result<Option<Box<dyn StoreFile>>> {
        self.at(path, |store, path| store.upload(path, patchable))
    }

    fn abort_uploads(&self, dir: &Path) -> Result<u64> {
        self.at(dir, |store, dir| store.abort_uploads(dir))
    }

    fn sync_file(&self, path: &Path) -> Result<()> {
        self.at(path, |store, path| store.sync_file(path))
    }

    /// Both paths must be of one store.
    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        match (Location::url(from), Location::url(to)) {
            (None, None) => Local.rename(from, to),
            _ => Err(Error::unsupported("can't be renamed: object stores have no renames").in_input(from.display())),
        }
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.at(dir, |store, dir| store.sync_dir(dir))
    }

    fn create_dir(&self, dir: &Path) -> Result<()> {
        self.at(dir, |store, dir| store.create_dir(dir))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.at(path, |store, path| store.remove(path))
    }

    fn remove_dir(&self, dir: &Path) -> Result<()> {
        self.at(dir, |store, dir| store.remove_dir(dir))
    }

    fn lock(&self, dir: &Path) -> Result<Option<Box<dyn Any + Send>>> {
        self.at(dir, |store, dir| store.lock(dir))
    }

    fn beneath(&self, root: &Path) -> Result<Option<Arc<dyn Store>>> {
        self.at(root, |store, root| store.beneath(root))
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
