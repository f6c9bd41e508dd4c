//! What sealed datasets note of fields that are members of archives, which have no place for it.

use super::Listing;

impl Listing {
    /// What sealed datasets note of the field `name` under the key `note`, if all members of archives are of such datasets, and all of
    /// these that have the field note the same.
    pub(crate) fn note_of_members(&self, name: &str, note: &str) -> Option<&str> {
        let fields = self.sealed().iter().filter_map(|sealed| sealed.manifest.schema.iter().find(|f| f.name == name));
        let mut notes = fields.map(|field| field.metadata.get(note));
        let first = notes.next()??;
        let mut members = self.iter().filter(|sample| sample.table().is_none());
        (notes.all(|other| other == Some(first)) && members.all(|sample| sample.shard().is_some())).then_some(first)
    }
}
