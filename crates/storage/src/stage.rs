//! A group of staged files: written and hashed, synced and closed, published together by renames. In an object store:
//! uploaded and hashed, published by completing the uploads.
//!
//! It does not know whose folder it is in: [`Staging`](crate::Staging) makes, marks and sweeps those.

use crate::Quarantine;
use crate::concat::concat;
use crate::hashing::{Done, Hashing, HashingPatchable, Written};
use crate::staging::clear_group;
use blake3::Hash;
use packhorse_core::{
    Context, Error, InputRange, Outlet, PatchableWriter, Result, ScratchFile, Store, StoreFile, copy_ranges,
};
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};

/// A file under its final name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// Its path relative to the dataset's folder.
    pub name: String,
    /// Its length in bytes.
    pub bytes: u64,
    /// Its BLAKE3 hash.
    pub blake3: blake3::Hash,
}

/// A group of files that are written, then published together.
pub struct Stage {
    store: Arc<dyn Store>,
    out: PathBuf,
    pub(crate) dir: PathBuf,
    stem: String,
    files: Vec<Staged>,
    /// Whether files are uploaded to `out` instead of written below `dir` and renamed.
    objects: bool,
    /// Keeps files that are replaced by other bytes.
    quarantine: Option<Arc<Quarantine>>,
}

struct Staged {
    name: String,
    content: Content,
}

enum Content {
    /// Set when the file is complete.
    Streamed(Done),
    /// Hash and length of parts in a file that is not synced.
    Concatenated(Hash, u64),
}

impl Stage {
    /// An empty group for files of `out` whose names start with `stem`. They are written in the folder `dir`; with
    /// `objects` only temporary files are. Files that are replaced by other bytes go into `quarantine`.
    pub(crate) fn new(
        store: Arc<dyn Store>,
        out: PathBuf,
        dir: PathBuf,
        stem: &str,
        objects: bool,
        quarantine: Option<Arc<Quarantine>>,
    ) -> Self {
        Self { store, out, dir, stem: stem.to_owned(), files: Vec::new(), objects, quarantine }
    }

    /// Writes `bytes` as the file with `suffix`.
    pub fn write(&mut self, suffix: &str, bytes: &[u8]) -> Result<()> {
        let mut writer = self.stream(suffix)?;
        writer.write_all(bytes).context("write")
    }

    /// Syncs, closes and renames all files, in the order of their creation, and syncs the folders. After an error
    /// none or some are renamed; they do not count until a receipt is published.
    pub fn publish(self) -> Result<Vec<Published>> {
        self.publish_if(|_| Ok(()))
    }

    /// Like [`publish`](Self::publish), unless `check` refuses the written files; then none is renamed.
    pub fn publish_if(self, check: impl FnOnce(&[Published]) -> Result<()>) -> Result<Vec<Published>> {
        let ready = self.ready()?;
        check(ready.files())?;
        ready.publish()
    }

    /// Syncs and closes all files, which are published later. Of an object the last part is still in memory.
    pub fn ready(mut self) -> Result<ReadyStage> {
        let staged = std::mem::take(&mut self.files);
        let (mut files, mut uploads) = (Vec::new(), Vec::new());
        for staged in &staged {
            let (file, upload) = self.settle(staged)?;
            files.push(file);
            uploads.extend(upload);
        }
        Ok(ReadyStage { stage: self, files, uploads })
    }

    /// The complete file, and its upload where its name comes with that.
    fn settle(&self, staged: &Staged) -> Result<(Published, Option<Box<dyn StoreFile>>)> {
        let published = |bytes, blake3| Published { name: staged.name.clone(), bytes, blake3 };
        let done = match &staged.content {
            Content::Streamed(done) => done,
            Content::Concatenated(hash, bytes) => {
                self.store.sync_file(&self.dir.join(flat(&staged.name)))?;
                return Ok((published(*bytes, *hash), None));
            }
        };
        let written = done.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Written { file, hash, bytes } =
            written.ok_or_else(|| Error::bug(format!("{} is still being written", staged.name)))?;
        if self.objects {
            return Ok((published(bytes, hash), Some(file)));
        }
        file.sync_and_close()?;
        Ok((published(bytes, hash), None))
    }

    fn create(&mut self, suffix: &str, patchable: bool) -> Result<(Box<dyn StoreFile>, Done)> {
        let done = Done::default();
        let name = format!("{}{suffix}", self.stem);
        let file = match self.objects {
            true => self.upload(&name, patchable)?,
            false => self.store.create(&self.dir.join(flat(&name)))?,
        };
        self.files.push(Staged { name, content: Content::Streamed(done.clone()) });
        Ok((file, done))
    }

    fn upload(&self, name: &str, patchable: bool) -> Result<Box<dyn StoreFile>> {
        let path = self.out.join(name);
        let upload = self.store.upload(&path, patchable)?;
        upload.ok_or_else(|| Error::bug("this store takes no objects").in_input(path.display()))
    }
}

/// A group of complete files, synced and closed, under their staged names. Dropping removes them.
pub struct ReadyStage {
    stage: Stage,
    files: Vec<Published>,
    /// In an object store, the uploads of the files, in order.
    uploads: Vec<Box<dyn StoreFile>>,
}

impl ReadyStage {
    /// The files in the order of their creation, with the names that they will have.
    pub fn files(&self) -> &[Published] {
        &self.files
    }

    /// Renames all files, in order, and syncs the folders; completes uploads. After an error none or some have their
    /// names.
    pub fn publish(self) -> Result<Vec<Published>> {
        self.give_names(false)
    }

    /// The same for files whose names must be new: [`Error::is_taken`] if one is not. In an object store the name is
    /// looked at, so two writers that publish at the same moment are not kept apart.
    pub fn publish_new(self) -> Result<Vec<Published>> {
        self.give_names(true)
    }

    fn give_names(self, new: bool) -> Result<Vec<Published>> {
        let Stage { store, out, dir, objects, quarantine, .. } = &self.stage;
        let keep = |file: &Published| quarantine.as_ref().map_or(Ok(()), |quarantine| quarantine.keep(file));
        if *objects {
            for (upload, file) in self.uploads.into_iter().zip(&self.files) {
                if new {
                    store.refuse_taken(&out.join(&file.name))?;
                }
                keep(file)?;
                upload.sync_and_close()?;
            }
            return Ok(self.files);
        }
        let mut dirs = vec![out.clone()];
        for file in &self.files {
            let target = out.join(&file.name);
            if let Some(parent) = target.parent().filter(|p| !dirs.iter().any(|d| d == p)) {
                store.create_dir(parent)?;
                dirs.push(parent.to_owned());
            }
            keep(file)?;
            let staged = dir.join(flat(&file.name));
            if new { store.rename_new(&staged, &target)? } else { store.rename(&staged, &target)? }
        }
        dirs.iter().rev().try_for_each(|dir| store.sync_dir(dir))?;
        Ok(self.files)
    }
}

/// The staged name of a file: flat, so that staging needs no subfolders. That of a long path is a digest.
fn flat(name: &str) -> String {
    const LONGEST: usize = 255;
    let flat = name.replace('/', "%2F");
    if name.contains('/') && flat.len() > LONGEST { blake3::hash(name.as_bytes()).to_hex().to_string() } else { flat }
}

impl Outlet for Stage {
    fn stream(&mut self, suffix: &str) -> Result<Box<dyn Write + Send>> {
        let (file, done) = self.create(suffix, false)?;
        Ok(Box::new(Hashing::new(file, done)))
    }

    fn patchable(&mut self, suffix: &str) -> Result<Box<dyn PatchableWriter>> {
        let (file, done) = self.create(suffix, true)?;
        Ok(Box::new(HashingPatchable::new(file, done)))
    }

    fn concat(&mut self, suffix: &str, parts: &[InputRange<'_>]) -> Result<()> {
        if self.objects {
            let mut out = self.stream(suffix)?;
            return copy_ranges(parts, &mut *out);
        }
        let name = format!("{}{suffix}", self.stem);
        let (hash, bytes) = concat(&self.dir.join(flat(&name)), parts)?;
        self.files.push(Staged { name, content: Content::Concatenated(hash, bytes) });
        Ok(())
    }

    fn scratch(&mut self) -> Result<Box<dyn ScratchFile>> {
        Ok(Box::new(Unnamed { dir: self.dir.clone(), file: None, at: 0 }))
    }
}

/// An unnamed temporary file, created with the first byte.
struct Unnamed {
    dir: PathBuf,
    file: Option<File>,
    at: u64,
}

impl ScratchFile for Unnamed {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => {
                let file = tempfile::tempfile_in(&self.dir).context("create a temporary file");
                none.insert(file.map_err(|e| e.in_input(self.dir.display()))?)
            }
        };
        file.write_all_at(bytes, self.at).context("write a temporary file")?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    fn read_at(&mut self, offset: u64, buf: &mut [u8]) -> Result<()> {
        match &self.file {
            Some(file) => file.read_exact_at(buf, offset).context("read a temporary file"),
            None if buf.is_empty() => Ok(()),
            None => Err(Error::bug("unwritten bytes are read")),
        }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if !self.objects {
            clear_group(&*self.store, &self.dir);
        }
    }
}
