//! A bucket or web server as a [`Store`]. Web servers are read-only.

use super::bucket::ListPage;
use super::input::RemoteFile;
use super::link::Link;
use super::object::{Backend, QueryResult, RemoteObject};
use super::upload::Upload;
use super::version::{Version, folder};
use packhorse_core::{DirEntry, Error, FileStat, Input, Kind, Result, Store, StoreFile};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Remote files. A path is a key, or the decoded path of a URL.
pub(crate) struct RemoteStore {
    pub(crate) link: Arc<Link>,
    pub(crate) backend: Arc<Backend>,
}

impl RemoteStore {
    fn object(&self, path: &Path) -> Result<RemoteObject> {
        let key = path.to_str().ok_or_else(|| {
            Error::unsupported("can't be read over a network: its name is not UTF-8").in_input(path.display())
        })?;
        Ok(RemoteObject {
            backend: self.backend.clone(),
            key: key.trim_start_matches('/').to_owned(),
            wire: self.link.wire.clone(),
            options: self.link.options.clone(),
        })
    }

    /// Refuses to write to a web server. Folders of a bucket need no call to exist.
    fn writable(&self, path: &Path) -> Result<()> {
        match &*self.backend {
            Backend::Bucket(_) => Ok(()),
            Backend::Web(_) => Err(Error::unsupported(READ_ONLY).in_input(self.object(path)?.name())),
        }
    }
}

impl Store for RemoteStore {
    fn shown(&self, path: &Path) -> String {
        self.object(path).map_or_else(|_| path.display().to_string(), |object| object.name())
    }

    fn list(&self, dir: &Path) -> Result<Vec<PathBuf>> {
        Ok(self.entries(dir)?.into_iter().map(|entry| entry.name).collect())
    }

    fn entries(&self, dir: &Path) -> Result<Vec<DirEntry>> {
        let object = self.object(dir)?;
        let asked = object.clone();
        let (names, exists) = self.link.wait(async move { listed(&asked, None).await })?;
        // An empty bucket exists; an empty folder in a bucket does if it has a marker.
        if !exists && !object.key.is_empty() {
            return Err(missing(&object.name()));
        }
        let entry = |(name, version): (String, Option<Version>)| {
            let key = if object.key.is_empty() { name.clone() } else { format!("{}/{name}", object.key) };
            let full = object.backend.name(&key);
            let stat = version.map_or_else(|| folder(&full), |version| version.stat(&full));
            DirEntry { name: name.into(), kind: Some(stat.kind), stat: Some(stat) }
        };
        Ok(names.into_iter().map(entry).collect())
    }

    fn stat(&self, path: &Path, _: bool) -> Result<FileStat> {
        let object = self.object(path)?;
        self.link.wait(async move { stat(&object).await })
    }

    fn open(&self, path: &Path) -> Result<Box<dyn Input>> {
        Ok(Box::new(RemoteFile::open(self.link.clone(), self.object(path)?)?))
    }

    fn read(&self, path: &Path, buf: &mut [u8]) -> Result<Option<FileStat>> {
        let file = RemoteFile::open(self.link.clone(), self.object(path)?)?;
        file.read_at(0, buf)?;
        Ok(Some(file.as_opened()))
    }

    fn create(&self, path: &Path) -> Result<Box<dyn StoreFile>> {
        let object = self.object(path)?;
        let message = match &*self.backend {
            Backend::Bucket(_) => "is an object, which gets its name when it is complete",
            Backend::Web(_) => READ_ONLY,
        };
        Err(Error::unsupported(message).in_input(object.name()))
    }

    fn upload(&self, path: &Path, patchable: bool) -> Result<Option<Box<dyn StoreFile>>> {
        self.writable(path)?;
        Ok(Some(Box::new(Upload::new(self.link.clone(), self.object(path)?, patchable))))
    }

    fn abort_uploads(&self, dir: &Path) -> Result<u64> {
        let object = self.object(dir)?;
        self.link.wait(async move { object.abort_all().await })
    }

    fn sync_file(&self, path: &Path) -> Result<()> {
        self.writable(path)
    }

    fn rename(&self, from: &Path, _: &Path) -> Result<()> {
        self.writable(from)?;
        Err(Error::unsupported("is an object, and object stores can't rename").in_input(self.object(from)?.name()))
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.writable(dir)
    }

    fn create_dir(&self, dir: &Path) -> Result<()> {
        self.writable(dir)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        let object = self.object(path)?;
        self.link.wait(async move { object.delete().await })
    }

    fn remove_dir(&self, dir: &Path) -> Result<()> {
        self.writable(dir)
    }
}

const READ_ONLY: &str = "is on a web server and can only be read; write to a local folder or to a bucket";

/// The most pages without a name that a listing may have in a row.
const FRUITLESS: u32 = 100;

/// A file; in a bucket also a non-empty prefix as a folder; on the web a name with a trailing slash as a folder.
async fn stat(object: &RemoteObject) -> Result<FileStat> {
    let slash = object.key.is_empty() || object.key.ends_with('/');
    if slash {
        return Ok(folder(&object.name()));
    }
    if matches!(*object.backend, Backend::Web(_)) {
        return object.stat().await;
    }
    match object.look_once().await {
        Ok(QueryResult::File(version)) if version.len > 0 => Ok(version.stat(&object.name())),
        // An empty object may be the marker of a folder.
        Ok(QueryResult::File(version)) => match listed(object, Some(1)).await {
            Ok((_, true)) => Ok(folder(&object.name())),
            _ => Ok(version.stat(&object.name())),
        },
        Ok(QueryResult::Folder) => Ok(folder(&object.name())),
        // A server over a file system may fail for the name of a folder.
        _ if listed(object, Some(1)).await?.1 => Ok(folder(&object.name())),
        _ => object.stat().await,
    }
}

/// The names in a folder: all, or one page of `most`; and whether it exists.
async fn listed(object: &RemoteObject, most: Option<usize>) -> Result<(Vec<(String, Option<Version>)>, bool)> {
    let (mut names, mut exists) = (Vec::new(), false);
    let mut token = None;
    let mut fruitless = 0;
    loop {
        let page = page(object, token.clone(), most).await.map_err(|error| error.in_input(object.name()))?;
        fruitless = if page.names.is_empty() { fruitless + 1 } else { 0 };
        names.extend(page.names);
        exists |= page.exists;
        match page.next {
            None => return Ok((names, exists)),
            Some(_) if most.is_some() && exists => return Ok((names, exists)),
            // A broken server could otherwise cause an endless loop. Azure may give empty pages.
            next if next == token || fruitless > FRUITLESS => {
                return Err(Error::new(Kind::Environment, "is listed in an endless loop").in_input(object.name()));
            }
            next => token = next,
        }
    }
}

async fn page(object: &RemoteObject, token: Option<String>, most: Option<usize>) -> Result<ListPage> {
    let Backend::Bucket(bucket) = &*object.backend else {
        return Err(Error::unsupported(
            "web servers do not list their folders; name the files, or a dataset that has a dataset.json",
        ));
    };
    object.retried(Duration::ZERO, || bucket.list(&object.key, token.clone(), most)).await
}

fn missing(name: &str) -> Error {
    Error::new(Kind::Environment, "does not exist: no object has this prefix").not_found().in_input(name)
}
