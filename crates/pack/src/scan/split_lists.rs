//! Splits that lists of samples say, as `ImageSets/Main/train.txt` of Pascal VOC.

use super::Listing;
use crate::metadata::Metadata;
use crate::request_error::as_request_error;
use crate::{KeyEnds, Recipe, SplitLists};
use packhorse_core::{Code, Context, Error, Event, Observer, Result, counted};

/// Gives each sample the split of the list that names it. Samples on no list are left out, and told.
///
/// Errors: `Config` for lists that can't be read or name no sample at all; `Content` for a sample on two lists.
pub(super) fn take_splits(
    lists: &SplitLists,
    recipe: &Recipe,
    listing: &mut Listing,
    observer: &dyn Observer,
) -> Result<()> {
    let names = listed(lists, &recipe.key_ends)?;
    let rows = listing.rows_of(&names)?;
    let keep: Vec<bool> = rows.iter().map(Option::is_some).collect();
    let left = keep.iter().filter(|keep| !**keep).count();
    if left == keep.len() && left > 0 {
        let message = "no sample is on a list of `split`";
        let example = names.keys().next().map(|name| format!("the lists name samples such as {name}"));
        return Err(example.into_iter().fold(Error::config(message), Error::hint));
    }
    // A row is the position of its list.
    let split = |row: u32| names.text(row).and_then(|text| text.parse().ok()).unwrap_or_default();
    listing.splits = rows.into_iter().flatten().map(split).collect();
    let tell = |text: String| observer.event(&Event::Warning(&text));
    if let Some(first) = keep.iter().position(|keep| !keep).and_then(|first| listing.sample(first)) {
        let (left, path) = (counted(left as u64, "sample"), first.first_path());
        tell(format!("left out {left} on no list of `split`, such as {}", path.display()));
    }
    if let (lines, Some(first)) = names.unused() {
        tell(format!("{} of the lists of `split` without a sample, such as {first}", counted(lines, "line")));
    }
    listing.keep_listed(&keep);
    Ok(())
}

/// The samples on the lists, each with the position of its list.
fn listed(lists: &SplitLists, key_ends: &KeyEnds) -> Result<Metadata> {
    let mut names = Metadata::of_names(key_ends);
    for (number, (_, path)) in lists.iter().enumerate() {
        let named = |e: Error| as_request_error(e).in_input(path.display());
        let text = std::fs::read_to_string(path).context("read").map_err(named)?;
        let lines = text.trim_start_matches('\u{feff}').lines().zip(1..);
        for (name, line) in lines.filter_map(|(text, line)| Some((text.split_whitespace().next()?, line))) {
            names.insert(name, &number.to_string(), line).map_err(|e| match e.code() {
                Code::KeyTwice => {
                    named(Error::content(format!("line {line}: {name} is on the lists of `split` twice")))
                }
                _ => named(e),
            })?;
        }
    }
    Ok(names)
}
