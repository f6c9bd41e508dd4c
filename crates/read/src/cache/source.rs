//! Where the files of a dataset come from.

use packhorse_core::Store;
use packhorse_dataset::{Digest, Manifest};
use std::path::PathBuf;
use std::sync::Arc;

/// The folder of a dataset in its store, and what tells the dataset from others.
#[derive(Clone)]
pub struct CacheSource {
    /// Where it lies.
    pub store: Arc<dyn Store>,
    /// The folder.
    pub root: PathBuf,
    /// The root digest where there is a manifest, else a digest of the location.
    pub dataset: Digest,
}

impl CacheSource {
    /// The dataset that `manifest` describes.
    pub fn sealed(store: Arc<dyn Store>, root: impl Into<PathBuf>, manifest: &Manifest) -> Self {
        Self { store, root: root.into(), dataset: manifest.root }
    }

    /// Anybody's shards at `location`, which is told from others by that text.
    pub fn foreign(store: Arc<dyn Store>, root: impl Into<PathBuf>, location: &str) -> Self {
        Self { store, root: root.into(), dataset: Digest::of(location.as_bytes()) }
    }
}
