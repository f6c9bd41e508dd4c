//! Splits that lists of samples say, as `ImageSets/Main/train.txt` of Pascal VOC.

use super::Listing;
use crate::metadata::{Metadata, is_extension};
use crate::request_error::as_request_error;
use crate::{KeyEnds, Recipe, SplitLists};
use packhorse_core::{Code, Context, Error, Event, Observer, Result, counted};
use std::collections::HashSet;
use std::path::Path;

/// A line of a list.
struct Line<'a> {
    text: String,
    number: usize,
    /// The position of its list, and its file.
    list: u16,
    path: &'a Path,
}

/// Gives each sample the split of the list that names it. Samples on no list are left out, and told.
///
/// Errors: `Config` for lists that can't be read or name no sample at all; `Content` for a sample that is listed twice;
/// `Unsupported` for rows of tables.
pub(super) fn take_splits(
    lists: &SplitLists,
    recipe: &Recipe,
    listing: &mut Listing,
    observer: &dyn Observer,
) -> Result<()> {
    if let Some(table) = listing.iter().find(|sample| sample.table().is_some()) {
        let error = Error::unsupported("holds rows, and lists of `split` name samples that are files");
        return Err(error.in_input(table.first_path().display()));
    }
    let lines = lines(lists)?;
    let whole = lines.iter().map(|line| line.text.as_str()).enumerate();
    let mut found = found(listing, &lines, whole, &recipe.key_ends)?;
    // Of lines that name nothing as they are, the first word may: a label follows it.
    let mut used: HashSet<usize> = found.iter().flatten().copied().collect();
    let first = |line: &'_ Line<'_>| {
        let (first, label) = line.text.split_once(char::is_whitespace)?;
        let is_label = !label.contains('/') && (!ends_a_name(label) || first.contains('.') && is_extension(first));
        is_label.then(|| first.to_owned())
    };
    let rest = lines.iter().enumerate().filter(|(at, _)| !used.contains(at));
    let firsts: Vec<(usize, String)> = rest.filter_map(|(at, line)| Some((at, first(line)?))).collect();
    let firsts = firsts.iter().map(|(at, first)| (*at, first.as_str()));
    for (found, of_first) in found.iter_mut().zip(self::found(listing, &lines, firsts, &recipe.key_ends)?) {
        if let (Some(one), Some(other)) = (*found, of_first)
            && let (Some(one), Some(other)) = (lines.get(one), lines.get(other))
            && one.list != other.list
        {
            return Err(twice_on(if one.list < other.list { other } else { one }));
        }
        *found = found.or(of_first);
    }
    used.extend(found.iter().flatten());
    let keep: Vec<bool> = found.iter().map(Option::is_some).collect();
    if used.is_empty() && !keep.is_empty() {
        let example = lines.first().map(|line| format!("the lists name samples such as {}", line.text));
        return Err(example.into_iter().fold(Error::config("no sample is on a list of `split`"), Error::hint));
    }
    let list = |at: usize| lines.get(at).map_or(0, |line| line.list);
    listing.splits = found.into_iter().flatten().map(list).collect();
    let tell = |text: String| observer.event(&Event::Warning(&text));
    if let Some(first) = keep.iter().position(|keep| !keep).and_then(|first| listing.sample(first)) {
        let left = counted(keep.iter().filter(|keep| !**keep).count() as u64, "sample");
        tell(format!("left out {left} on no list of `split`, such as {}", first.first_path().display()));
    }
    if let Some(first) = lines.iter().enumerate().find(|(at, _)| !used.contains(at)).map(|(_, line)| &line.text) {
        let unused = counted((lines.len() - used.len()) as u64, "line");
        tell(format!("{unused} of the lists of `split` without a sample, such as {first}"));
    }
    listing.keep_listed(&keep);
    Ok(())
}

/// Whether a text may be the end of the name of a file, with its extension. Labels such as `1.5e5` and `v1.2a` have none.
fn ends_a_name(text: &str) -> bool {
    let extension = text.rsplit_once('.').map_or("", |(_, extension)| extension);
    extension.chars().all(char::is_alphanumeric) && extension.starts_with(char::is_alphabetic)
}

/// The lines of all lists, without blank ones.
fn lines(lists: &SplitLists) -> Result<Vec<Line<'_>>> {
    let mut lines = Vec::new();
    for (list, (_, path)) in (0..).zip(lists.iter()) {
        let text = std::fs::read_to_string(path).context("read");
        let text = text.map_err(|e| as_request_error(e).in_input(path.display()))?;
        let own = text.trim_start_matches('\u{feff}').lines().map(str::trim).zip(1..);
        let own = own.filter(|(text, _)| !text.is_empty());
        lines.extend(own.map(|(text, number)| Line { text: text.to_owned(), number, list, path }));
    }
    Ok(lines)
}

/// For each sample the position of the line that names it by one of these names.
fn found<'a>(
    listing: &Listing,
    lines: &[Line<'_>],
    names: impl Iterator<Item = (usize, &'a str)>,
    key_ends: &KeyEnds,
) -> Result<Vec<Option<usize>>> {
    let mut rows = Metadata::of_names(key_ends);
    for (at, name) in names {
        let Some(line) = lines.get(at) else { continue };
        rows.insert(name, &at.to_string(), line.number as u64).map_err(|e| e.in_input(line.path.display()))?;
    }
    let at = |row: u32| rows.text(row).and_then(|text| text.parse().ok());
    let twice = |row: &u32| rows.is_twice(*row);
    let found = listing.rows_of(&rows)?;
    match found.iter().flatten().find(|row| twice(row)).and_then(|row| lines.get(at(*row)?)) {
        Some(line) => Err(twice_on(line)),
        None => Ok(found.into_iter().map(|row| at(row?)).collect()),
    }
}

fn twice_on(line: &Line<'_>) -> Error {
    let error = Error::content(format!("line {}: {} is on the lists of `split` twice", line.number, line.text));
    error.with_code(Code::KeyTwice).in_input(line.path.display()).hint("leave one of the lines")
}
