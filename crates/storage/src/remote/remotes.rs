//! The stores of buckets and web servers, each created once.

use super::bucket::Bucket;
use super::link::Link;
use super::object::Backend;
use super::store::RemoteStore;
use crate::RemoteOptions;
use crate::location::{BucketName, LocationKind, Site};
use packhorse_core::{Error, Result, Store};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// Creates and caches remote stores.
#[derive(Default)]
pub(crate) struct Remotes(Mutex<Made>);

#[derive(Default)]
struct Made {
    link: Option<Arc<Link>>,
    stores: HashMap<Key, Arc<RemoteStore>>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
enum Key {
    Bucket(BucketName),
    Site(Site),
}

impl Remotes {
    pub(crate) fn open(&self, place: &LocationKind, options: &RemoteOptions) -> Result<(Arc<dyn Store>, PathBuf)> {
        let (key, path) = match place {
            LocationKind::Path(path) => return Err(Error::bug(format!("{} is not remote", path.display()))),
            LocationKind::Object { bucket, key } => (Key::Bucket(bucket.clone()), key),
            LocationKind::Web { site, path } => (Key::Site(site.clone()), path),
        };
        let mut made = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let link = match &made.link {
            Some(link) => link.clone(),
            None => made.link.insert(Arc::new(Link::new(options)?)).clone(),
        };
        let store = match made.stores.get(&key) {
            Some(store) => store.clone(),
            None => {
                let backend = match &key {
                    Key::Bucket(bucket) => Backend::Bucket(Bucket::new(bucket, &link.wire, options)?),
                    Key::Site(site) => Backend::Web(site.clone()),
                };
                let store = Arc::new(RemoteStore { link, backend: Arc::new(backend) });
                made.stores.insert(key, store.clone());
                store
            }
        };
        Ok((store, path.into()))
    }
}
