//! The columns that sources will deliver, as scan saw them.

use super::LABEL;
use crate::scan::Listing;
use packhorse_core::{DataType, Event, Field, KEY, Observer, Schema, SchemaRef};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The key, then every field in the order of the names; one that some sample lacks is nullable.
pub(super) fn of(listing: &Listing, observer: &dyn Observer) -> SchemaRef {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for sample in listing.iter() {
        for (field, _) in sample.fields() {
            *counts.entry(field).or_default() += 1;
        }
    }
    let n = listing.samples();
    if let Some((field, count)) = counts.iter().find(|(_, count)| **count < n) {
        observer.event(&Event::Warning(&format!(
            "only {count} of {n} samples have the field {field}; Hugging Face datasets wants the same fields in every sample"
        )));
    }
    let mut fields: Vec<Field> =
        counts.iter().map(|(name, count)| Field::new(*name, DataType::BinaryView, *count < n)).collect();
    if !listing.classes().is_empty() {
        fields.push(Field::new("cls", LABEL, false));
    }
    if listing.has_metadata() {
        fields.push(Field::new("json", DataType::Utf8View, false));
    }
    fields.sort_by(|a, b| a.name().cmp(b.name()));
    fields.insert(0, Field::new(KEY, DataType::Utf8View, false));
    Arc::new(Schema::new(fields))
}
