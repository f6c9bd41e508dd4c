//! Passes over files that describe a dataset, such as the dataset card of a download from Hugging Face.

use super::merged_pictures::PICTURES;
use super::{Listing, PieceRef, SampleRef};
use crate::Recipe;
use crate::input_format::is_card_name;
use std::borrow::Cow;

/// The last extensions of fields that hold an array.
const ARRAYS: [&str; 2] = ["npy", "npz"];

impl Listing {
    /// Removes the samples that such files would be, if all others are rows of tables, members of archives, or have a picture or an
    /// array. A file that the recipe names stays, and so do those of a list.
    pub(in crate::scan) fn pass_over_cards(&mut self, recipe: &Recipe) {
        if recipe.files_from.is_some() || recipe.inventory.is_some() {
            return;
        }
        let keep: Vec<bool> = self.iter().map(|sample| !self.is_card(&sample, recipe)).collect();
        let with =
            |kept: bool| self.iter().zip(&keep).filter(move |(_, keep)| **keep == kept).map(|(sample, _)| sample);
        let (count, Some(first)) = (with(false).count() as u64, with(false).next().map(|card| card.first_path()))
        else {
            return;
        };
        // A file of this name may as well describe a picture.
        let describes_records =
            with(false).any(|card| card.fields().all(|(field, _)| field == "json") && card.key().ends_with("features"));
        let is_data = |sample: SampleRef<'_>| is_data(&sample) && (sample.table().is_some() || !describes_records);
        if with(true).next().is_some() && with(true).all(is_data) {
            self.retain(&keep);
            self.ignored.insert(Cow::Borrowed("about the data"), (count, first));
        }
    }

    fn is_card(&self, sample: &SampleRef<'_>, recipe: &Recipe) -> bool {
        let is = |piece: &PieceRef| self.has_card_name(piece) && !recipe.input.contains(&self.full_path(piece));
        !sample.is_member() && sample.table().is_none() && sample.pieces.iter().all(is)
    }

    fn has_card_name(&self, piece: &PieceRef) -> bool {
        is_card_name(self.stem(piece), self.field(piece))
    }
}

/// Whether a sample can't be taken for text that a card might be a part of.
fn is_data(sample: &SampleRef<'_>) -> bool {
    let extension =
        |field: &str| field.rsplit('.').next().is_some_and(|end| PICTURES.contains(&end) || ARRAYS.contains(&end));
    sample.table().is_some() || sample.is_member() || sample.fields().any(|(field, _)| extension(field))
}
