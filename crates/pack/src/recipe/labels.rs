//! Where labels come from.

use packhorse_core::{Error, Result, unescape};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

/// What names a sample's class.
///
/// ```
/// use packhorse_pack::{Labels, Recipe};
///
/// // photos/animals/cat/1.jpg is a cat, not an animal.
/// let recipe = Recipe::new("photos", "webdataset", "shards").labels(Labels::Parent);
/// assert_eq!(recipe.labels, Some("parent".parse()?));
/// // labels.csv has a row for each photo, and its class in the column breed.
/// assert_eq!(Labels::Column("breed".to_owned()), "column:breed".parse()?);
/// # Ok::<(), packhorse_core::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Labels {
    /// The first folder below the root, as torchvision's ImageFolder has it.
    #[default]
    Folders,
    /// The folder that holds the file.
    Parent,
    /// This column of the metadata table: text, whole numbers or booleans.
    Column(String),
}

impl Labels {
    /// The class of a sample in `folder`; a column's class is not there.
    pub(crate) fn folder<'a>(&self, folder: &'a str) -> Option<Cow<'a, str>> {
        let mut names = folder.split('/');
        let class = match self {
            Labels::Folders => names.next(),
            Labels::Parent => names.next_back(),
            Labels::Column(_) => None,
        };
        class.filter(|class| !class.is_empty()).map(unescape)
    }
}

impl fmt::Display for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Labels::Folders => f.write_str("folders"),
            Labels::Parent => f.write_str("parent"),
            Labels::Column(name) => write!(f, "column:{name}"),
        }
    }
}

impl FromStr for Labels {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "folders" => Ok(Labels::Folders),
            "parent" => Ok(Labels::Parent),
            _ => match text.strip_prefix("column:").filter(|name| !name.is_empty()) {
                Some(name) => Ok(Labels::Column(name.to_owned())),
                None => Err(Error::config(format!("takes folders, parent or column:NAME, not \"{text}\""))),
            },
        }
    }
}
