//! Reads the metadata of a `TTree`: branches, leaves, and locations of baskets. Does not interpret the
//! bytes in baskets.

use crate::basket::{Basket, Embedded};
use crate::file::{RootFile, TKey};
use crate::object::{self, RootObject};
use crate::streamer::Streamers;
use packhorse_core::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};

/// A tree: its number of entries, its branches (children after their parents), and its record's bytes.
#[derive(Debug)]
pub(crate) struct TTree {
    pub(crate) entries: u64,
    pub(crate) branches: Vec<Branch>,
    bytes: Vec<u8>,
}

/// A branch.
#[derive(Debug, Default)]
pub(crate) struct Branch {
    /// The name in the file.
    pub(crate) name: String,
    /// The full name: with the names of its parents, unless it repeats them.
    pub(crate) path: String,
    pub(crate) parent: Option<usize>,
    pub(crate) has_children: bool,
    /// The class that it is a member of; for a top branch, its own class.
    pub(crate) class: String,
    pub(crate) class_version: Option<i32>,
    pub(crate) parent_class: String,
    /// ROOT's `fType` of a `TBranchElement`.
    pub(crate) role: i64,
    pub(crate) streamer_type: i64,
    pub(crate) entries: u64,
    pub(crate) bytes: u64,
    pub(crate) leaves: Vec<TreeLeaf>,
    pub(crate) baskets: Vec<BasketRecord>,
    /// Why its baskets can't be read, if they can't.
    pub(crate) fault: Option<String>,
}

/// A leaf: a value, or an array of values, of a branch.
#[derive(Debug)]
pub(crate) struct TreeLeaf {
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) title: String,
    /// The number of values per entry, if it is fixed.
    pub(crate) len: i64,
    pub(crate) unsigned: bool,
    /// ROOT's type code of a `TLeafElement`.
    pub(crate) code: i64,
    /// Whether another branch holds the number of values, and which.
    pub(crate) counted: bool,
    pub(crate) counter: Option<usize>,
}

/// The entries and the location of a basket.
#[derive(Clone, Debug)]
pub(crate) struct BasketRecord {
    pub(crate) first: u64,
    pub(crate) entries: u64,
    pub(crate) at: BasketLocation,
}

/// The location of a basket.
#[derive(Clone, Debug)]
pub(crate) enum BasketLocation {
    /// Offset in the file, and length.
    File(u64, u64),
    /// In the tree's record.
    Tree(Embedded),
}

impl TTree {
    /// Reads the tree at `key`.
    pub(crate) fn read(file: &RootFile<'_>, key: &TKey, streamers: &Streamers) -> Result<Self> {
        let payload = file.payload(key)?;
        let objects = object::read(&payload.bytes, payload.key_bytes, &key.class, streamers)?;
        let root = objects.first().ok_or_else(|| Error::bug("an object without itself"))?;
        let missing = |what: &str| Error::unsupported(format!("tree {}: can't find its {what}", key.name));
        let entries = root.int("fEntries").ok_or_else(|| missing("number of entries"))?;
        let entries = u64::try_from(entries).map_err(|_| Error::content("a negative number of entries"))?;
        let top = root.objects("fBranches").ok_or_else(|| missing("branches"))?;
        let mut walk =
            BranchWalk { objects: &objects, branches: Vec::new(), owners: BTreeMap::new(), seen: BTreeSet::new() };
        walk.branches_of(top, None, 0)?;
        walk.count();
        let mut tree = Self { entries, branches: walk.branches, bytes: payload.bytes };
        tree.last_baskets(file)?;
        Ok(tree)
    }

    /// Reads the basket at `place`.
    pub(crate) fn basket(&self, file: &RootFile<'_>, place: &BasketRecord) -> Result<Basket> {
        match &place.at {
            BasketLocation::File(at, len) => Basket::read(&file.stretch(*at, *len)?, file),
            BasketLocation::Tree(place) => self.embedded(place),
        }
    }

    /// The basket at `place` in the tree's record.
    pub(crate) fn embedded(&self, place: &Embedded) -> Result<Basket> {
        Basket::embedded(place, &self.bytes)
    }

    /// Completes the number of entries of last baskets, which the list may lack, from their headers.
    fn last_baskets(&mut self, file: &RootFile<'_>) -> Result<()> {
        for branch in &mut self.branches {
            if let Some(BasketRecord { entries, at: BasketLocation::File(at, len), .. }) = branch.baskets.last_mut()
                && *entries == u64::MAX
            {
                let basket = Basket::read(&file.stretch(*at, *len)?, file)?;
                *entries = basket.entries as u64;
            }
        }
        Ok(())
    }
}

struct BranchWalk<'a> {
    objects: &'a [RootObject],
    branches: Vec<Branch>,
    /// The branch of each leaf, by the leaf's object index.
    owners: BTreeMap<usize, usize>,
    seen: BTreeSet<usize>,
}

const DEPTH: usize = 64;
/// The longest name in bytes.
const NAME: usize = 4096;

impl BranchWalk<'_> {
    fn branches_of(&mut self, ids: &[Option<usize>], parent: Option<usize>, depth: usize) -> Result<()> {
        for id in ids.iter().flatten() {
            let Some(object) = self.objects.get(*id) else { continue };
            // Hostile references could repeat an object very often; valid trees have each branch and leaf once.
            if !self.seen.insert(*id) || depth > DEPTH {
                return Err(Error::content("a branch with two parents, or branches nested too deeply"));
            }
            let number = self.branches.len();
            for leaf in object.objects("fLeaves").unwrap_or_default().iter().flatten() {
                if self.owners.insert(*leaf, number).is_some() {
                    return Err(Error::content("a leaf in two branches"));
                }
            }
            let mut branch = branch(object, self.objects);
            branch.parent = parent;
            branch.path = self.path(&branch.name, parent);
            let children = object.objects("fBranches").unwrap_or_default();
            branch.has_children = children.iter().any(Option::is_some);
            if branch.path.len() > NAME {
                return Err(Error::content(format!("a branch with a name of {} bytes", branch.path.len())));
            }
            self.branches.push(branch);
            self.branches_of(children, Some(number), depth + 1)?;
        }
        Ok(())
    }

    /// `evt` and `Beg` make `evt.Beg`; `jets` and `jets.pt` make `jets.pt`.
    fn path(&self, name: &str, parent: Option<usize>) -> String {
        let name = name.trim_end_matches('.').replace('/', ".");
        match parent.and_then(|number| self.branches.get(number)) {
            Some(parent) if !name.starts_with(&format!("{}.", parent.path)) => format!("{}.{name}", parent.path),
            _ => name,
        }
    }

    /// Replaces the object index of each counter leaf by the number of its branch.
    fn count(&mut self) {
        for leaf in self.branches.iter_mut().flat_map(|branch| &mut branch.leaves) {
            leaf.counter = leaf.counter.and_then(|id| self.owners.get(&id).copied());
        }
    }
}

fn branch(object: &RootObject, objects: &[RootObject]) -> Branch {
    let name = object.text("fName").to_owned();
    let leaves = object.objects("fLeaves").unwrap_or_default().iter().flatten();
    let entries = object.int("fEntries").and_then(|entries| u64::try_from(entries).ok());
    let mut fault = match object.text("fFileName") {
        "" => None,
        other => Some(format!("its data is in another file, {other}")),
    };
    if object.int("fFirstEntry").unwrap_or(0) != 0 {
        fault = Some("it begins after the tree's first entry".to_owned());
    }
    if entries.is_none() {
        fault = Some("its number of entries is missing".to_owned());
    }
    let baskets = baskets(object, objects, entries.unwrap_or(0)).unwrap_or_else(|e| {
        fault = Some(e.text().into_owned());
        Vec::new()
    });
    Branch {
        class: object.text("fClassName").to_owned(),
        class_version: object.int("fClassVersion").and_then(|version| version.try_into().ok()),
        parent_class: object.text("fParentName").to_owned(),
        role: object.int("fType").unwrap_or(0),
        streamer_type: object.int("fStreamerType").unwrap_or(-1),
        entries: entries.unwrap_or(0),
        bytes: u64::try_from(object.int("fTotBytes").unwrap_or(0)).unwrap_or(0),
        leaves: leaves.filter_map(|id| objects.get(*id)).map(leaf).collect(),
        baskets,
        fault,
        name,
        ..Branch::default()
    }
}

fn leaf(object: &RootObject) -> TreeLeaf {
    TreeLeaf {
        kind: object.class.clone(),
        name: object.text("fName").to_owned(),
        title: object.text("fTitle").to_owned(),
        len: object.int("fLen").unwrap_or(0),
        unsigned: object.int("fIsUnsigned") == Some(1),
        code: object.int("fType").unwrap_or(-1),
        counted: object.object("fLeafCount").is_some(),
        counter: object.object("fLeafCount"),
    }
}

/// The baskets in the file, then those in the tree's record, until all entries are covered.
fn baskets(object: &RootObject, objects: &[RootObject], entries: u64) -> Result<Vec<BasketRecord>> {
    let (seeks, sizes, firsts) = (object.ints("fBasketSeek"), object.ints("fBasketBytes"), object.ints("fBasketEntry"));
    let written = usize::try_from(object.int("fWriteBasket").unwrap_or(0)).unwrap_or(0);
    let bad = || Error::content("its list of baskets is damaged");
    let number = |n: Option<&i64>| n.and_then(|n| u64::try_from(*n).ok()).ok_or_else(bad);
    let mut found = Vec::new();
    let mut next = 0;
    for (i, seek) in seeks.iter().enumerate().take_while(|(i, seek)| **seek != 0 && *i < written) {
        let first = number(firsts.get(i))?;
        let end = if i + 1 < firsts.len() { number(firsts.get(i + 1))? } else { u64::MAX };
        if first != next || end < first {
            return Err(bad());
        }
        let entries = if end == u64::MAX { u64::MAX } else { end - first };
        found.push(BasketRecord {
            first,
            entries,
            at: BasketLocation::File(number(Some(seek))?, number(sizes.get(i))?),
        });
        next = end;
    }
    let embedded: BTreeSet<&usize> = object.objects("fBaskets").unwrap_or_default().iter().flatten().collect();
    for basket in embedded.into_iter().filter_map(|id| objects.get(*id)?.basket()) {
        if next < entries && basket.entries > 0 {
            found.push(BasketRecord { first: next, entries: basket.entries, at: BasketLocation::Tree(basket.clone()) });
            next = next.saturating_add(basket.entries);
        }
    }
    Ok(found)
}
