//! Where labels come from.

use crate::choice::choice;

/// Which folder names a sample's class.
///
/// ```
/// use packhorse_pack::{Labels, Recipe};
///
/// // photos/animals/cat/1.jpg is a cat, not an animal.
/// let recipe = Recipe::new("photos", "webdataset", "shards").labels(Labels::Parent);
/// assert_eq!(recipe.labels, Some("parent".parse()?));
/// # Ok::<(), packhorse_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Labels {
    /// The first folder below the root, as torchvision's ImageFolder has it.
    #[default]
    Folders,
    /// The folder that holds the file.
    Parent,
}

choice!(Labels: Folders = "folders", Parent = "parent");

impl Labels {
    /// The class of a sample in `folder`, after `below` leading folders that name something else.
    pub(crate) fn class(self, folder: &str, below: usize) -> Option<&str> {
        let mut names = folder.split('/').skip(below);
        let class = match self {
            Labels::Folders => names.next(),
            Labels::Parent => names.last(),
        };
        class.filter(|class| !class.is_empty())
    }
}
