//! Labels from folder names.

use super::Listing;
use packhorse_core::{Error, Result};
use std::collections::BTreeSet;
use std::str::FromStr;

/// Which folder names a sample's class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Labels {
    /// The first folder below the root, as torchvision's ImageFolder has it.
    Folders,
    /// The folder that holds the file.
    Parent,
}

impl FromStr for Labels {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "folders" => Ok(Labels::Folders),
            "parent" => Ok(Labels::Parent),
            other => Err(Error::config(format!("--labels takes folders or parent, not \"{other}\""))),
        }
    }
}

impl Labels {
    fn class(self, folder: &str) -> Option<&str> {
        let class = match self {
            Labels::Folders => folder.split('/').next(),
            Labels::Parent => folder.rsplit('/').next(),
        };
        class.filter(|class| !class.is_empty())
    }
}

/// Gives each sample the position of its class in the sorted class list. A sample in no folder is a
/// fault and goes.
pub(super) fn apply(labels: Labels, listing: &mut Listing) -> Result<()> {
    let taken = listing.iter().find(|s| s.fields().any(|(field, _)| field == "cls"));
    if let Some(sample) = taken {
        return Err(
            Error::config("has a field cls of its own; leave --labels or exclude *.cls").in_sample(sample.key())
        );
    }
    let classes: BTreeSet<&str> = listing.iter().filter_map(|s| labels.class(s.folder())).collect();
    let classes: Vec<String> = classes.into_iter().map(str::to_owned).collect();
    let position = |class: &str| classes.binary_search_by(|c| c.as_str().cmp(class)).ok().map(|i| i as u32);
    let found: Vec<Option<u32>> = listing.iter().map(|s| labels.class(s.folder()).and_then(position)).collect();
    let faults: Vec<Error> =
        listing.iter().zip(&found).filter(|(_, label)| label.is_none()).map(|(s, _)| orphan(&s)).collect();
    let keep: Vec<bool> = found.iter().map(Option::is_some).collect();
    listing.labels = found.iter().map(|label| label.unwrap_or_default()).collect();
    listing.classes = classes;
    listing.retain(&keep);
    faults.into_iter().for_each(|fault| listing.add_fault(fault));
    Ok(())
}

fn orphan(sample: &super::SampleRef<'_>) -> Error {
    Error::content("lies in no class folder").in_input(sample.first_path().display()).in_sample(sample.key())
}
