//! Where plugins are, which of them are loaded, and how many threads may be in one.
//!
//! As libhdf5 does it: the folders of `HDF5_PLUGIN_PATH`, or else the standard one, are searched for a filter when
//! first one is needed that is not built in; `HDF5_PLUGIN_PRELOAD=::` says that there are none. Files are tried in the
//! order of their names, each once; what was loaded stays so until the process ends, for code that was once called may
//! have left something behind. The list is the process's, as loaded libraries are.

use super::library::Library;
use crate::registry::{self, BLOSC2};
use packhorse_core::{Error, Result};
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{OnceLock, PoisonError, RwLock, RwLockWriteGuard};

const PATH: &str = "HDF5_PLUGIN_PATH";
const STANDARD: &str = "/usr/local/hdf5/lib/plugin";
/// Filters below are libhdf5's own.
const FIRST: u16 = 256;

const ZFP: u16 = 32013;
const SPERR: u16 = 32028;

/// A loaded filter.
pub(crate) struct Plugin {
    library: Library,
    /// libhdf5 never is in a plugin twice, and so plugins may have global state: by default one call at a time. Others
    /// are let in together once a call was done well: what it set up (`blosc2_init`) stays until a call that was not.
    gate: RwLock<bool>,
}

impl Plugin {
    /// What the filter made `input` of, into the start of `out`; returns how many bytes that is.
    pub(crate) fn decode(&self, parameters: &[u32], input: &[u8], out: &mut [u8]) -> Result<usize> {
        // zfp and sperr keep all they know in what they allocate in a call. blosc2 does so too, but after a damaged
        // chunk it takes down what is global in it while others may use that.
        let made = self.gated(matches!(self.library.id, ZFP | SPERR), true, parameters, input, out)?;
        match made <= out.len() {
            true => Ok(made),
            false => Err(Error::content(format!("a chunk is damaged: it holds {made} bytes of {}", out.len()))),
        }
    }

    /// What the filter makes of `input`, into the start of `out`; returns how many bytes that is. If they are more than
    /// `out` holds, none are in it.
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

/// The plugin of the filter `id`, if there is one.
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

/// What to do where the plugin of the filter `id` is missing to read a file.
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
        false => "put it into a folder of HDF5_PLUGIN_PATH",
    };
    let failed = search.failed.iter().map(|failure| format!("{failure}; ")).collect::<String>();
    format!("{failed}no folder of HDF5_PLUGIN_PATH has its plugin: {how}")
}

/// Files that were looked into, and that were not yet.
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

/// The files of a folder that are called as libraries are.
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
    /// Loads what is left until the filter `id` is among it.
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
