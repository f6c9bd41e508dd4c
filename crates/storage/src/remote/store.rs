//! A bucket or web server as a read-only [`Store`].

use super::budget::Budget;
use super::input::RemoteFile;
use super::link::Link;
use super::object::{Backend, QueryResult, RemoteObject};
use super::s3::ListPage;
use super::version::folder;
use packhorse_core::{Error, FileStat, Input, Kind, Result, Store, StoreFile};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::time::{sleep, timeout_at};

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

    /// The error of every writing call.
    fn read_only<T>(&self, path: &Path) -> Result<T> {
        let name = self.object(path).map_or_else(|_| path.display().to_string(), |object| object.name());
        Err(Error::unsupported("is remote and can only be read; write to a local folder").in_input(name))
    }
}

impl Store for RemoteStore {
    fn list(&self, dir: &Path) -> Result<Vec<PathBuf>> {
        let object = self.object(dir)?;
        let name = object.name();
        let names = self.link.wait(async move { listed(&object, None).await })?;
        // An empty bucket exists; an empty folder in a bucket does not.
        match names.is_empty() && !self.object(dir)?.key.is_empty() {
            true => Err(missing(&name)),
            false => Ok(names.into_iter().map(PathBuf::from).collect()),
        }
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
        self.read_only(path)
    }

    fn sync_file(&self, path: &Path) -> Result<()> {
        self.read_only(path)
    }

    fn rename(&self, from: &Path, _: &Path) -> Result<()> {
        self.read_only(from)
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.read_only(dir)
    }

    fn create_dir(&self, dir: &Path) -> Result<()> {
        self.read_only(dir)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.read_only(path)
    }

    fn remove_dir(&self, dir: &Path) -> Result<()> {
        self.read_only(dir)
    }
}

/// A file; in S3 also a non-empty prefix as a folder; on the web a name with a trailing slash as a folder.
async fn stat(object: &RemoteObject) -> Result<FileStat> {
    let slash = object.key.is_empty() || object.key.ends_with('/');
    if slash {
        return Ok(folder(&object.name()));
    }
    let error = match object.look().await {
        Ok(QueryResult::File(version)) => return Ok(version.stat(&object.name())),
        Ok(QueryResult::Folder) => return Ok(folder(&object.name())),
        Err(error) => error,
    };
    let absent = error.is_not_found() && matches!(*object.backend, Backend::S3(_));
    match absent && !listed(object, Some(1)).await?.is_empty() {
        true => Ok(folder(&object.name())),
        false => Err(error),
    }
}

/// The names in a folder: all, or one page of `most`.
async fn listed(object: &RemoteObject, most: Option<usize>) -> Result<Vec<String>> {
    let mut names = Vec::new();
    let mut token = None;
    loop {
        let page = page(object, token.clone(), most).await.map_err(|error| error.in_input(object.name()))?;
        let fruitless = page.names.is_empty();
        names.extend(page.names);
        match page.next {
            None => return Ok(names),
            Some(_) if most.is_some() => return Ok(names),
            // A broken server could otherwise cause an endless loop.
            next if next == token || (fruitless && names.is_empty() && token.is_some()) => {
                return Err(Error::new(Kind::Environment, "is listed in an endless loop").in_input(object.name()));
            }
            next => token = next,
        }
    }
}

async fn page(object: &RemoteObject, token: Option<String>, most: Option<usize>) -> Result<ListPage> {
    let Backend::S3(s3) = &*object.backend else {
        return Err(Error::unsupported(
            "web servers do not list their folders; name the files, or a dataset that has a dataset.json",
        ));
    };
    let mut budget = Budget::new(&object.options);
    loop {
        let failure = match timeout_at(budget.deadline(), s3.list(&object.key, token.clone(), most)).await {
            Ok(Ok(page)) => return Ok(page),
            Ok(Err(failure)) => failure,
            Err(_) => return Err(budget.out_of_time("the server is too slow")),
        };
        sleep(budget.after(failure, 0)?).await;
    }
}

fn missing(name: &str) -> Error {
    Error::new(Kind::Environment, "does not exist: no object has this prefix").not_found().in_input(name)
}
