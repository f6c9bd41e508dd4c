//! The class list of a plan: made of folders by scan, or taken from the inputs.

use crate::scan::{Listing, SampleRef};
use packhorse_core::{
    CLASSES, Error, Field, HUGGINGFACE, Result, Schema, SchemaRef, class_label, class_names, is_blob, with_metadata,
};
use packhorse_transform::Transform;
use packhorse_transform::fields::picture_encoding;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// The field of labels.
const LABELS: &str = "cls";

/// Refuses transforms that give another field the name of the labels, which the class list is about.
pub(super) fn keep_their_name(transforms: &[Box<dyn Transform>], packed: &Schema) -> Result<()> {
    let labels = transforms.iter().try_fold(LABELS.to_owned(), |name, transform| transform.name_of(&name));
    if labels.as_deref() == Some(LABELS) || packed.field_with_name(LABELS).is_err() {
        return Ok(());
    }
    let error = Error::config("another field takes the name cls of the labels, and the class list is about those");
    Err(error.in_field(LABELS).hint("give that field another name"))
}

/// The columns `delivered` with what their names tell, where they get others: the classes of labels, as the list is about the field
/// `cls`, and that bytes are a picture.
pub(super) fn with_features(delivered: &SchemaRef, classes: &[String], transforms: &[Box<dyn Transform>]) -> SchemaRef {
    let packed = |name: &str| transforms.iter().try_fold(name.to_owned(), |name, transform| transform.name_of(&name));
    // The list may be that of another column.
    let is_of_labels = !delivered.fields().iter().any(|field| {
        field.name() != LABELS && class_names(field.metadata().get(HUGGINGFACE)).is_some_and(|names| names == classes)
    });
    let feature = |field: &Field| -> Option<String> {
        let new = packed(field.name()).filter(|new| new != field.name())?;
        let is_label = field.name() == LABELS && field.data_type().is_integer() && is_of_labels && !classes.is_empty();
        let is_picture =
            is_blob(field.data_type()) && picture_encoding(field.name()).is_some() && picture_encoding(&new).is_none();
        match (is_label, is_picture) {
            _ if field.metadata().contains_key(HUGGINGFACE) => None,
            (true, _) => Some(class_label(classes)),
            (_, true) => Some(IMAGE.to_owned()),
            _ => None,
        }
    };
    let with_feature = |field: &Arc<Field>| match feature(field) {
        Some(feature) => Arc::new(with_metadata(Field::clone(field), HUGGINGFACE, &feature)),
        None => Arc::clone(field),
    };
    let fields: Vec<_> = delivered.fields().iter().map(with_feature).collect();
    Arc::new(Schema::new_with_metadata(fields, delivered.metadata().clone()))
}

/// The feature of pictures.
const IMAGE: &str = r#"{"_type":"Image"}"#;

/// The class list; empty if there is none.
///
/// Errors: `Config` for inputs with lists that contradict each other, and for labels with and without a list: a number
/// would name two classes.
pub(super) fn of(listing: &Listing) -> Result<Vec<String>> {
    if !listing.classes().is_empty() {
        return Ok(listing.classes().to_vec());
    }
    let mut lists: BTreeMap<Vec<String>, PathBuf> = BTreeMap::new();
    let (mut bare, mut unnamed) = (None, (false, false));
    // A dataset or a table has many samples, and its list may be long.
    let mut brings: BTreeMap<*const (), bool> = BTreeMap::new();
    for sample in listing.iter() {
        // Class names of a column that is not called `cls` are those of all tables, or of none.
        let is_other = sample.table().is_some() && !has_labels(&sample);
        let brings_list = origin(&sample).is_some_and(|origin| {
            *brings.entry(origin).or_insert_with(|| {
                let list = brought(&sample);
                let brings = !list.is_empty();
                if brings {
                    lists.entry(list).or_insert_with(|| sample.first_path());
                }
                brings
            })
        });
        match (brings_list, is_other) {
            (true, _) => unnamed.0 |= is_other,
            (false, true) => unnamed.1 = true,
            (false, false) if bare.is_none() && has_labels(&sample) => bare = Some(sample.first_path()),
            (false, false) => {}
        }
    }
    // A list that begins with all others gives their numbers the same names.
    let longest = lists.keys().max_by_key(|list| list.len()).cloned().unwrap_or_default();
    let contrary = lists.iter().find(|(list, _)| !longest.starts_with(list));
    let contrary = contrary.map(|(list, path)| (list.clone(), path.clone()));
    if unnamed == (true, true) && contrary.is_none() {
        return Ok(Vec::new());
    }
    let Some((list, first)) = lists.remove_entry(&longest) else { return Ok(Vec::new()) };
    let (other, what) = match (contrary, bare) {
        (Some((other, path)), _) => (path, format!("has the classes {}", shown(&other))),
        (None, Some(path)) => (path, "has labels without a class list".to_owned()),
        (None, None) => return Ok(list),
    };
    let message = format!(
        "{what}, and {} has {}: one number would name two classes; pack the inputs apart, or pack their originals \
         together with `labels`",
        first.display(),
        shown(&list)
    );
    Err(Error::config(message).in_input(other.display()))
}

/// The address of what a sample's class list is in, which all samples of a dataset or a table share.
fn origin(sample: &SampleRef<'_>) -> Option<*const ()> {
    match sample.shard() {
        Some((sealed, _)) => Some(std::ptr::from_ref(&sealed.manifest).cast()),
        None => sample.table().map(|table| Arc::as_ptr(&table.schema).cast()),
    }
}

/// The class list that a sample's dataset or file has.
fn brought(sample: &SampleRef<'_>) -> Vec<String> {
    if let Some((sealed, _)) = sample.shard() {
        return sealed.manifest.classes.clone();
    }
    let list = sample.table().and_then(|table| table.schema.metadata().get(CLASSES));
    list.and_then(|list| serde_json::from_str(list).ok()).unwrap_or_default()
}

fn has_labels(sample: &SampleRef<'_>) -> bool {
    match sample.table() {
        Some(table) => table.schema.field_with_name(LABELS).is_ok(),
        None => sample.fields().any(|(field, _)| field == LABELS),
    }
}

fn shown(list: &[String]) -> String {
    const SHOWN: usize = 6;
    let more = if list.len() > SHOWN { ", …" } else { "" };
    format!("[{}{more}]", list.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", "))
}
