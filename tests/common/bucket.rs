//! Buckets that a test can fill and look into: of `s3s-fs` in this process, whose objects are files, and of moto.

use super::moto::Moto;
use packhorse::storage::{RemoteOptions, Stores};
use packhorse_core::{FileKind, Store};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Files by their names in a folder, or objects by the rest of their keys.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;

/// A server with the bucket `bucket`.
pub(crate) trait Server: Sync {
    /// The client's settings, as environment variables.
    fn settings(&self) -> BTreeMap<String, String>;

    /// Stores objects below `prefix`.
    fn fill(&self, prefix: &str, files: &Files) {
        let stores = self.stores();
        for (name, bytes) in files {
            let mut upload = stores.upload(&place(prefix).join(name), false).unwrap().unwrap();
            upload.write_all(bytes).unwrap();
            upload.sync_and_close().unwrap();
        }
    }

    /// The objects below `prefix`.
    fn objects(&self, prefix: &str) -> Files {
        let (stores, root, mut found) = (self.stores(), place(prefix), Files::new());
        let mut folders = vec![PathBuf::new()];
        while let Some(folder) = folders.pop() {
            let entries = match stores.entries(&root.join(&folder)) {
                Err(e) if e.is_not_found() => continue,
                entries => entries.unwrap(),
            };
            for entry in entries {
                let name = folder.join(entry.name);
                if entry.stat.unwrap().kind == FileKind::Directory {
                    folders.push(name);
                    continue;
                }
                let bytes = Store::open(&stores, &root.join(&name)).unwrap().read_all(1 << 30).unwrap();
                found.insert(name.to_str().unwrap().to_owned(), bytes);
            }
        }
        found
    }

    /// Drops what was made below `prefix`, where more of it makes listings slow.
    fn forget(&self, _prefix: &str) {}

    /// How many uploads are neither complete nor aborted.
    fn unfinished(&self) -> usize;

    /// Whether it lists them to clients.
    fn lists_uploads(&self) -> bool;

    /// A client without faults.
    fn stores(&self) -> Stores {
        Stores::new(RemoteOptions { s3: self.settings(), ..RemoteOptions::default() })
    }

    /// Host and port.
    fn address(&self) -> String {
        self.settings()["AWS_ENDPOINT_URL"].strip_prefix("http://").unwrap().to_owned()
    }
}

/// The location of `prefix`.
pub(crate) fn place(prefix: &str) -> PathBuf {
    Path::new("s3://bucket").join(prefix)
}

/// The files below a local folder.
pub(crate) fn files(dir: &Path) -> Files {
    let (mut found, mut folders) = (Files::new(), vec![dir.to_owned()]);
    while let Some(folder) = folders.pop() {
        // Whether there is a folder at all is for callers to know.
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for path in entries.map(|entry| entry.unwrap().path()) {
            match path.is_dir() {
                true => folders.push(path),
                false => {
                    let name = path.strip_prefix(dir).unwrap().to_str().unwrap().to_owned();
                    found.insert(name, std::fs::read(&path).unwrap());
                }
            }
        }
    }
    found
}

/// `s3s-fs`, whose bucket is a folder.
#[cfg(feature = "s3-tests")]
pub(crate) struct InProcess {
    server: packhorse_testkit::s3::Server,
    dir: tempfile::TempDir,
}

#[cfg(feature = "s3-tests")]
impl InProcess {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        std::fs::create_dir(dir.path().join("bucket")).unwrap();
        Self { server: packhorse_testkit::s3::Server::new(dir.path()), dir }
    }
}

#[cfg(feature = "s3-tests")]
impl Server for InProcess {
    fn settings(&self) -> BTreeMap<String, String> {
        self.server.settings()
    }

    fn fill(&self, prefix: &str, files: &Files) {
        for (name, bytes) in files {
            let path = self.dir.path().join("bucket").join(prefix).join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        }
    }

    fn objects(&self, prefix: &str) -> Files {
        files(&self.dir.path().join("bucket").join(prefix))
    }

    fn forget(&self, prefix: &str) {
        std::fs::remove_dir_all(self.dir.path().join("bucket").join(prefix)).unwrap();
    }

    fn unfinished(&self) -> usize {
        let names = std::fs::read_dir(self.dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.to_str().unwrap().starts_with(".upload-")).count()
    }

    fn lists_uploads(&self) -> bool {
        false
    }
}

impl Server for Moto {
    fn settings(&self) -> BTreeMap<String, String> {
        self.settings()
    }

    fn unfinished(&self) -> usize {
        self.unfinished()
    }

    fn lists_uploads(&self) -> bool {
        true
    }
}
