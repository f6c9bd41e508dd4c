//! Warns of folders that seem to be samples, or fields, though by the default rule each file in them is a sample.

use super::Listing;
use super::sample::SampleRef;
use packhorse_core::{counted, unescape};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{BuildHasher, RandomState};

/// Samples that are looked at, and those where folders have the names of targets.
const LOOKED_AT: usize = 100_000;
const LOOKED_AT_FOR_TARGETS: usize = 2_000_000;

/// The most files of a folder that seems to be a sample.
const MOST_FILES: usize = 32;

/// Parts of the names of folders that hold what belongs to pictures in another folder.
const TARGETS: [&str; 8] = ["annot", "caption", "depth", "gt", "label", "mask", "seg", "target"];

/// A warning for folders that hold files of the same names, such as `s1/left.png`, `s1/right.png`, `s2/left.png`.
pub(super) fn of_samples(listing: &Listing) -> Option<String> {
    let mut folders: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    let mut files = 0;
    for sample in plain(listing, LOOKED_AT) {
        let names = folders.entry(sample.folder()).or_default();
        if names.len() <= MOST_FILES {
            names.extend(sample.fields().map(|(field, _)| format!("{}.{field}", base(&sample.key()))));
        }
        files += sample.fields().count();
    }
    folders.remove("");
    let mut alike: BTreeMap<&BTreeSet<String>, (usize, &str)> = BTreeMap::new();
    for (folder, names) in folders.iter().filter(|(_, names)| are_parts(names)) {
        alike.entry(names).or_insert((0, folder)).0 += 1;
    }
    let (names, (count, first)) = alike.into_iter().max_by_key(|(names, (count, _))| count * names.len())?;
    if count < 2 || count * names.len() * 2 <= files {
        return None;
    }
    let shown: Vec<&str> = names.iter().map(String::as_str).take(3).collect();
    let more = if names.len() > shown.len() { " …" } else { "" };
    let (folders, shown) = (counted(count as u64, "folder"), shown.join(", "));
    Some(format!(
        "{folders} such as {first} hold files of the same names ({shown}{more}), and each name is a sample of its own; if \
         each folder is a sample, pass `key-ends=sample-folders`"
    ))
}

/// Whether these names are of parts of a sample: of several keys, none of which ends with a number, as frames do.
fn are_parts(names: &BTreeSet<String>) -> bool {
    let stem = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
    let stems: BTreeSet<String> = names.iter().map(|name| stem(name)).collect();
    let numbered = |stem: &String| stem.ends_with(|c: char| c.is_ascii_digit());
    (2..=MOST_FILES).contains(&names.len()) && stems.len() > 1 && !stems.iter().any(numbered)
}

/// A warning for keys that differ in a folder alone, such as `images/1` and `masks/1`.
pub(super) fn of_fields(listing: &Listing) -> Option<String> {
    // Most listings end here, at no cost for each sample.
    if !listing.places.iter().any(|place| place.folder_key.split('/').any(is_target)) {
        return None;
    }
    let keys = || plain(listing, LOOKED_AT_FOR_TARGETS).map(|sample| sample.key());
    let hasher = RandomState::new();
    // The keys without the folder of targets, and the name of the folder.
    let mut targets: HashSet<u64> = HashSet::new();
    let (mut name, mut names) = (String::new(), BTreeSet::new());
    for key in keys() {
        if let Some((folder, rest)) = without_folders(&key).find(|(folder, _)| is_target(folder)) {
            targets.insert(hasher.hash_one(rest));
            name = folder.to_owned();
            names.insert(folder.to_owned());
        }
    }
    let mut others: BTreeMap<String, (usize, String)> = BTreeMap::new();
    for key in keys() {
        if without_folders(&key).any(|(folder, _)| is_target(folder)) {
            continue;
        }
        if let Some((folder, rest)) = without_folders(&key).find(|(_, rest)| targets.contains(&hasher.hash_one(rest))) {
            others.entry(folder.to_owned()).or_insert_with(|| (0, rest)).0 += 1;
        }
    }
    names.extend(others.keys().cloned());
    let (other, (count, rest)) = others.into_iter().max_by_key(|(_, (count, _))| *count)?;
    if count < 2 || count * 10 < targets.len() * 9 {
        return None;
    }
    let is_first = keys().any(|key| key.split('/').next() == Some(&other));
    let names: Vec<String> = names.iter().map(|name| regex::escape(&unescape(name))).collect();
    let names = names.join("|");
    let advice = match is_first {
        true => "`key-ends=field-folders`".to_owned(),
        false => format!("`key-ends=path:^(?<key1>.+)/(?<field>{names})/(?<key2>.+?)(?<ext>[.][^/]+)$`"),
    };
    Some(format!(
        "files of the same names in the folders {other} and {name} are samples of their own, such as two for {rest}; if they \
         belong together, pass {advice}, which names fields after folders"
    ))
}

/// The samples of files in folders, the first ones.
fn plain(listing: &Listing, most: usize) -> impl Iterator<Item = SampleRef<'_>> {
    listing.iter().take(most).filter(|sample| sample.table().is_none() && sample.shard().is_none())
}

fn is_target(folder: &str) -> bool {
    let plural = folder.strip_suffix(['s', 'S']).unwrap_or_default();
    TARGETS.iter().any(|target| {
        let begins = folder.get(..target.len()).is_some_and(|start| start.eq_ignore_ascii_case(target));
        let end = plural.len().checked_sub(target.len()).and_then(|start| plural.get(start..));
        begins || end.is_some_and(|end| end.eq_ignore_ascii_case(target))
    })
}

/// For each folder of a key its name, and the key without it.
fn without_folders(key: &str) -> impl Iterator<Item = (&str, String)> {
    key.match_indices('/').map(|(end, _)| {
        let start = key.get(..end).and_then(|before| before.rfind('/')).map_or(0, |slash| slash + 1);
        let part = |range: Option<&str>| range.unwrap_or_default().to_owned();
        let rest = part(key.get(..start)) + &part(key.get(end + 1..));
        (key.get(start..end).unwrap_or_default(), rest)
    })
}

fn base(key: &str) -> &str {
    key.rsplit('/').next().unwrap_or(key)
}
