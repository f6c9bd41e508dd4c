//! Passes over files that describe a dataset, such as the dataset card of a download from Hugging Face.

use super::merged_pictures::PICTURES;
use super::{Listing, PieceRef, SampleRef, Spilled};
use crate::Recipe;
use crate::input_format::{is_card_name, is_list_of_classes};
use packhorse_core::{Cancel, Result};
use packhorse_storage::Location;
use std::borrow::Cow;
use std::path::{Path, PathBuf};

/// The last extensions of fields that hold an array.
const ARRAYS: [&str; 2] = ["npy", "npz"];

/// The last extensions of fields that hold a sound or a film.
const RECORDINGS: [&str; 12] = ["aac", "avi", "flac", "m4a", "mkv", "mov", "mp3", "mp4", "ogg", "opus", "wav", "webm"];

/// The samples that such files would be, and what the others are.
#[derive(Default)]
struct Cards {
    count: u64,
    /// The first by path.
    first: Option<PathBuf>,
    /// Whether one may as well describe a picture.
    describes_record: bool,
    /// Whether there are others, and whether some of them are not data, or not tables.
    others: bool,
    others_not_data: bool,
    others_not_tables: bool,
}

impl Cards {
    /// Adds all samples of `listing`; returns which of them stay if cards are passed over.
    fn add(&mut self, listing: &Listing, recipe: &Recipe) -> Vec<bool> {
        let mut keep = Vec::with_capacity(listing.samples());
        for sample in listing.iter() {
            let is_card = listing.is_card(&sample, recipe);
            keep.push(!is_card);
            if !is_card {
                self.others = true;
                self.others_not_data |= !is_data(&sample);
                self.others_not_tables |= sample.table().is_none();
                continue;
            }
            self.count += 1;
            let path = sample.first_path();
            if self.first.as_ref().is_none_or(|first| path < *first) {
                self.first = Some(path);
            }
            let is_list = |piece: &PieceRef| is_list_of_classes(listing.stem(piece), listing.field(piece));
            self.describes_record |= sample.pieces.iter().any(is_list)
                || sample.fields().all(|(field, _)| field == "json") && sample.key().ends_with("features");
        }
        keep
    }

    /// Whether to pass over them; `listing` then counts them as ignored.
    fn settle(self, listing: &mut Listing) -> bool {
        let data = self.others && !self.others_not_data && !(self.describes_record && self.others_not_tables);
        let Some(first) = self.first.filter(|_| data) else { return false };
        listing.ignored.insert(Cow::Borrowed("about the data"), (self.count, first));
        true
    }
}

/// Files of a list are not passed over.
fn are_listed(recipe: &Recipe) -> bool {
    recipe.files_from.is_some() || recipe.inventory.is_some()
}

impl Listing {
    /// Removes the samples that such files would be, if all others are rows of tables, members of archives, or have a picture, a sound,
    /// a film or an array. A file that the recipe names stays, and so do those of a list.
    pub(in crate::scan) fn pass_over_cards(&mut self, recipe: &Recipe) {
        if are_listed(recipe) {
            return;
        }
        let mut cards = Cards::default();
        let keep = cards.add(self, recipe);
        if cards.settle(self) {
            self.retain(&keep);
        }
    }

    /// Which samples stay if such files are passed over.
    pub(crate) fn no_cards(&self, recipe: &Recipe) -> Vec<bool> {
        self.iter().map(|sample| !self.is_card(&sample, recipe)).collect()
    }

    fn is_card(&self, sample: &SampleRef<'_>, recipe: &Recipe) -> bool {
        let is_named =
            |path: &Path| recipe.input.iter().any(|input| Location::absolute(input) == Location::absolute(path));
        let is = |piece: &PieceRef| self.has_card_name(piece) && !is_named(&self.full_path(piece));
        !sample.is_member() && sample.table().is_none() && sample.pieces.iter().all(is)
    }

    pub(super) fn has_card_name(&self, piece: &PieceRef) -> bool {
        is_card_name(self.stem(piece), self.field(piece))
    }
}

impl Spilled {
    /// As [`Listing::pass_over_cards`]: notes whether the samples that such files would be are to be left out of the parts.
    pub(in crate::scan) fn pass_over_cards(&mut self, recipe: &Recipe, cancel: &Cancel) -> Result<()> {
        if !self.may_have_cards || are_listed(recipe) {
            return Ok(());
        }
        let mut cards = Cards::default();
        self.parts(cancel, &mut |part| {
            cards.add(&part, recipe);
            Ok(())
        })?;
        self.drops_cards = cards.settle(&mut self.rest);
        Ok(())
    }
}

/// Whether a sample can't be taken for text that a card might be a part of.
fn is_data(sample: &SampleRef<'_>) -> bool {
    let is_data = |end: &str| PICTURES.contains(&end) || ARRAYS.contains(&end) || RECORDINGS.contains(&end);
    let extension = |field: &str| field.rsplit('.').next().is_some_and(is_data);
    sample.table().is_some() || sample.is_member() || sample.fields().any(|(field, _)| extension(field))
}
