//! The last error of each part of a plan, beside the shards, so that a look at the dataset tells why shards are missing.
//!
//! Notes are for people: none is needed, and one that can't be written, read or removed changes nothing.

use crate::Part;
use crate::parallel_map::parallel_map;
use crate::plans::open_plan;
use crate::replace::plan_folder;
use packhorse_core::{Code, Error, Kind, Result, Store};
use packhorse_dataset::{ERRORS, PartError, PlanReader};
use packhorse_storage::{Location, Staging, host_name};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// The most notes that are read.
const MOST: usize = 1000;

/// Notes read at once.
const THREADS: usize = 32;

/// Notes how filling `part` of the plan in the folder `out` ended: an error is kept until the part's next success.
pub(crate) fn keep<T>(store: &Arc<dyn Store>, out: &Path, part: Part, done: &Result<T>) {
    // An object store that fails would be tried for minutes again.
    let unreachable = |e: &Error| e.kind() == Kind::Environment && Location::url(out).is_some();
    // The folder belongs to another job.
    let replaced = |e: &Error| e.code() == Code::OutputBusy;
    let _ = match done {
        Ok(_) => {
            plan_folder(store, out).and_then(|place| forget(store, &place, &[PartError::file_name(&part.to_string())]))
        }
        Err(e) if unreachable(e) || replaced(e) => Ok(()),
        Err(e) => write(store, out, part, e),
    };
}

fn write(store: &Arc<dyn Store>, out: &Path, part: Part, error: &Error) -> Result<()> {
    let place = plan_folder(store, out)?;
    let plan = open_plan(&**store, &place)?.digest();
    let (part, process) = (part.to_string(), (host_name(), std::process::id()));
    let name = PartError::file_name(&part);
    let note = PartError::new(error, plan, part, now(), process).encode()?;
    Staging::open(store.clone(), &place)?.document(&name, &note).map(drop)
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Removes notes of the dataset in the folder `place`, through no link.
fn forget(store: &Arc<dyn Store>, place: &Path, names: &[String]) -> Result<()> {
    let store = store.beneath(place)?.unwrap_or_else(|| Arc::clone(store));
    names.iter().try_for_each(|name| store.remove(&place.join(name)))?;
    store.remove_dir(&place.join(ERRORS))
}

/// Removes all notes of the dataset in the folder `place`, whose shards are complete.
pub(crate) fn forget_all(store: &Arc<dyn Store>, place: &Path) {
    // A note that was not written may have left an empty folder.
    let _ = forget(store, place, &names(&**store, place));
}

/// The notes of parts of `plan` that still lack one of the `missing` shards, in order of the parts: of a thousand notes at
/// most.
pub(crate) fn of_missing(store: &dyn Store, place: &Path, plan: &PlanReader, missing: &[&str]) -> Vec<PartError> {
    if missing.is_empty() {
        return Vec::new();
    }
    let missing: BTreeSet<&str> = missing.iter().copied().collect();
    let numbers: Vec<usize> =
        plan.shards().iter().enumerate().filter(|(_, s)| missing.contains(&*s.name)).map(|(i, _)| i).collect();
    let read = |name: &String| {
        let found = store.open(&place.join(name)).and_then(|input| input.read_all(PartError::MOST_BYTES));
        Ok(found.and_then(|bytes| PartError::decode(&bytes)).ok())
    };
    let mut names = names(store, place);
    names.truncate(MOST);
    let notes = parallel_map(&names, THREADS.min(names.len()), &read).unwrap_or_default();
    let part = |note: &PartError| note.part.parse::<Part>().ok();
    let counts = |note: &PartError| {
        note.plan == plan.digest() && part(note).is_some_and(|part| numbers.iter().any(|number| part.holds(*number)))
    };
    notes.into_iter().flatten().filter(counts).collect()
}

/// The names of the notes, in order of the parts.
fn names(store: &dyn Store, place: &Path) -> Vec<String> {
    let part = |name: &Path| -> Option<(u32, u32)> {
        let (index, count) = name.to_str()?.strip_suffix(".json")?.split_once("-of-")?;
        Some((count.parse().ok()?, index.parse().ok()?))
    };
    let found: BTreeSet<(u32, u32)> =
        store.list(&place.join(ERRORS)).unwrap_or_default().iter().filter_map(|name| part(name)).collect();
    found.into_iter().map(|(count, index)| PartError::file_name(&format!("{index}/{count}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use packhorse_storage::Local;

    #[test]
    fn notes_that_others_put_there_are_passed_over() {
        let (out, victim) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (folder, store) = (out.path().join(ERRORS), Arc::new(Local) as Arc<dyn Store>);
        assert!(names(&Local, out.path()).is_empty());
        std::fs::create_dir(&folder).unwrap();
        for name in ["2-of-8.json", "10-of-8.json", "1-of-2.json", "notes.txt", "x-of-2.json"] {
            std::fs::write(folder.join(name), b"{").unwrap();
        }
        let wanted = ["1-of-2", "2-of-8", "10-of-8"].map(|name| format!("{ERRORS}/{name}.json"));
        assert_eq!(names(&Local, out.path()), wanted);
        forget_all(&store, out.path());
        let left: BTreeSet<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["notes.txt", "x-of-2.json"].map(Into::into).into());
        std::fs::remove_dir_all(&folder).unwrap();
        std::fs::write(victim.path().join("1-of-2.json"), b"precious").unwrap();
        std::os::unix::fs::symlink(victim.path(), &folder).unwrap();
        forget_all(&store, out.path());
        assert!(victim.path().join("1-of-2.json").is_file());
    }
}
