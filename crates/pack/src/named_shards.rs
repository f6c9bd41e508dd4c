//! Third-party shards that a request names: by their paths, by patterns, or by folders.

use crate::OnError;
use crate::input_format::{NameRules, container};
use crate::request_error::{as_request_error, with_suggestion};
use packhorse_core::{
    Cancel, Error, FileKind, FileStat, Format, Kind, Limits, Observer, Options, Registry, Result, Store,
};
use packhorse_storage::{Compression, Location, braces, glob, is_glob};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What work on third-party shards takes from its session.
pub(crate) struct ThirdParty<'a> {
    pub(crate) registry: &'a Registry,
    pub(crate) store: &'a Arc<dyn Store>,
    pub(crate) observer: &'a dyn Observer,
    pub(crate) cancel: &'a Cancel,
    pub(crate) limits: Limits,
    pub(crate) jobs: usize,
    pub(crate) io_threads: usize,
    pub(crate) on_error: OnError,
    pub(crate) replaces: bool,
}

impl ThirdParty<'_> {
    /// Whether a shard with this error is left out; the observer is told so.
    pub(crate) fn skips(&self, error: &Error) -> bool {
        let of_shard = matches!(error.kind(), Kind::Content | Kind::Limit | Kind::Unsupported);
        let skips = self.on_error == OnError::Skip && of_shard;
        if skips {
            self.observer.event(&packhorse_core::Event::Skipped(error));
        }
        skips
    }
}

/// A shard and where it is.
#[derive(Clone, Debug)]
pub(crate) struct NamedShard {
    /// Its path relative to the folder, without the format's suffix.
    pub(crate) name: String,
    /// Its path relative to the folder.
    pub(crate) file: String,
    pub(crate) path: PathBuf,
    pub(crate) compression: Option<Compression>,
    /// What its path is, links followed.
    pub(crate) stat: FileStat,
}

/// Shards of one format.
pub(crate) struct NamedShards<'r> {
    pub(crate) format: &'r Arc<dyn Format>,
    /// The folder that holds all of them.
    pub(crate) folder: PathBuf,
    /// Sorted by path.
    pub(crate) shards: Vec<NamedShard>,
}

impl<'r> NamedShards<'r> {
    /// The shards that `inputs` name, of formats that `takes` accepts. Folders are searched with all folders below, but for
    /// hidden ones and links.
    ///
    /// Errors: `Config` for a missing path, a file that is not such a shard, shards of several formats, and if there are
    /// none.
    pub(crate) fn find(
        context: &ThirdParty<'r>,
        inputs: &[PathBuf],
        takes: &dyn Fn(&dyn Format) -> bool,
    ) -> Result<Self> {
        let search = Search { registry: context.registry, store: &**context.store, takes };
        let mut found = Vec::new();
        for input in inputs {
            search.input(input, &mut found)?;
        }
        let shown = || inputs.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
        let Some((_, first, _)) = found.first() else {
            return Err(Error::config("holds no shard that this works on").in_input(shown()));
        };
        let first: &'r Arc<dyn Format> = first;
        if let Some((path, other, _)) = found.iter().find(|(_, other, _)| other.info().id != first.info().id) {
            let message = format!("is of format {}, and others are of {}", other.info().id, first.info().id);
            return Err(Error::config(message).in_input(path.display()));
        }
        let folder = search.folder(inputs, &found)?;
        let suffix = first.sink(&Options::new())?.suffix();
        let mut shards = Vec::with_capacity(found.len());
        for (path, _, compression) in found {
            shards.push(shard(&**context.store, &folder, path, compression, suffix)?);
        }
        shards.sort_by(|a, b| a.file.cmp(&b.file));
        shards.dedup_by(|a, b| a.file == b.file);
        Ok(Self { format: first, folder, shards })
    }

    /// How many shards are read at once.
    pub(crate) fn threads(&self, context: &ThirdParty<'_>) -> usize {
        // A server answers many requests at once.
        if Location::url(&self.folder).is_some() { context.jobs.max(context.io_threads) } else { context.jobs }
    }

    /// Bytes of all shards.
    pub(crate) fn bytes(&self) -> u64 {
        self.shards.iter().map(|shard| shard.stat.size).sum()
    }
}

type Found<'r> = (PathBuf, &'r Arc<dyn Format>, Option<Compression>);

struct Search<'a, 'r> {
    registry: &'r Registry,
    store: &'a dyn Store,
    takes: &'a dyn Fn(&dyn Format) -> bool,
}

impl<'r> Search<'_, 'r> {
    fn input(&self, input: &Path, found: &mut Vec<Found<'r>>) -> Result<()> {
        let Some(text) = input.to_str().filter(|_| self.store.stat(input, true).is_err()) else {
            return self.path(input, found);
        };
        for name in braces(text)? {
            match is_glob(&name) {
                true => {
                    let matched = glob(self.store, Path::new(&name)).map_err(as_request_error)?;
                    // Such as the indexes beside them.
                    found.extend(matched.into_iter().filter_map(|path| self.shard(path)));
                }
                false => self.path(Path::new(&name), found)?,
            }
        }
        Ok(())
    }

    /// A path that the request names.
    fn path(&self, path: &Path, found: &mut Vec<Found<'r>>) -> Result<()> {
        let stat = self.store.stat(path, true).map_err(|e| with_suggestion(self.store, path, e))?;
        if stat.kind == FileKind::Directory {
            return self.below(path, found);
        }
        let other = || Error::config("is not a shard that this works on").in_input(path.display());
        found.push(self.shard(path.to_owned()).ok_or_else(other)?);
        Ok(())
    }

    fn below(&self, folder: &Path, found: &mut Vec<Found<'r>>) -> Result<()> {
        let mut names = self.store.list(folder)?;
        names.retain(|name| !name.as_os_str().as_encoded_bytes().starts_with(b"."));
        names.sort();
        for path in names.into_iter().map(|name| folder.join(name)) {
            match self.shard(path.clone()) {
                Some(shard) => found.push(shard),
                None if self.store.stat(&path, false)?.kind == FileKind::Directory => self.below(&path, found)?,
                None => {}
            }
        }
        Ok(())
    }

    fn shard(&self, path: PathBuf) -> Option<Found<'r>> {
        let (format, compression) = container(self.registry, &NameRules::default(), &path)?;
        (self.takes)(&**format).then_some((path, format, compression))
    }

    /// The folder that holds all shards: the one named, or else the closest.
    fn folder(&self, inputs: &[PathBuf], found: &[Found<'_>]) -> Result<PathBuf> {
        if let [only] = inputs
            && self.store.stat(only, true).is_ok_and(|stat| stat.kind == FileKind::Directory)
        {
            return Ok(only.clone());
        }
        let parents: BTreeSet<&Path> = found.iter().filter_map(|(path, ..)| path.parent()).collect();
        if let (Some(only), 1) = (parents.first(), parents.len()) {
            return Ok(if only.as_os_str().is_empty() { PathBuf::from(".") } else { only.to_path_buf() });
        }
        let parents: Vec<PathBuf> = parents.into_iter().map(Location::absolute).collect();
        let mut folder = parents.first().cloned().unwrap_or_default();
        while !parents.iter().all(|parent| parent.starts_with(&folder)) && folder.pop() {}
        // A server or a bucket is part of a URL.
        let is_url = |path: &PathBuf| Location::url(path).is_some_and(|url| Location::parse(url).is_ok());
        let holds = parents.iter().any(|parent| Location::url(parent).is_some()) == is_url(&folder);
        match folder.parent().filter(|_| holds) {
            Some(_) => Ok(folder),
            None => Err(Error::config("the shards share no folder; name those of one folder")),
        }
    }
}

fn shard(
    store: &dyn Store,
    folder: &Path,
    path: PathBuf,
    compression: Option<Compression>,
    suffix: &str,
) -> Result<NamedShard> {
    let stat = store.stat(&path, true)?;
    let relative = match path.strip_prefix(folder) {
        Ok(relative) => relative.to_owned(),
        // The folder is that of absolute paths, or `.`.
        Err(_) if folder == Path::new(".") => path.clone(),
        Err(_) => Location::absolute(&path).strip_prefix(folder).map(PathBuf::from).unwrap_or_default(),
    };
    let named = |e: Error| e.in_input(path.display());
    let file = relative.to_str().ok_or_else(|| named(Error::config("has a name that is not UTF-8; rename it")))?;
    let name = match (file.strip_suffix(suffix), compression) {
        (Some(name), _) => name,
        // Refused when it is opened.
        (None, Some(_)) => file,
        (None, None) => {
            return Err(named(Error::config(format!("does not end in {suffix}, which readers look for; rename it"))));
        }
    };
    Ok(NamedShard { name: name.to_owned(), file: file.to_owned(), path, compression, stat })
}
