//! Labels from folder names.

use super::{Listing, ScanOptions};
use crate::{Labels, Splits};
use packhorse_core::{Code, Error, Event, Observer, Result};
use std::collections::{BTreeSet, HashMap};

/// Common names of split folders.
pub(crate) const SPLITS: [&str; 8] = ["train", "training", "val", "valid", "validation", "dev", "test", "testing"];

/// Labels each sample with the position of its class in the class list: the given one, or all classes sorted. Removes
/// samples without a folder or of an unknown class, as faults.
pub(super) fn apply(
    labels: Labels,
    options: &ScanOptions<'_>,
    listing: &mut Listing,
    observer: &dyn Observer,
) -> Result<()> {
    let taken = listing.iter().find(|s| s.fields().any(|(field, _)| field == "cls"));
    if let Some(sample) = taken {
        return Err(
            Error::config("has a field cls of its own; leave `labels` or exclude *.cls").in_sample(sample.key())
        );
    }
    let below = usize::from(options.recipe.split == Splits::Folders);
    let there: BTreeSet<&str> = listing.iter().filter_map(|s| labels.class(s.folder(), below)).collect();
    if options.classes.is_none() && there.len() > 1 && there.iter().all(|class| SPLITS.contains(class)) {
        let names = there.iter().copied().collect::<Vec<_>>().join(", ");
        let text = format!("the classes are {names}, which look like splits; did you mean `split=folders`?");
        observer.event(&Event::Warning(&text));
    }
    if let (None, Labels::Folders, 1, Some(class)) = (&options.classes, labels, there.len(), there.first())
        && let Some(deeper) = listing.iter().map(|s| s.folder()).find(|folder| folder.split('/').count() > below + 1)
    {
        let text = format!(
            "every sample has the class {class}, the first folder below the input; if classes are the folders below it, as in \
             {deeper}, give {class} as the input, or use `labels=parent`"
        );
        observer.event(&Event::Warning(&text));
    }
    let classes = match &options.classes {
        Some(classes) => classes.clone(),
        None => there.into_iter().map(str::to_owned).collect(),
    };
    if options.classes.is_none()
        && classes.iter().all(|class| class.parse::<u64>().is_ok())
        && let Some((at, class)) = classes.iter().enumerate().find(|(at, class)| class.parse() != Ok(*at))
    {
        let text = format!(
            "classes are numbered by their names as text, so folder {class} becomes label {at}; a class list (`classes`) with \
             a name a line gives another order"
        );
        observer.event(&Event::Warning(&text));
    }
    let positions: HashMap<&str, u32> = classes.iter().enumerate().map(|(i, c)| (c.as_str(), i as u32)).collect();
    let label = |s: &super::SampleRef<'_>| labels.class(s.folder(), below).and_then(|c| positions.get(c)).copied();
    let found: Vec<Option<u32>> = listing.iter().map(|s| label(&s)).collect();
    let orphans = listing.iter().zip(&found).filter(|(_, label)| label.is_none());
    let faults: Vec<Error> = orphans.map(|(s, _)| orphan(&s, labels.class(s.folder(), below))).collect();
    let keep: Vec<bool> = found.iter().map(Option::is_some).collect();
    listing.labels = found.iter().map(|label| label.unwrap_or_default()).collect();
    listing.classes = classes;
    listing.retain(&keep);
    faults.into_iter().for_each(|fault| listing.add_fault(fault));
    Ok(())
}

fn orphan(sample: &super::SampleRef<'_>, class: Option<&str>) -> Error {
    let error = match class {
        None => Error::content("is not in a class folder"),
        Some(class) => Error::content(format!("is of the class {class}, which is not in the class list"))
            .with_code(Code::UnknownClass),
    };
    error.in_input(sample.first_path().display()).in_sample(sample.key())
}
