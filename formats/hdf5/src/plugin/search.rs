//! Finds and loads plugins, and limits how many threads run in one.
//!
//! As in libhdf5, the folders of `HDF5_PLUGIN_PATH`, or else the standard one, are searched when a filter that is not
//! built in is first needed; `HDF5_PLUGIN_PRELOAD=::` turns plugins off. Files are tried in name order, each once.
//! Plugins are never unloaded, since code that has run may have left pointers behind. The list is global to the
//! process, as loaded libraries are.

use super::library::Library;
use crate::registry::{self, BLOSC2};
use packhorse_core::{Error, Result};
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{OnceLock, PoisonError, RwLock, RwLockWriteGuard};

const PATH: &str = "HDF5_PLUGIN_PATH";
const STANDARD: &str = "/usr/local/hdf5/lib/plugin";
/// Filters below this number are libhdf5's own.
const FIRST: u16 = 256;

const ZFP: u16 = 32013;
const SPERR: u16 = 32028;

/// A loaded filter.
pub(crate) struct Plugin {
    library: Library,
    /// libhdf5 never calls a plugin concurrently, so plugins may have global state: by default one call at a time.
    /// Known thread-safe calls run concurrently after a successful call has initialized the plugin (`blosc2_init`),
    /// which a failed call may undo. The flag says whether the last exclusive call succeeded.
    gate: RwLock<bool>,
}

impl Plugin {
    /// Decodes `input` into the start of `out`; returns the number of bytes.
    pub(crate) fn decode(&self, parameters: &[u32], input: &[u8], out: &mut [u8]) -> Result<usize> {
        // zfp and sperr keep all state in memory of the call. So does blosc2, but after a damaged chunk it tears down
        // its global state while other calls may use it.
        let made = self.gated(matches!(self.library.id, ZFP | SPERR), true, parameters, input, out)?;
        match made <= out.len() {
            true => Ok(made),
            false => Err(Error::content(format!("a chunk is damaged: it has {made} bytes instead of {}", out.len()))),
        }
    }

    /// Encodes `input` into the start of `out`; returns the number of bytes. If they do not fit, `out` is unchanged.
    pub(crate) fn encode(&self, parameters: &[u32], input: &[u8], out: &mut [u8]) -> Result<usize> {
        self.gated(self.library.id == BLOSC2, false, parameters, input, out)
    }

    fn gated(&self, many: bool, back: bool, parameters: &[u32], input: &[u8], out: &mut [u8]) -> Result<usize> {
        if many {
            let begun = self.gate.read().unwrap_or_else(PoisonError::into_inner);
            if *begun {
                let done = self.library.run(back, parameters, input, out);
                drop(begun);
                return done.inspect_err(|_| *self.alone() = false);
            }
        }
        let mut begun = self.alone();
        let done = self.library.run(back, parameters, input, out);
        *begun = done.is_ok();
        done
    }

    fn alone(&self) -> RwLockWriteGuard<'_, bool> {
        self.gate.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The plugin of the filter `id`, if it can be found.
pub(crate) fn find(id: u16) -> Option<&'static Plugin> {
    if id < FIRST {
        return None;
    }
    let search = search();
    let known = search.read().unwrap_or_else(PoisonError::into_inner);
    if let Some(plugin) = known.found.get(&id) {
        return Some(plugin);
    }
    if known.rest.is_empty() {
        return None;
    }
    drop(known);
    search.write().unwrap_or_else(PoisonError::into_inner).until(id)
}

/// What to do if the plugin of the filter `id` is missing for reading.
pub(crate) fn advice(id: u16) -> String {
    match registry::in_wheel(id) {
        true => install(id),
        false if id < FIRST => "rewrite the file with h5repack -f GZIP=4".to_owned(),
        false => format!("{}, or rewrite the file with h5repack -f GZIP=4", install(id)),
    }
}

/// How to get the plugin of the filter `id`.
pub(crate) fn install(id: u16) -> String {
    let search = search().read().unwrap_or_else(PoisonError::into_inner);
    let how = match registry::in_wheel(id) {
        true => {
            "pip install hdf5plugin; export HDF5_PLUGIN_PATH=$(python -c 'import hdf5plugin; \
                 print(hdf5plugin.PLUGIN_PATH)')"
        }
        false => "put it into one",
    };
    let failed = search.failed.iter().map(|failure| format!("{failure}; ")).collect::<String>();
    format!("{failed}no folder of HDF5_PLUGIN_PATH has its plugin: {how}")
}

/// Loaded plugins, and files not yet tried.
struct Search {
    found: BTreeMap<u16, &'static Plugin>,
    rest: VecDeque<PathBuf>,
    failed: Vec<String>,
}

fn search() -> &'static RwLock<Search> {
    static SEARCH: OnceLock<RwLock<Search>> = OnceLock::new();
    SEARCH.get_or_init(|| {
        let off = std::env::var_os("HDF5_PLUGIN_PRELOAD").is_some_and(|value| value == "::");
        let folders: Vec<PathBuf> = match std::env::var_os(PATH) {
            _ if off => Vec::new(),
            Some(path) => std::env::split_paths(&path).collect(),
            None => vec![STANDARD.into()],
        };
        let rest = folders.iter().flat_map(|folder| libraries(folder)).collect();
        RwLock::new(Search { found: BTreeMap::new(), rest, failed: Vec::new() })
    })
}

/// The files of a folder with names of shared libraries, sorted.
fn libraries(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(|entry| entry.ok());
    let named = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.contains(".so") || name.ends_with(".dylib")
    };
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(named).collect();
    files.sort();
    files
}

impl Search {
    /// Loads further files until one is the filter `id`.
    fn until(&mut self, id: u16) -> Option<&'static Plugin> {
        while !self.found.contains_key(&id) {
            let path = self.rest.pop_front()?;
            match Library::load(&path) {
                Ok(None) => {}
                Ok(Some(library)) => {
                    self.found
                        .entry(library.id)
                        .or_insert_with(|| Box::leak(Box::new(Plugin { library, gate: RwLock::default() })));
                }
                Err(why) => self.failed.push(format!("{} was not loaded: {why}", path.display())),
            }
        }
        self.found.get(&id).copied()
    }
}
