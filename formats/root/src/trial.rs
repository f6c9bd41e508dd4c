//! Checks that objects match the descriptions of their classes. A class may have a custom streamer, which no header
//! reveals, so the first basket of each branch of objects is read.

use crate::decode;
use crate::file::RootFile;
use crate::interpret::{BranchColumn, EntryLayout};
use crate::rows::counts_of;
use crate::tree::TTree;
use packhorse_core::{Kind, Result};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The branches of `columns` whose objects do not match, with the decoding error.
pub(crate) fn failures(file: &RootFile<'_>, tree: &TTree, columns: &[BranchColumn]) -> Result<BTreeMap<usize, String>> {
    let mut branches: BTreeMap<usize, &BranchColumn> = BTreeMap::new();
    for column in columns {
        if let EntryLayout::Objects(objects) = &column.layout
            && objects.shape.has_objects()
        {
            branches.entry(column.branch).or_insert(column);
        }
    }
    let branches: Vec<_> = branches.into_iter().collect();
    let one =
        |(branch, column): &(usize, &BranchColumn)| Ok(failure(file, tree, *branch, column)?.map(|why| (*branch, why)));
    let found: Result<Vec<Option<(usize, String)>>> = branches.par_iter().map(one).collect();
    Ok(found?.into_iter().flatten().collect())
}

/// The decoding error of the first entries of `branch`, if any. A damaged basket is reported when it is read again.
fn failure(file: &RootFile<'_>, tree: &TTree, branch: usize, column: &BranchColumn) -> Result<Option<String>> {
    let baskets = tree.branches.get(branch).map(|branch| branch.baskets.as_slice()).unwrap_or_default();
    let Some(place) = baskets.iter().find(|place| place.entries > 0) else { return Ok(None) };
    let basket = match tree.basket(file, place) {
        Ok(basket) => Arc::new(basket),
        Err(e) if e.kind() == Kind::Content => return Ok(None),
        Err(e) => return Err(e),
    };
    let entries = 0..basket.entries;
    let found = decode::array(column, &[(basket, entries)], file.buffers()).and_then(|array| {
        let entries = place.first..place.first.saturating_add(place.entries);
        match &column.counter {
            Some(counter) => decode::check_lengths(&array, &counts_of(file, tree, counter, &entries)?),
            None => Ok(()),
        }
    });
    match found {
        Err(e) if matches!(e.kind(), Kind::Content | Kind::Unsupported) => Ok(Some(e.text().into_owned())),
        Err(e) => Err(e),
        Ok(()) => Ok(None),
    }
}
