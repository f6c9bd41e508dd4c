//! Scans containers: archives, tables and shards of sealed datasets. Reads headers only.

use super::Scan;
use super::folder_walk::{FolderWalk, MOST_SAMPLES, of_input};
use super::listing::{FoundMember, Items, TableInput, WalkEvent, named_twice};
use super::sealed::SealedInput;
use crate::input_format::{check_from, open};
use crate::keyed_source;
use crate::open_input::SharedFile;
use crate::recorded_files::FirstReadCheck;
use crate::spans::TARGET;
use crate::watched_input::WatchedInput;
use packhorse_core::{Error, Event, FileStat, Format, Input, Kind, Result, Source, TableInfo};
use packhorse_dataset::MANIFEST;
use packhorse_storage::{Compression, Location};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

/// The format of JSON lines and plain text.
const TEXT: &str = "text";
/// Bytes of a file in which its first line is looked for.
const HEAD: u64 = 4 << 20;
/// Files that are looked at for fields that are not taken.
const LOOKS: usize = 16;

impl FolderWalk<'_> {
    /// Reports a whole input that can't be read. Errors of kind `Unsupported` and `Config` are faults of one input,
    /// too.
    pub(super) fn input_fault(&self, error: Error) {
        match error.kind() {
            Kind::Unsupported | Kind::Config => self.send(WalkEvent::Fault(error)),
            _ => self.fault(error),
        }
    }

    /// Sends the sealed dataset in the folder `path`, if there is one, and returns the names of its input files and of
    /// its other documents. `whole`: whether its records of skipped samples are taken over.
    pub(super) fn sealed(
        &self,
        root: u32,
        folder: &Path,
        path: &Path,
        whole: bool,
    ) -> Result<Option<(BTreeSet<OsString>, BTreeSet<OsString>)>> {
        let Scan { registry, store, cancel, .. } = self.context;
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned());
        let found = SealedInput::read(registry, store, cancel, (root, folder, path), whole)?;
        let Some(sealed) = found else { return Ok(None) };
        let shards = sealed.files.iter().cloned().collect();
        let top = |name: &str| name.split('/').next().map(OsString::from);
        let documents = sealed.manifest.files.iter().filter_map(|file| top(&file.name)).collect();
        self.send(WalkEvent::Sealed(Box::new(sealed)));
        Ok(Some((shards, documents)))
    }

    /// Finds the sealed dataset of a shard that is named on its own.
    fn sealed_around(&self, root: u32, archive: &Path, path: &Path) -> Result<()> {
        let Some((folder, dir)) = archive.parent().zip(path.parent()) else { return Ok(()) };
        let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner).contains(dir);
        if seen {
            return Ok(());
        }
        match self.context.store.stat(&dir.join(MANIFEST), true) {
            Ok(_) => self.sealed(root, folder, dir, false).map(drop),
            // A bucket whose objects may not be listed denies missing ones.
            Err(error) if error.is_absent() || error.is_denied() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Scans an archive or a table.
    pub(super) fn archive(&self, root: u32, base: &Path, archive: PathBuf, stat: FileStat) {
        let path = base.join(&archive);
        let new = self.containers.lock().unwrap_or_else(PoisonError::into_inner).insert(Location::absolute(&path));
        if !new {
            return self.fault(named_twice(&path));
        }
        let _span = tracing::debug_span!(target: TARGET, "list", fname = %path.display()).entered();
        let Err(error) = self.look_into(root, &path, archive, stat) else { return };
        // An unreadable shard of a sealed dataset is damaged, which is never skipped.
        match FirstReadCheck::default().check(self.context.store, &path, self.context.cancel) {
            Err(damage) if damage.kind() == Kind::Incomplete => self.send(WalkEvent::Abort(damage)),
            _ => self.input_fault(of_input(error)),
        }
    }

    /// The source of a format, one for all inputs: tables that are kept share its buffers.
    pub(super) fn source(&self, format: &dyn Format) -> Result<Arc<dyn Source>> {
        let id = format.info().id;
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(source) = sources.get(id) {
            return Ok(Arc::clone(source));
        }
        let options = self.options.sources.get(id).cloned().unwrap_or_default();
        let source: Arc<dyn Source> = keyed_source::source(format, &options, self.context.limits)?.into();
        sources.insert(id, Arc::clone(&source));
        Ok(source)
    }

    fn look_into(&self, root: u32, path: &Path, archive: PathBuf, stat: FileStat) -> Result<()> {
        let Some((format, compression)) = self.container(path) else { return Ok(()) };
        self.sealed_around(root, &archive, path)?;
        let id = format.info().id;
        self.names.from.iter().try_for_each(|from| check_from(self.context.registry, from, path))?;
        let source = self.source(&**format)?;
        let input = open(self.context.store, path, compression)?;
        if self.tables {
            let tables = source.tables(&*input).map_err(|e| e.in_input(path.display()))?;
            self.send(WalkEvent::Tables { path: path.to_owned(), tables });
            return Ok(());
        }
        if source.lists() {
            self.check_stream(path, compression)?;
            return self.members(&*source, &*input, (root, path, archive, stat));
        }
        let input = Arc::new(WatchedInput::new(input)?);
        let table =
            self.rows(id, &*source, input, compression, (path, stat)).map_err(|e| e.in_input(path.display()))?;
        self.send(WalkEvent::Table { root, path: archive, stat, table });
        Ok(())
    }

    /// Sends the members of an archive.
    fn members(
        &self,
        source: &dyn Source,
        input: &dyn Input,
        (root, path, archive, stat): (u32, &Path, PathBuf, FileStat),
    ) -> Result<()> {
        let (mut found, mut last) = (0, None);
        let listed = self.list(source, input, &mut |members| {
            found += members.len() as u64;
            // The last list may be empty.
            if let Some(member) = members.last() {
                last = Some(String::from_utf8_lossy(&member.name).into_owned());
            }
            self.context.observer.event(&Event::Scanned { files: members.len() as u64 });
            self.send(WalkEvent::Members { root, archive: archive.clone(), stat, members });
        });
        self.check_empty(found, path)?;
        // More members of the last sample may have followed.
        listed.map_err(|e| match last {
            Some(name) => e.hint(format!("the sample of {name}, its last one that can be read, may lack fields")),
            None => e,
        })
    }

    /// Reads the headers of a table input.
    pub(super) fn rows(
        &self,
        format: &'static str,
        source: &dyn Source,
        input: Arc<WatchedInput>,
        compression: Option<Compression>,
        (path, stat): (&Path, FileStat),
    ) -> Result<TableInput> {
        let opened = source.open(input.clone()).and_then(|opened| Ok((opened.info()?, opened)));
        let (mut info, mut opened) = opened.map_err(|e| match compression {
            Some(_) if e.kind() == Kind::Unsupported => {
                Error::unsupported(format!("{format} can't be read while compressed; decompress it first"))
            }
            _ => e,
        })?;
        let mut frames = None;
        if let (Some(compression), false) = (compression, info.counted) {
            frames = self.frames(path, compression, stat.size, info.bytes)?;
            if let Some(frames) = &frames {
                opened = source.open(self.entered(path, compression, frames)?.into())?;
                info = opened.info()?;
            }
        }
        if info.counted && info.items > MOST_SAMPLES {
            let message = format!("says that it holds {} samples; the most are {MOST_SAMPLES}", info.items);
            return Err(Error::new(Kind::Limit, message));
        }
        self.context.observer.event(&Event::Scanned { files: 1 });
        let is_local = Location::url(path).is_none() && (compression.is_some() || input.local_path().is_some());
        if format == TEXT && is_local && self.options.recipe.tokenizer.is_none() {
            self.tell_fields(&*input, &info, path);
        }
        // Without a size in its header, the file's length is the bound.
        let bytes = if info.bytes == 0 { stat.size } else { info.bytes };
        let (items, kind) = self.items(&*opened, &info)?;
        self.check_empty(items, path)?;
        if info.counted && compression.is_none() && items > 0 {
            let bytes = input.bytes_read();
            // Plans have absolute paths.
            self.context.kept.put(&Location::absolute(path), SharedFile::parsed(input, opened.into()), bytes);
        }
        let TableInfo { schema, omitted, .. } = info;
        Ok(TableInput { format, schema, items, bytes, kind, frames, omitted })
    }

    /// Warns once of fields of JSON lines that are not taken, where the first line of one of the first local files has some.
    fn tell_fields(&self, input: &dyn Input, info: &TableInfo, path: &Path) {
        if self.looks.fetch_add(1, Ordering::Relaxed) >= LOOKS {
            return;
        }
        let (mut line, start) = (Vec::new(), input.stream().map(|stream| stream.take(HEAD)));
        let read = start.map(|start| BufReader::new(start).read_until(b'\n', &mut line));
        let Ok(Ok(_)) = read else { return };
        let Ok(serde_json::Value::Object(fields)) = serde_json::from_slice(&line) else { return };
        let taken = |name: &String| info.schema.field_with_name(name).is_ok();
        let id = self.options.recipe.id_field.as_ref();
        let left: Vec<&str> =
            fields.keys().filter(|name| !taken(name) && Some(*name) != id).map(String::as_str).collect();
        if !left.is_empty() && self.looks.swap(LOOKS + 1, Ordering::Relaxed) <= LOOKS {
            let text = format!(
                "{}: of JSON lines the text alone is taken, and not {}; `from=jsonl` makes a field of each",
                path.display(),
                packhorse_core::some_of(&left)
            );
            self.context.observer.event(&Event::Warning(&text));
        }
    }

    /// Verifies an empty shard of a sealed dataset: packing verifies shards when it opens them, and never opens an
    /// empty one.
    fn check_empty(&self, found: u64, path: &Path) -> Result<()> {
        match found {
            0 => FirstReadCheck::default().check(self.context.store, path, self.context.cancel),
            _ => Ok(()),
        }
    }

    /// The number of a table's items, and their kind.
    fn items(&self, opened: &dyn packhorse_core::Table, info: &TableInfo) -> Result<(u64, Items)> {
        match (info.counted, self.options.count) {
            (true, _) => Ok((info.items, Items::Samples)),
            (false, false) => Ok((info.items, Items::Positions)),
            (false, true) => {
                let mut starts = Vec::new();
                opened.starts(&mut |start| {
                    self.context.cancel.check()?;
                    starts.push(start);
                    Ok(())
                })?;
                Ok((starts.len() as u64, Items::Counted { starts, places: info.items }))
            }
        }
    }

    /// Lists the members of an archive, with those found before an error.
    fn list(&self, source: &dyn Source, input: &dyn Input, hand_over: &mut dyn FnMut(Vec<FoundMember>)) -> Result<()> {
        let mut members = Vec::new();
        let listed = source.list(input, &mut |entry| {
            self.context.cancel.check()?;
            match entry.extent {
                Ok(extent) => {
                    members.push(FoundMember { name: entry.name.into(), offset: extent.offset, len: extent.len })
                }
                Err(e) => self.fault(e.in_sample(entry.name.escape_ascii())),
            }
            if members.len() == 4096 {
                hand_over(std::mem::take(&mut members));
            }
            Ok(())
        });
        hand_over(members);
        listed
    }
}
