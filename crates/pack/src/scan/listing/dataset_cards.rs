//! Passes over files that describe tables, such as the dataset card of a download from Hugging Face.

use super::{Listing, PieceRef};
use crate::Recipe;
use std::borrow::Cow;

/// Their names in lower case: the card and the licence, and the documents of Hugging Face's datasets and of Croissant.
const NAMES: [&str; 9] = [
    "citation.cff",
    "croissant.json",
    "dataset_dict.json",
    "dataset_info.json",
    "dataset_infos.json",
    "license.md",
    "license.txt",
    "readme.md",
    "readme.txt",
];

impl Listing {
    /// Removes the samples that such files would be, if all other inputs are tables. A file that the recipe names stays, and so do
    /// those of a list.
    pub(in crate::scan) fn pass_over_cards(&mut self, recipe: &Recipe) {
        if self.tables.is_empty() || recipe.files_from.is_some() || recipe.inventory.is_some() {
            return;
        }
        let is_card = |piece: &PieceRef| {
            let path = self.full_path(piece);
            let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
            NAMES.contains(&&*name) && !recipe.input.contains(&path)
        };
        let files: Vec<_> = self.iter().filter(|sample| sample.table().is_none()).collect();
        let Some(first) = files.first().map(|sample| sample.first_path()) else { return };
        if files.iter().all(|sample| sample.pieces.iter().all(is_card)) {
            let count = files.len() as u64;
            let keep: Vec<bool> = self.iter().map(|sample| sample.table().is_some()).collect();
            self.retain(&keep);
            self.ignored.insert(Cow::Borrowed("about the tables"), (count, first));
        }
    }
}
