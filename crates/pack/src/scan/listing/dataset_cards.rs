//! Passes over files that describe a dataset, such as the dataset card of a download from Hugging Face.

use super::merged_pictures::PICTURES;
use super::{Listing, PieceRef, SampleRef};
use crate::Recipe;
use std::borrow::Cow;

/// Their names in lower case: the card and the licence, and the documents of Hugging Face's datasets, of Croissant and of TFDS.
const NAMES: [(&str, &str); 10] = [
    ("citation", "cff"),
    ("croissant", "json"),
    ("dataset_dict", "json"),
    ("dataset_info", "json"),
    ("dataset_infos", "json"),
    ("features", "json"),
    ("license", "md"),
    ("license", "txt"),
    ("readme", "md"),
    ("readme", "txt"),
];

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
        if with(true).next().is_some() && with(true).all(|sample| is_data(&sample)) {
            self.retain(&keep);
            self.ignored.insert(Cow::Borrowed("about the data"), (count, first));
        }
    }

    fn is_card(&self, sample: &SampleRef<'_>, recipe: &Recipe) -> bool {
        let is = |piece: &PieceRef| self.has_card_name(piece) && !recipe.input.contains(&self.full_path(piece));
        !sample.is_member() && sample.table().is_none() && sample.pieces.iter().all(is)
    }

    fn has_card_name(&self, piece: &PieceRef) -> bool {
        let is = |bytes: &[u8], name: &str| bytes.eq_ignore_ascii_case(name.as_bytes());
        NAMES.iter().any(|(stem, extension)| is(self.field(piece), extension) && is(self.stem(piece), stem))
    }
}

/// Whether a sample can't be taken for text that a card might be a part of.
fn is_data(sample: &SampleRef<'_>) -> bool {
    let extension =
        |field: &str| field.rsplit('.').next().is_some_and(|end| PICTURES.contains(&end) || ARRAYS.contains(&end));
    sample.table().is_some() || sample.is_member() || sample.fields().any(|(field, _)| extension(field))
}
