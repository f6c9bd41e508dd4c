//! The metadata of samples, and the classes and splits that its columns name.

use super::label::by_column;
use super::split_lists::take_splits;
use super::{Listing, Scan, ScanOptions, matched};
use crate::metadata::{InputFolders, Metadata, TableOptions};
use crate::{Labels, MetadataRows, Recipe, SplitBy, Splits};
use packhorse_core::{Code, Error, Result, nearest};
use packhorse_storage::Location;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The settings that take a column of the metadata, and the column.
fn columns(recipe: &Recipe) -> impl Iterator<Item = (&'static str, &String)> {
    let labels = match &recipe.labels {
        Some(Labels::Column(name)) => Some(("labels", name)),
        _ => None,
    };
    let splits = match &recipe.split {
        Splits::Column(name) => Some(("split", name)),
        _ => None,
    };
    let groups = match &recipe.split_by {
        SplitBy::Column(name) => Some(("split-by", name)),
        _ => None,
    };
    labels.into_iter().chain(splits).chain(groups)
}

/// Refuses a recipe that takes labels, splits or groups from a column that is not among the metadata.
pub(crate) fn check_columns(recipe: &Recipe) -> Result<()> {
    let bad = |message: String| Err(Error::config(message).with_code(Code::BadSetting));
    if recipe.metadata_rows == MetadataRows::List
        && let Some((setting, name)) = columns(recipe).next()
    {
        return bad(format!(
            "`{setting}=column:{name}` takes one row for each sample, and `metadata-rows=list` allows several"
        ));
    }
    TableOptions::parse(&recipe.metadata_read)?;
    for (setting, name) in columns(recipe) {
        if recipe.metadata.is_none() {
            let error = Error::config(format!(
                "`{setting}=column:{name}` needs `metadata`, the table with that column; give that too"
            ));
            let own = "a field of the samples themselves stays as it is, and loaders can number its names (`Class`)";
            let error = error.with_code(Code::BadSetting);
            return Err(if setting == "labels" { error.hint(own) } else { error });
        }
        if !recipe.columns.is_empty() && !recipe.columns.contains(name) {
            return bad(format!("`{setting}` takes the column {name}, which is not in `columns`; add it there"));
        }
    }
    Ok(())
}

/// Gives each sample its row of the metadata, and the label, the split and the group that a column or a list names, as far as the recipe
/// wants that. Samples without a row, a class or a split are bad inputs.
///
/// Errors: `Config` for a column that no row has; `Content` for a bad input, under [`OnError::Fail`](crate::OnError::Fail).
pub(super) fn take_metadata(context: Scan<'_>, options: &ScanOptions<'_>, listing: &mut Listing) -> Result<()> {
    let (recipe, observer) = (options.recipe, context.observer);
    if let Splits::Lists(lists) = &recipe.split {
        take_splits(lists, recipe, listing, observer)?;
    }
    let (Some(table), Some(key)) = (&recipe.metadata, &recipe.key) else { return Ok(()) };
    // Tables are local, and so are folders that hold them.
    let inputs: Vec<PathBuf> = recipe.input.iter().filter(|input| Location::url(input).is_none()).cloned().collect();
    let inputs = matched(context.store, &inputs).unwrap_or(inputs);
    let folders = InputFolders { inputs: &inputs, roots: listing.roots() };
    let metadata = Metadata::of(context.registry, recipe, (table, key), context.limits, folders)?;
    listing.attach_metadata(&metadata, observer)?;
    listing.refuse_faults(recipe.on_error)?;
    if listing.samples() == 0 {
        return Ok(());
    }
    if let Some(Labels::Column(name)) = &recipe.labels {
        by_column(name, options.classes.clone(), listing, observer)?;
        listing.refuse_faults(recipe.on_error)?;
    }
    for (setting, name) in columns(recipe).filter(|(setting, _)| *setting != "labels") {
        keep_named(setting, name, listing)?;
        listing.refuse_faults(recipe.on_error)?;
    }
    Ok(())
}

/// Removes the samples whose rows name no split or group, as `setting` has it, in the column `name`.
fn keep_named(setting: &str, name: &str, listing: &mut Listing) -> Result<()> {
    let of = if setting == "split" { "split" } else { "group" };
    let fault = |row: Option<&str>| match name_in(row.unwrap_or_default(), name, of) {
        Ok(named) => named.is_none().then(|| no_value(name)),
        Err(e) => Some(e),
    };
    let faults: Vec<Option<Error>> = listing
        .iter()
        .map(|s| fault(s.row()).map(|e| e.in_input(s.first_path().display()).in_sample(s.key())))
        .collect();
    if !faults.is_empty() && faults.iter().flatten().filter(|e| e.code() == Code::NoMetadata).count() == faults.len() {
        return Err(without_column(listing, name, setting));
    }
    listing.retain(&faults.iter().map(Option::is_none).collect::<Vec<_>>());
    faults.into_iter().flatten().for_each(|fault| listing.add_fault(fault));
    Ok(())
}

/// The name of a class, a split or a group (`of`) in the column `name` of a metadata row; `None` for a missing value.
pub(crate) fn name_in<'a>(row: &'a str, name: &str, of: &str) -> Result<Option<Cow<'a, str>>> {
    let value = members(row)?.remove(name).map_or("null", RawValue::get);
    let found = match value.as_bytes() {
        b"null" | b"\"\"" => return Ok(None),
        [b'"', inner @ .., b'"'] if !inner.contains(&b'\\') => Cow::Borrowed(value.trim_matches('"')),
        [b'"', ..] => Cow::Owned(serde_json::from_str(value).map_err(|e| Error::bug(e.to_string()))?),
        b"true" | b"false" => Cow::Borrowed(value),
        // Tables write whole numbers so where a value is missing: 1.0.
        _ if is_whole(value.strip_suffix(".0").unwrap_or(value)) => {
            Cow::Borrowed(value.strip_suffix(".0").unwrap_or(value))
        }
        _ => {
            let message = format!("its column {name} of the metadata is {value}, which names no {of}");
            return Err(Error::content(message).hint("names are text, whole numbers or booleans"));
        }
    };
    Ok(Some(found))
}

/// The fault of a sample whose row has no value in the column `name`.
pub(crate) fn no_value(name: &str) -> Error {
    Error::content(format!("has no value in the column {name} of the metadata")).with_code(Code::NoMetadata)
}

/// The error of a column that no row has, though `setting` takes it.
pub(super) fn without_column(listing: &Listing, name: &str, setting: &str) -> Error {
    let row = listing.iter().find_map(|s| s.row()).unwrap_or_default();
    let columns: Vec<String> = members(row).unwrap_or_default().into_keys().map(Cow::into_owned).collect();
    let meant = nearest(name, columns.iter().map(String::as_str)).filter(|meant| *meant != name);
    let error = Error::config(format!(
        "no row of the metadata has a value in the column {name}, which `{setting}` takes; it has {}",
        columns.join(", ")
    ));
    meant.into_iter().fold(error, |error, meant| error.hint(format!("did you mean `{setting}=column:{meant}`?")))
}

fn is_whole(value: &str) -> bool {
    value.strip_prefix('-').unwrap_or(value).bytes().all(|b| b.is_ascii_digit())
}

fn members(row: &str) -> Result<BTreeMap<Cow<'_, str>, &RawValue>> {
    serde_json::from_str(row).map_err(|e| Error::bug(format!("a row of the metadata is not an object: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_text_whole_numbers_and_booleans() {
        let row = r#"{"t":"a cat","e":"say \"x\"","n":7,"m":-1,"w":2.0,"b":true,"0":null,"s":"","f":1.5,"l":[1]}"#;
        let found = |name: &str| name_in(row, name, "class").unwrap().map(Cow::into_owned);
        for (name, wanted) in [("t", "a cat"), ("e", "say \"x\""), ("n", "7"), ("m", "-1"), ("w", "2"), ("b", "true")] {
            assert_eq!(found(name).as_deref(), Some(wanted));
        }
        for name in ["0", "s", "none"] {
            assert_eq!(found(name), None);
        }
        for name in ["f", "l"] {
            assert!(name_in(row, name, "class").unwrap_err().to_string().contains("names no class"));
        }
        // A quote at an end belongs to the text.
        assert_eq!(name_in(r#"{"q":"\"a\""}"#, "q", "class").unwrap().as_deref(), Some("\"a\""));
    }
}
