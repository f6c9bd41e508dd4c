//! The fields that are requested of samples, and their members.

use packhorse_core::ShardMember;
use std::collections::HashMap;
use std::ops::Deref;

/// A requested field, under any of several names: the first one that a sample has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column(pub Vec<String>);

impl Column {
    /// The rank of `field` among its names, if it is one; smaller is better.
    fn rank(&self, field: &str) -> Option<usize> {
        self.0.iter().position(|name| name == field)
    }
}

impl From<&str> for Column {
    /// Names in webdataset's notation: `jpg;jpeg;png`.
    fn from(names: &str) -> Self {
        Self(names.split(';').map(str::to_owned).collect())
    }
}

/// So many columns are found among the members of a sample one by one, which is faster than by a map.
const FEW: usize = 16;

/// All requested fields.
pub(crate) struct RequestedColumns {
    all: Vec<Column>,
    /// For each name the columns that have it, and its rank there; empty for few columns.
    by_name: HashMap<String, Vec<(usize, usize)>>,
    /// Columns of which only the presence is asked: their bytes are not read from members.
    pub(crate) present: Vec<usize>,
}

impl RequestedColumns {
    pub(crate) fn new(all: Vec<Column>) -> Self {
        let mut by_name: HashMap<String, Vec<(usize, usize)>> = HashMap::new();
        if all.len() > FEW {
            for (at, column) in all.iter().enumerate() {
                for (rank, name) in column.0.iter().enumerate() {
                    by_name.entry(name.clone()).or_default().push((at, rank));
                }
            }
        }
        Self { all, by_name, present: Vec::new() }
    }

    /// Whether a field is requested.
    pub(crate) fn has(&self, field: &str) -> bool {
        match self.len() > FEW {
            true => self.by_name.contains_key(field),
            false => self.iter().any(|column| column.rank(field).is_some()),
        }
    }

    /// Whether the bytes of a member of this name are read.
    pub(crate) fn reads(&self, field: &str) -> bool {
        self.iter().enumerate().any(|(at, column)| !self.present.contains(&at) && column.rank(field).is_some())
    }

    /// Calls `each` with each column, by its position, and the member of the sample that it has, in the order of the columns.
    pub(crate) fn members<'m, I>(&self, members: impl Fn() -> I, mut each: impl FnMut(usize, ShardMember<'m>))
    where
        I: Iterator<Item = ShardMember<'m>>,
    {
        if self.len() <= FEW {
            for (at, column) in self.iter().enumerate() {
                let named = members().filter_map(|member| Some((column.rank(member.field)?, member)));
                named.min_by_key(|(rank, _)| *rank).into_iter().for_each(|(_, member)| each(at, member));
            }
            return;
        }
        let mut best: Vec<Option<(usize, ShardMember<'m>)>> = vec![None; self.len()];
        for member in members() {
            for (at, rank) in self.by_name.get(member.field).into_iter().flatten() {
                if let Some(best) = best.get_mut(*at)
                    && best.is_none_or(|(known, _)| *rank < known)
                {
                    *best = Some((*rank, member));
                }
            }
        }
        best.into_iter().enumerate().for_each(|(at, best)| best.into_iter().for_each(|(_, member)| each(at, member)));
    }
}

impl Deref for RequestedColumns {
    type Target = [Column];

    fn deref(&self) -> &[Column] {
        &self.all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Few columns and many find the same members.
    #[test]
    fn members_are_found_by_the_best_name() {
        let member = |field: &'static str, offset| ShardMember { field, offset, len: 1, crc32c: 0 };
        let members = [member("png", 0), member("jpg", 1), member("cls", 2), member("x", 3)];
        for others in [0, 40] {
            let names = ["jpg;png", "png;jpg", "cls", "none"].map(Column::from);
            let others = (0..others).map(|n| Column(vec![format!("other{n}")]));
            let columns = RequestedColumns::new(names.into_iter().chain(others).collect());
            let mut found = Vec::new();
            columns.members(|| members.iter().copied(), |at, member| found.push((at, member.offset)));
            assert_eq!(found, [(0, 1), (1, 0), (2, 2)]);
            assert!(columns.has("jpg") && columns.has("cls") && !columns.has("x"));
        }
    }
}
