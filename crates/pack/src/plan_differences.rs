//! Compares the plan of a request with the one in its folder, and says how they differ.

use packhorse_core::{Code, Error, Kind, Result};
use packhorse_dataset::{Digest, PlanHeader, PlanReader};
use std::collections::BTreeSet;

/// Errors: `Config` if `new` is another plan than `old`, `Changed` if its inputs have other times.
pub(crate) fn same(old: &PlanReader, new: &PlanHeader, digest: Digest, stamps: Digest) -> Result<()> {
    if old.digest() != digest {
        let what = differences(old.header(), new);
        let error = Error::config(format!("holds finished shards of another plan ({what})"));
        return Err(error.with_code(Code::PlanDiffers).hint(
            "give `out` a new folder, or start over with `replace`, which keeps this dataset until the new one is sealed",
        ));
    }
    if old.mtime_digest() != stamps {
        return Err(Error::new(
            Kind::Changed,
            "some inputs were modified since the plan in this folder was made, though none changed its size; \
             pack into a new folder, start over with `replace`, or give them back the times they had",
        ));
    }
    Ok(())
}

/// How two plans differ, for a message.
pub(crate) fn differences(old: &PlanHeader, new: &PlanHeader) -> String {
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
    compare("classes (`labels`)", shown(&old.classes), shown(&new.classes));
    let fields = |h: &PlanHeader| shown(&h.schema.iter().map(|f| f.name.clone()).collect::<Vec<_>>());
    compare("fields", fields(old), fields(new));
    if parts.is_empty() { "its inputs differ or have changed".to_owned() } else { parts.join("; ") }
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
