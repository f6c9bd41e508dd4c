//! Labels from folder names, or from a column of the metadata.

use super::metadata_names::{name_in, no_value, without_column};
use super::split_names::{alone, without_split};
use super::{Listing, SampleRef, ScanOptions};
use crate::{Labels, Splits};
use packhorse_core::{Code, Error, Event, Observer, Result};
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

/// Labels each sample with the position of its folder in the class list: the given one, or all classes sorted as text, as
/// torchvision's ImageFolder sorts them. Removes samples without a folder or of an unknown class, as faults.
pub(super) fn by_folder(
    labels: &Labels,
    options: &ScanOptions<'_>,
    listing: &mut Listing,
    observer: &dyn Observer,
) -> Result<()> {
    let splits = &options.recipe.split;
    label_folders(labels, splits, listing, |names, listing| match &options.classes {
        Some(list) => list.clone(),
        None => {
            let mut list = names.to_vec();
            list.sort_unstable();
            let deeper = || deeper_folder(listing, splits).map(str::to_owned);
            warn_of_classes(labels, &list, &deeper, observer);
            list
        }
    })
}

/// The same for a part of a listing. Without a class list, classes are numbered as they come.
pub(crate) fn part_by_folder(
    labels: &Labels,
    splits: &Splits,
    classes: Option<&[String]>,
    part: &mut Listing,
) -> Result<()> {
    label_folders(labels, splits, part, |names, _| classes.unwrap_or(names).to_vec())
}

fn label_folders(
    labels: &Labels,
    splits: &Splits,
    listing: &mut Listing,
    list: impl FnOnce(&[String], &Listing) -> Vec<String>,
) -> Result<()> {
    refuse_own(listing)?;
    let found = Found::by(listing, |s| class_of(labels, s, splits));
    let list = list(&found.names, listing);
    let faults = found.label(listing, list, || Error::content("is not in a class folder"));
    faults.into_iter().for_each(|fault| listing.add_fault(fault));
    Ok(())
}

/// The class that the folders of a sample name, beside the one that names its split.
fn class_of<'a>(labels: &Labels, sample: &SampleRef<'a>, splits: &Splits) -> Option<Cow<'a, str>> {
    match without_split(sample, splits) {
        Cow::Borrowed(folders) => labels.folder(folders),
        Cow::Owned(folders) => labels.folder(&folders).map(|class| class.into_owned().into()),
    }
}

/// A folder below those of classes.
pub(crate) fn deeper_folder<'a>(listing: &'a Listing, splits: &Splits) -> Option<&'a str> {
    listing.iter().find(|sample| without_split(sample, splits).contains('/')).map(|sample| sample.file_folder())
}

/// Warns of sorted classes of folders that look like a mistake.
pub(crate) fn warn_of_classes(
    labels: &Labels,
    list: &[String],
    deeper: &dyn Fn() -> Option<String>,
    observer: &dyn Observer,
) {
    warn_of_folders(labels, list, deeper, observer);
    let advice = "a class list (`classes`) with a name a line gives another order";
    warn_of_numbers(list, &format!("classes are numbered by their names as text; {advice}"), observer);
}

/// Labels each sample by the column `name` of its metadata row. Without a class list, whole numbers have the order of their
/// values. Samples without a value and those of an unknown class are bad inputs.
///
/// Errors: `Config` for a column that no row has; `Content` for a value that names no class.
pub(super) fn by_column(
    name: &str,
    list: Option<Vec<String>>,
    listing: &mut Listing,
    observer: &dyn Observer,
) -> Result<()> {
    refuse_own(listing)?;
    let unfit: RefCell<Vec<Error>> = RefCell::default();
    let found = Found::by(listing, |s| {
        name_in(s.row().unwrap_or_default(), name, "class").unwrap_or_else(|e| {
            unfit.borrow_mut().push(e.in_input(s.first_path().display()).in_sample(s.key()));
            None
        })
    });
    if found.names.is_empty() && unfit.borrow().is_empty() {
        return Err(without_column(listing, name, "labels"));
    }
    let list = list.unwrap_or_else(|| {
        let mut list = found.names.clone();
        let numbers = list.iter().filter(|class| number(class).is_some()).count();
        let advice = "give a class list (`classes`), or keep the number in its column";
        if numbers == list.len() {
            list.sort_unstable_by_key(|class| number(class));
            warn_of_numbers(&list, &format!("labels count from 0 without gaps; {advice}"), observer);
        } else {
            list.sort_unstable();
            if let Some(text) = list.iter().find(|class| number(class).is_none()).filter(|_| numbers > 1) {
                let text = format!(
                    "classes are sorted as text, since {text} is none of the numbers that others are; {advice}"
                );
                observer.event(&Event::Warning(&text));
            }
        }
        list
    });
    let unfit = unfit.into_inner();
    let mut faults = found.label(listing, list, || no_value(name));
    // Those say more of their samples.
    let told: HashSet<Option<&str>> = unfit.iter().map(Error::sample).collect();
    faults.retain(|fault| !told.contains(&fault.sample()));
    unfit.into_iter().chain(faults).for_each(|fault| listing.add_fault(fault));
    Ok(())
}

/// The classes of samples.
struct Found {
    /// Each class once.
    names: Vec<String>,
    /// Of each sample, the position of its class in `names`.
    of: Vec<Option<u32>>,
}

impl Found {
    fn by<'a>(listing: &'a Listing, class: impl Fn(&SampleRef<'a>) -> Option<Cow<'a, str>>) -> Self {
        let mut known: HashMap<Cow<'a, str>, u32> = HashMap::new();
        let mut found = Self { names: Vec::new(), of: Vec::with_capacity(listing.samples()) };
        for sample in listing.iter() {
            let position = class(&sample).map(|class| match known.get(&class) {
                Some(position) => *position,
                None => {
                    let position = found.names.len() as u32;
                    found.names.push(class.clone().into_owned());
                    known.insert(class, position);
                    position
                }
            });
            found.of.push(position);
        }
        found
    }

    /// Gives the samples their labels by the class list, and removes those without one: their faults.
    fn label(self, listing: &mut Listing, list: Vec<String>, none: impl Fn() -> Error) -> Vec<Error> {
        let positions: HashMap<&str, u32> = list.iter().enumerate().map(|(i, c)| (c.as_str(), i as u32)).collect();
        let labels: Vec<Option<u32>> = self.names.iter().map(|name| positions.get(name.as_str()).copied()).collect();
        let label = |of: &Option<u32>| of.and_then(|of| labels.get(of as usize).copied().flatten());
        let fault = |(sample, of): (SampleRef<'_>, &Option<u32>)| {
            let error = match of.and_then(|of| self.names.get(of as usize)) {
                _ if label(of).is_some() => return None,
                None => none(),
                Some(class) => Error::content(format!("is of the class {class}, which is not in the class list"))
                    .with_code(Code::UnknownClass)
                    .hint("add it at the end of the list, and give that as `classes`"),
            };
            Some(error.in_input(sample.first_path().display()).in_sample(sample.key()))
        };
        let faults = listing.iter().zip(&self.of).filter_map(fault).collect();
        listing.labels = self.of.iter().map(|of| label(of).unwrap_or_default()).collect();
        let keep: Vec<bool> = self.of.iter().map(|of| label(of).is_some()).collect();
        listing.classes = list;
        listing.retain(&keep);
        faults
    }
}

fn refuse_own(listing: &Listing) -> Result<()> {
    match listing.iter().find(|s| s.fields().any(|(field, _)| field == "cls")) {
        None => Ok(()),
        Some(sample) => {
            let error = Error::config("has a field cls of its own, and `labels` makes another").in_sample(sample.key());
            Err(error.hint(other_field("cls")))
        }
    }
}

/// How to leave out a field of the inputs that the recipe makes too.
pub(crate) fn other_field(name: &str) -> String {
    format!(
        "leave out one of the two: files with `exclude=*.{name}`; members of shards by a view of the other fields (`select`), \
         which is packed in the place of the dataset"
    )
}

/// Warns of class lists that look like a mistake: splits, and one folder around all classes.
fn warn_of_folders(labels: &Labels, list: &[String], deeper: &dyn Fn() -> Option<String>, observer: &dyn Observer) {
    if list.len() > 1 && list.iter().all(|class| alone(class).is_some()) {
        let text = format!("the classes are {}, which look like splits; did you mean `split=names`?", list.join(", "));
        observer.event(&Event::Warning(&text));
    }
    if let (Labels::Folders, [class]) = (labels, list)
        && let Some(deeper) = deeper()
    {
        let text = format!(
            "every sample has the class {class}, the first folder below the input; if classes are the folders below it, as in \
             {deeper}, give {class} as the input, or use `labels=parent`"
        );
        observer.event(&Event::Warning(&text));
    }
}

/// Warns where every class is a number, and one has another label than that number.
fn warn_of_numbers(list: &[String], why: &str, observer: &dyn Observer) {
    let mut numbers = list.iter().enumerate();
    if list.iter().all(|class| class.parse::<i64>().is_ok())
        && let Some((at, class)) = numbers.find(|(at, class)| class.parse() != Ok(*at))
    {
        observer.event(&Event::Warning(&format!("class {class} becomes label {at}: {why}")));
    }
}

/// A whole number as it is usually written.
fn number(class: &str) -> Option<i64> {
    class.parse().ok().filter(|number: &i64| number.to_string() == class)
}
