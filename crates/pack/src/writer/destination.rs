//! The folder that the dataset goes to.

use crate::refuse_view::refuse_view;
use crate::replace::{finish_replacing, refuse_adopted};
use crate::request_error::as_output_error;
use packhorse_core::{Code, Error, FileKind, Result, Store};
use packhorse_dataset::{MANIFEST, PLAN};
use packhorse_storage::{Location, Staging};
use std::any::Any;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A folder that no other writer of this machine uses.
pub(super) struct Destination {
    out: PathBuf,
    /// Where the dataset is written: `out`, or its `.replacing` folder.
    dir: PathBuf,
    replaces: bool,
    _lock: Option<Box<dyn Any + Send>>,
}

impl Destination {
    /// Makes the folder `out`. If `replaces`, it may hold a dataset, which stays until the new one is sealed.
    ///
    /// Errors: `Config` if it holds anything else; `Environment` if another process writes to it.
    pub(super) fn claim(store: &Arc<dyn Store>, out: &Path, replaces: bool) -> Result<Self> {
        let named = |e: Error| as_output_error(e, out);
        // Files of a program's samples stay staged until the plan is known, which object stores can't do.
        Location::local(out)?;
        // Also creates the folder.
        drop(Staging::open(store.clone(), out).map_err(named)?);
        let lock = store.lock(out)?;
        finish_replacing(store, out)?;
        if replaces {
            refuse_adopted(&**store, out)?;
        }
        let dir = free(&**store, out, replaces).map_err(named)?;
        Ok(Self { out: out.to_owned(), dir, replaces, _lock: lock })
    }

    /// The staging folder.
    pub(super) fn staging(&self, store: &Arc<dyn Store>) -> Result<Staging> {
        Staging::sweep(&**store, &self.dir, false);
        Staging::open(store.clone(), &self.dir).map_err(|e| as_output_error(e, &self.dir))
    }

    /// Refuses a folder that got other files meanwhile.
    pub(super) fn check(&self, store: &dyn Store) -> Result<()> {
        match free(store, &self.out, self.replaces)? == self.dir {
            true => Ok(()),
            false => Err(taken("was filled or emptied by another program meanwhile", &self.out)),
        }
    }

    pub(super) fn out(&self) -> &Path {
        &self.out
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn is_replacement(&self) -> bool {
        self.dir != self.out
    }
}

/// Refuses a folder that no new dataset can go to. Writes nothing.
pub(crate) fn check_free(store: &dyn Store, out: &Path, replaces: bool) -> Result<()> {
    Location::local(out)?;
    let found = match free(store, out, replaces) {
        // The folder is made when there is something to write. A file above it is in its way.
        Err(e) if e.is_not_found() => {
            let above = out.ancestors().skip(1);
            let above = above.map(|above| if above.as_os_str().is_empty() { Path::new(".") } else { above });
            let mut found = above.map(|above| (above, store.stat(above, true)));
            match found.find(|(_, found)| !found.as_ref().is_err_and(Error::is_not_found)) {
                Some((above, Ok(stat))) if stat.kind != FileKind::Directory => {
                    Err(Error::config("is not a folder").in_input(above.display()))
                }
                Some((_, found)) => found.map(drop),
                None => Ok(()),
            }
        }
        found => found.map(drop),
    };
    found.map_err(|e| as_output_error(e, out))
}

/// The folder to write to for a dataset in `out`.
fn free(store: &dyn Store, out: &Path, replaces: bool) -> Result<PathBuf> {
    let names = store.list(out)?;
    let has = |name: &str| names.iter().any(|found| found == Path::new(name));
    let other = names.iter().find(|name| *name != Path::new(".staging"));
    match (other, has(PLAN) || has(MANIFEST)) {
        (None, _) => Ok(out.to_owned()),
        (Some(_), true) if replaces => Ok(Staging::replacing(out)),
        (Some(_), true) => Err(taken("holds a dataset, or a part of one", out).hint(
            "give `out` a new folder, or start over with `replace`, which keeps this dataset until the new one is sealed",
        )),
        (Some(name), false) => {
            refuse_view(store, out)?;
            let taken = taken(&format!("is not empty (it holds {}) and has no plan", name.display()), out);
            Err(taken.hint("give `out` an empty or a new folder"))
        }
    }
}

fn taken(what: &str, out: &Path) -> Error {
    Error::config(what).with_code(Code::OutputExists).in_input(out.display())
}
