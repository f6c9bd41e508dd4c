//! What processes are writing to a dataset, from their staging folders.

use crate::Staging;
use crate::owner::owner_of;
use packhorse_core::{FileKind, Store};
use std::path::Path;

/// Files that a process publishes together, while it writes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StagedGroup {
    /// The host of the process.
    pub host: String,
    /// Its number there.
    pub pid: u32,
    /// The names that the files will have, without folders.
    pub files: Vec<String>,
    /// Bytes written so far.
    pub bytes: u64,
    /// The last write, nanoseconds since 1970-01-01 UTC by the clock of the file system.
    pub written: i64,
}

/// The groups in the staging folders of the dataset in `out`, also those that dead processes left. Groups that
/// vanish meanwhile and folders of others are left out.
pub fn staged(store: &dyn Store, out: &Path) -> Vec<StagedGroup> {
    let folder = Staging::folder(out);
    let mut groups = Vec::new();
    for name in store.list(&folder).unwrap_or_default() {
        let Some((host, pid)) = name.to_str().and_then(owner_of) else { continue };
        let dir = folder.join(&name);
        for number in store.list(&dir).unwrap_or_default() {
            let mut group = StagedGroup { host: host.to_owned(), pid, files: Vec::new(), bytes: 0, written: 0 };
            let path = dir.join(number);
            if store.stat(&path, false).is_ok_and(|stat| stat.kind == FileKind::Directory) {
                group.add(store, &path);
            }
            groups.extend((!group.files.is_empty()).then_some(group));
        }
    }
    groups
}

impl StagedGroup {
    fn add(&mut self, store: &dyn Store, dir: &Path) {
        for name in store.list(dir).unwrap_or_default() {
            let Ok(stat) = store.stat(&dir.join(&name), false) else { continue };
            if stat.kind == FileKind::File {
                self.files.push(name.to_string_lossy().into_owned());
                self.bytes += stat.size;
                self.written = self.written.max(stat.mtime);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Local;
    use packhorse_core::Outlet;
    use std::io::Write;
    use std::sync::Arc;

    #[test]
    fn files_are_seen_while_they_are_written() {
        let out = tempfile::tempdir().unwrap();
        assert_eq!(staged(&Local, out.path()), []);
        let staging = Staging::open(Arc::new(Local), out.path()).unwrap();
        let mut stage = staging.stage("s-000000").unwrap();
        let mut file = stage.stream(".tar").unwrap();
        file.write_all(&[7; 1 << 20]).unwrap();
        file.flush().unwrap();
        std::fs::create_dir_all(Staging::folder(out.path()).join("mine/0")).unwrap();
        let found = staged(&Local, out.path());
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].pid, &found[0].files[..]), (std::process::id(), &["s-000000.tar".to_owned()][..]));
        assert!(found[0].written > 0 && !found[0].host.is_empty());
        drop(file);
        stage.publish().unwrap();
        assert_eq!(staged(&Local, out.path()), []);
    }
}
