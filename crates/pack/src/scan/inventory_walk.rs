//! What an inventory lists, as a walk over folders would find it.

use super::folder_walk::{CHUNK, Folder, FolderWalk, Look, OUTPUT, Task, found, of_input};
use super::inventory::{InventoryTable, Listed};
use super::listing::{FoundFile, HIDDEN, WalkEvent};
use super::work_queue::WorkQueue;
use crate::recorded_files::sealed_manifest;
use packhorse_core::{Error, FileKind, FileStat, Kind, Result};
use packhorse_dataset::MANIFEST;
use packhorse_storage::Location;
use std::collections::BTreeMap;
use std::ffi::OsStr;
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
    /// What a table lists. Keys that end with a slash stand for folders, and are left out.
    pub(super) fn inventory(&self, queue: &WorkQueue<Task>, table: &InventoryTable) {
        let output = self.options.recipe.out.as_deref().map(Location::absolute);
        let below = |root: &Folder| {
            let output = output.as_deref()?.strip_prefix(Location::absolute(&root.base)).ok()?;
            Some(output.to_owned())
        };
        // The dataset's folder below each root.
        let mut outputs: BTreeMap<u32, Option<PathBuf>> = BTreeMap::new();
        let mut run: Option<Neighbours> = None;
        let mut outside: Option<(u64, PathBuf)> = None;
        let read = table.rows(self.context, &mut |listed, row| {
            if self.context.cancel.is_cancelled() {
                return Err(Error::cancelled());
            }
            if listed.key.ends_with(b"/") {
                return Ok(());
            }
            let Some((root, path)) = listed.place else {
                let key = Path::new(OsStr::from_bytes(listed.key));
                if self.division.owns(0, key) {
                    outside.get_or_insert_with(|| (0, key.to_owned())).0 += 1;
                }
                return Ok(());
            };
            if !self.division.owns(root.root, path) {
                return Ok(());
            }
            let in_table = |error: Error| error.context(format_args!("row {row} of {}", table.path.display()));
            let (root, path) = (root.clone(), path.to_owned());
            let output = outputs.entry(root.root).or_insert_with(|| below(&root));
            match self.row(&root, &path, listed, output.as_deref()) {
                Ok(Look::File(stat)) => self.add(queue, &mut run, &root, &path, &stat),
                Ok(Look::Archive(stat)) => {
                    queue.add(Task::Archive { root: root.root, base: root.base.clone(), path, stat });
                }
                Ok(Look::Ignored(why)) => self.send_ignored(why, path),
                Ok(Look::Folder(_)) => {}
                Err(e) if e.kind() == Kind::Config => return Err(in_table(e)),
                Err(e) => self.fault(of_input(in_table(e))),
            }
            Ok(())
        });
        self.flush(queue, &mut run);
        if let Some((count, first)) = outside {
            self.send_outside(OUTSIDE, count, first);
        }
        if let Err(error) = read {
            // What the rest of the table lists is not known.
            let named = if error.input().is_none() { error.in_input(table.path.display()) } else { error };
            self.send(WalkEvent::Abort(named));
        }
    }

    /// The kind of input of a row.
    ///
    /// Errors: `Content` for a key that a path can't have; `Config` for the manifest of a sealed dataset, whose other files a walk
    /// would not take as samples.
    fn row(&self, root: &Folder, path: &Path, listed: Listed<'_>, output: Option<&Path>) -> Result<Look> {
        let full = root.base.join(path);
        if path.as_os_str().as_bytes().split(|byte| *byte == b'/').any(|part| matches!(part, b"" | b"." | b"..")) {
            let message = "has a part between slashes that is empty, or dots alone: paths have no such parts";
            return Err(Error::content(message).in_input(full.display()));
        }
        if path.iter().any(|part| part.as_bytes().starts_with(b".")) {
            return Ok(Look::Ignored(HIDDEN));
        }
        if output.is_some_and(|output| path.starts_with(output)) {
            return Ok(Look::Ignored(OUTPUT));
        }
        let dataset = full.parent().filter(|_| path.file_name().is_some_and(|name| name == MANIFEST));
        if let Some(dataset) = dataset
            && self.globs.takes(path)
            && sealed_manifest(self.context.store, dataset)?.is_some()
        {
            let hint = "give the dataset itself as INPUT, without an inventory, or leave its folder out with `exclude`";
            let error = Error::config("is a sealed dataset, which an inventory lists file by file");
            return Err(error.hint(hint).in_input(dataset.display()));
        }
        let (size, mtime) = listed.stat.map_err(|e| e.in_input(full.display()))?;
        let stat = FileStat { kind: FileKind::File, size, mtime, ctime: 0, id: (0, 0) };
        self.judge(root, path, stat)
    }

    /// Adds a file to those of its folder before it.
    fn add(
        &self,
        queue: &WorkQueue<Task>,
        run: &mut Option<Neighbours>,
        root: &Arc<Folder>,
        path: &Path,
        stat: &FileStat,
    ) {
        let folder = path.parent().unwrap_or(Path::new(""));
        let name = Path::new(path.file_name().unwrap_or_default());
        let same = |run: &Neighbours| run.root.root == root.root && run.folder == folder && run.files.len() < CHUNK;
        if !run.as_ref().is_some_and(same) {
            self.flush(queue, run);
            *run = Some(Neighbours { root: root.clone(), folder: folder.to_owned(), files: Vec::new() });
        }
        if let Some(run) = run {
            run.files.push(found(name, stat));
        }
    }

    fn flush(&self, queue: &WorkQueue<Task>, run: &mut Option<Neighbours>) {
        let Some(Neighbours { root, folder, files }) = run.take() else { return };
        match self.options.probes {
            // Headers are read by all threads.
            true => queue.add(Task::Files(root, folder, files)),
            false => self.files(&root, &folder, files),
        }
    }
}
