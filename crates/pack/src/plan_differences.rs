//! Compares the plan of a request with the one in its folder, and says how they differ.

use crate::plan::Plan;
use packhorse_core::{Code, Error, Kind, Result};
use packhorse_dataset::{Digest, FieldSource, PlanEntry, PlanHeader, PlanReader, SourceRecord};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

/// The most inputs of plans that are compared one by one.
const MOST: usize = 4_000_000;

/// Errors: `Config` if `new` is another plan than `old`, `Changed` if its inputs have other times.
pub(crate) fn same(old: &PlanReader, new: &Plan, digest: Digest, stamps: Digest) -> Result<()> {
    if old.digest() != digest {
        let what = difference(old, new);
        let error = Error::config(format!("holds finished shards of another plan ({what})"));
        return Err(error.with_code(Code::PlanDiffers).hint(
            "give `out` a new folder, or start over with `replace`, which keeps this dataset until the new one is sealed",
        ));
    }
    if old.mtime_digest() != stamps {
        let example = differing_input(old, new, true).map_or_else(String::new, |what| format!(" ({what})"));
        let message = format!(
            "some inputs were modified since the plan in this folder was made, though none changed its size{example}; \
             pack into a new folder, start over with `replace`, or give them back the times they had"
        );
        return Err(Error::new(Kind::Changed, message));
    }
    Ok(())
}

/// How two plans differ, for a message.
pub(crate) fn difference(old: &PlanReader, new: &Plan) -> String {
    let settings = differing_settings(old.header(), new.header());
    let found = settings.or_else(|| differing_input(old, new, false));
    found.unwrap_or_else(|| "its inputs differ or have changed".to_owned())
}

/// The first input that is not the same in two plans of one recipe, for a message: in its size or its sample, or else `in_time`.
/// `None` for very many, and where none differs.
fn differing_input(old: &PlanReader, new: &Plan, in_time: bool) -> Option<String> {
    let place = |piece: &FieldSource| (piece.root, piece.path.clone());
    let shown = |(_, path): &(u32, packhorse_dataset::PathText)| path.to_path().display().to_string();
    // A file that several samples share, such as a tar, does not tell which of them differs.
    let mut now: BTreeMap<_, (u64, i64, Option<u64>, bool)> = BTreeMap::new();
    for entry in new.entries_in_memory() {
        let said = said_of(&entry);
        for piece in &entry.fields {
            now.entry(place(piece))
                .and_modify(|(_, _, known, _)| *known = known.filter(|known| *known == said))
                .or_insert((piece.size, piece.mtime, Some(said), false));
        }
        if now.len() > MOST {
            return None;
        }
    }
    if now.is_empty() {
        return None;
    }
    let entries = old.shards().iter().map(|shard| old.entries(shard));
    for entry in entries.flat_map(|entries| entries.map_or_else(|e| vec![Err(e)], Iterator::collect)) {
        let entry = entry.ok()?;
        let said_then = said_of(&entry);
        for piece in entry.fields {
            let place = place(&piece);
            match now.get_mut(&place) {
                None => return Some(format!("{} is gone, or left out now", shown(&place))),
                Some((size, ..)) if *size != piece.size => {
                    return Some(format!("{} had {} bytes and has {size} now", shown(&place), piece.size));
                }
                Some((_, mtime, ..)) if in_time && *mtime != piece.mtime => {
                    return Some(format!("{} was modified", shown(&place)));
                }
                Some((_, _, said, _)) if said.is_some_and(|said| said != said_then) && piece.items.is_none() => {
                    return Some(format!("{} has another key or label, or other metadata", shown(&place)));
                }
                Some((.., known)) => *known = true,
            }
        }
    }
    let mut added = now.iter().filter(|(_, (.., known))| !known).map(|(place, _)| place);
    added.next().map(|place| format!("{} is new", shown(place)))
}

/// What a plan says of a sample beside its files, for a comparison.
fn said_of(entry: &PlanEntry) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&entry.key, entry.cls, entry.json.as_ref().map(|json| json.get())).hash(&mut hasher);
    hasher.finish()
}

/// How the settings of two plans differ; `None` if they are the same.
fn differing_settings(old: &PlanHeader, new: &PlanHeader) -> Option<String> {
    let mut parts = Vec::new();
    let mut compare = |what: &str, old: String, new: String| {
        if old != new {
            parts.push(format!("{what}: {old} there, {new} now"));
        }
    };
    compare(
        "format",
        format!("{} revision {}", old.sink.format, old.sink.revision),
        format!("{} revision {}", new.sink.format, new.sink.revision),
    );
    compare("`name`", old.name.clone(), new.name.clone());
    let (was, is) = apart(&old.transforms.join("; "), &new.transforms.join("; "));
    compare("transforms", was, is);
    let names = |h: &PlanHeader| h.choices.keys().chain(h.sink.options.keys()).cloned().collect::<BTreeSet<_>>();
    let value = |h: &PlanHeader, name: &str| {
        h.choices.get(name).or_else(|| h.sink.options.get(name)).cloned().unwrap_or_else(|| "not given".into())
    };
    for name in names(old).union(&names(new)) {
        compare(&format!("`{name}`"), value(old, name), value(new, name));
    }
    let read = |h: &PlanHeader| {
        let options = |source: &SourceRecord| {
            source.options.iter().map(|(name, value)| format!("{} {name}={value}", source.format)).collect::<Vec<_>>()
        };
        shown(&h.sources.iter().flat_map(options).collect::<Vec<_>>())
    };
    compare("settings of inputs", read(old), read(new));
    compare("classes (`labels`)", shown(&old.classes), shown(&new.classes));
    let fields = |h: &PlanHeader| shown(&h.schema.iter().map(|f| f.name.clone()).collect::<Vec<_>>());
    compare("fields", fields(old), fields(new));
    if parts.is_empty() { None } else { Some(parts.join("; ")) }
}

/// Two texts for a message, from the first word on in which they differ.
pub(crate) fn apart(old: &str, new: &str) -> (String, String) {
    let same = old.bytes().zip(new.bytes()).take_while(|(a, b)| a == b).count();
    let start = old.get(..same).and_then(|same| same.rfind([' ', ','])).map_or(0, |at| at + 1);
    let rest = |text: &str| match text.get(start..).map(str::trim) {
        None | Some("") => "nothing more".to_owned(),
        Some(rest) => shown(&[rest.to_owned()]),
    };
    (rest(old), rest(new))
}

/// A list for a message, cut if it is long.
fn shown(list: &[String]) -> String {
    const LONGEST: usize = 80;
    let text = if list.is_empty() { "none".to_owned() } else { list.join(", ") };
    match text.char_indices().nth(LONGEST) {
        None => text,
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
    }
}
