//! Page lists: the entries of each cluster, and the pages of its columns.

use super::envelope::{EnvelopeFrame, Locator, Words};
use packhorse_core::{Error, Result};

/// A cluster: consecutive entries and their pages.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) first: u64,
    pub(crate) entries: u64,
    /// The pages of each column, by column number; `None` if the cluster uses another representation.
    pub(crate) columns: Vec<Option<Vec<PageLocation>>>,
}

/// A page: consecutive elements of a column.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageLocation {
    /// Index of its first element in the cluster.
    pub(crate) first: u64,
    pub(crate) elements: u64,
    pub(crate) has_checksum: bool,
    pub(crate) place: Locator,
}

/// Appends the clusters of a page list.
pub(crate) fn read(words: &mut Words<'_>, clusters: &mut Vec<Cluster>) -> Result<()> {
    words.u64()?;
    let EnvelopeFrame { words: mut summaries, count } = words.frame()?;
    let start = clusters.len();
    for _ in 0..count {
        let mut summary = summaries.frame()?.words;
        let (first, entries) = (summary.u64()?, summary.u64()? & ((1 << 56) - 1));
        clusters.push(Cluster { first, entries, columns: Vec::new() });
    }
    let EnvelopeFrame { words: mut lists, count } = words.frame()?;
    if count != clusters.len() - start {
        return Err(Error::content("a page list whose clusters and pages differ in number"));
    }
    for cluster in clusters.iter_mut().skip(start) {
        let EnvelopeFrame { words: mut columns, count } = lists.frame()?;
        for _ in 0..count {
            cluster.columns.push(pages(columns.frame()?)?);
        }
    }
    Ok(())
}

/// The pages of one column; the element offset that follows is negative if the column is suspended.
fn pages(frame: EnvelopeFrame<'_>) -> Result<Option<Vec<PageLocation>>> {
    let EnvelopeFrame { mut words, count } = frame;
    let (mut pages, mut first) = (Vec::new(), 0u64);
    for _ in 0..count {
        let elements = words.i32()?;
        let page = PageLocation {
            first,
            elements: u64::from(elements.unsigned_abs()),
            has_checksum: elements < 0,
            place: words.locator()?,
        };
        first = first.saturating_add(page.elements);
        pages.push(page);
    }
    let suspended = words.left() >= 8 && words.i64()? < 0;
    Ok((!suspended).then_some(pages))
}
