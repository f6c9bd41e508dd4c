//! Warns of pictures, arrays and other files that share a sample by their names, though each may be a sample.

use super::Listing;
use std::collections::BTreeMap;

/// The last extensions of fields that hold a picture.
pub(super) const PICTURES: [&str; 11] =
    ["avif", "bmp", "gif", "heic", "jpeg", "jpg", "jxl", "png", "tif", "tiff", "webp"];

/// A warning about samples with several files of one kind whose names differ only between the first dot and the
/// last. Fields that most samples have, such as `input.png` and `target.png`, are intended; those that begin with a digit are not.
pub(super) fn warning(listing: &Listing) -> Option<String> {
    // Those of sealed datasets are meant so.
    if listing.sealed().len() >= listing.roots().len() {
        return None;
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for sample in listing.iter() {
        sample
            .fields()
            .filter(|(field, _)| dotted(field))
            .for_each(|(field, _)| *counts.entry(field).or_default() += 1);
    }
    // The common case: field names without dots.
    if counts.is_empty() {
        return None;
    }
    let by_chance = |field: &str| {
        let digit = field.bytes().next().is_some_and(|b| b.is_ascii_digit());
        dotted(field) && (digit || counts.get(field).is_some_and(|count| *count < listing.samples().div_ceil(2)))
    };
    let (mut samples, mut example) = (0, None);
    for sample in listing.iter() {
        let mut kinds: BTreeMap<&str, &str> = BTreeMap::new();
        let pair = sample.fields().find_map(|(field, _)| {
            let before = kinds.insert(kind(field)?, field)?;
            (by_chance(field) || by_chance(before)).then_some((before, field))
        });
        if let Some((a, b)) = pair {
            samples += 1;
            example.get_or_insert_with(|| (format!("{} holds {a} and {b}", sample.key()), kind(a) == Some("")));
        }
    }
    let (example, numbers) = example?;
    let rule = if numbers { "whole:dcm" } else { "last-dot" };
    let hold = if samples == 1 { "1 sample holds".to_owned() } else { format!("{samples} samples hold") };
    Some(format!(
        "{hold} several files of one kind, since a key ends at the first dot of a name (such as: {example}); \
         if each is a sample of its own, pass `key-ends={rule}`"
    ))
}

/// The extension of a picture, and of other files in whose names a number goes before it. It is empty where all is numbers, as in the
/// unique names that DICOM gives to files.
fn kind(field: &str) -> Option<&str> {
    let extension = field.rsplit('.').next().unwrap_or(field);
    let extension = if extension.bytes().all(|byte| byte.is_ascii_digit()) { "" } else { extension };
    let numbered = || field.contains('.') && field.bytes().next().is_some_and(|byte| byte.is_ascii_digit());
    (PICTURES.contains(&extension) || numbered()).then_some(extension)
}

fn dotted(field: &str) -> bool {
    field.contains('.') && kind(field).is_some()
}
