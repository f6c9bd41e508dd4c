//! What an inventory lists, as a walk over folders would find it.

use super::folder_walk::{CHUNK, Folder, FolderWalk, Look, OUTPUT, found, of_input};
use super::inventory::{InventoryTable, Listed};
use super::listing::{FoundFile, HIDDEN};
use packhorse_core::{Error, FileKind, FileStat, Kind, Result};
use packhorse_storage::Location;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why rows are left out.
const OUTSIDE: &str = "below no INPUT";

/// Files of one folder that follow one another in an inventory.
struct Neighbours {
    root: Arc<Folder>,
    folder: PathBuf,
    files: Vec<FoundFile>,
}

impl FolderWalk<'_> {
    /// What a table lists. Keys that end with a slash stand for folders, and are nothing.
    pub(super) fn inventory(&self, table: &InventoryTable) {
        let output = self.options.recipe.out.as_deref().map(Location::absolute);
        let mut run: Option<Neighbours> = None;
        let mut outside: Option<(u64, PathBuf)> = None;
        let read = table.rows(self.context, &mut |listed, row| {
            if self.context.cancel.is_cancelled() {
                return Err(Error::cancelled());
            }
            let Some((root, path)) = listed.place else {
                let first = || (0, PathBuf::from(String::from_utf8_lossy(listed.key).into_owned()));
                outside.get_or_insert_with(first).0 += 1;
                return Ok(());
            };
            let is_folder = listed.key.is_empty() || listed.key.ends_with(b"/");
            if is_folder || !self.division.owns(root.root, path) {
                return Ok(());
            }
            match self.row(root, path, listed, output.as_deref()) {
                Ok(Look::File(stat)) => self.add(&mut run, root, path, &stat),
                Ok(Look::Archive(stat)) => self.archive(root.root, &root.base, path.to_owned(), stat),
                Ok(Look::Ignored(why)) => self.send_ignored(why, path.to_owned()),
                Ok(Look::Folder(_)) => {}
                Err(e) => self.fault(of_input(e.context(format_args!("row {row} of {}", table.path.display())))),
            }
            Ok(())
        });
        self.flush(&mut run);
        if let Some((count, first)) = outside {
            self.send_outside(OUTSIDE, count, first);
        }
        if let Err(error) = read {
            self.fault(if error.kind() == Kind::Cancelled { error } else { error.in_input(table.path.display()) });
        }
    }

    /// The kind of input of a row.
    fn row(&self, root: &Folder, path: &Path, listed: &Listed<'_>, output: Option<&Path>) -> Result<Look> {
        if path.iter().any(|part| part.as_bytes().starts_with(b".")) {
            return Ok(Look::Ignored(HIDDEN));
        }
        if output.is_some_and(|output| Location::absolute(&root.base.join(path)).starts_with(output)) {
            return Ok(Look::Ignored(OUTPUT));
        }
        let stat = FileStat { kind: FileKind::File, size: listed.size, mtime: listed.mtime, ctime: 0, id: (0, 0) };
        self.judge(root, path, stat)
    }

    /// Adds a file to those of its folder before it.
    fn add(&self, run: &mut Option<Neighbours>, root: &Arc<Folder>, path: &Path, stat: &FileStat) {
        let folder = path.parent().unwrap_or(Path::new(""));
        let name = Path::new(path.file_name().unwrap_or_default());
        let same = |run: &Neighbours| run.root.root == root.root && run.folder == folder && run.files.len() < CHUNK;
        if !run.as_ref().is_some_and(same) {
            self.flush(run);
            *run = Some(Neighbours { root: root.clone(), folder: folder.to_owned(), files: Vec::new() });
        }
        if let Some(run) = run {
            run.files.push(found(name, stat));
        }
    }

    fn flush(&self, run: &mut Option<Neighbours>) {
        if let Some(Neighbours { root, folder, files }) = run.take() {
            self.files(&root, &folder, files);
        }
    }
}
