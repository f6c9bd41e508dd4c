//! Several rows of one sample, which become a list.

use super::Metadata;
use packhorse_core::Result;

/// Of every row the next one of its key; of the last one the first.
#[derive(Debug, Default)]
pub(super) struct Chains(Vec<u32>);

impl Chains {
    /// Adds `row`, the first one of its key.
    pub(super) fn begin(&mut self, row: u32) {
        self.0.push(row);
    }

    /// Adds `row` behind `last`, the last one of its key so far.
    pub(super) fn follow(&mut self, last: u32, row: u32) {
        let first = self.next(last);
        self.0.push(first);
        if let Some(next) = self.0.get_mut(last as usize) {
            *next = row;
        }
    }

    fn next(&self, row: u32) -> u32 {
        self.0.get(row as usize).copied().unwrap_or_default()
    }
}

impl Metadata {
    /// Whether another row has the key of this one.
    pub(crate) fn is_twice(&self, row: u32) -> bool {
        self.chains.as_ref().is_some_and(|chains| chains.next(row) != row)
    }

    /// The same with one row for each key: the list of its rows, in the order of the table.
    pub(super) fn listed(mut self) -> Result<Self> {
        let chains = self.chains.take().unwrap_or_default();
        let (unit, key_ends, keyless) = (self.unit, self.key_ends.clone(), self.keyless);
        let notes = std::mem::take(&mut self.notes);
        let arena = String::with_capacity(self.arena.len());
        let mut listed = Self { arena, unit, key_ends, keyless, notes, ..Self::default() };
        let mut list = String::new();
        for row in 0..self.rows.len() as u32 {
            let key = self.key(row);
            let folder = self.folders.of_row(row);
            listed.folders.extend(self.folders.iter().take(folder).skip(listed.folders.last()), listed.rows.len());
            let last = self.find_in(folder, key).unwrap_or_default();
            if chains.next(last) != row {
                continue;
            }
            list.clear();
            let mut at = row;
            loop {
                list.push(if list.is_empty() { '[' } else { ',' });
                list.push_str(self.parts(at).map_or("", |(_, json)| json));
                if at == last {
                    break;
                }
                at = chains.next(at);
            }
            list.push(']');
            let line = self.rows.get(row as usize).map_or(0, |row| row.at);
            listed.add(key, &list, line)?;
        }
        listed.chains = Some(Chains::default());
        Ok(listed)
    }
}
