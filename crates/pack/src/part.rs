//! The part of a plan that one process fills, or of the inputs that it lists.

use packhorse_core::{Code, Error, Result};
use std::fmt;
use std::str::FromStr;

/// Part `index` of `count`, counted from 1: every `count`-th shard.
///
/// ```
/// use packhorse_pack::Part;
///
/// let part: Part = "2/3".parse()?;
/// assert_eq!((0..7).filter(|shard| part.holds(*shard)).collect::<Vec<_>>(), [1, 4]);
/// # Ok::<(), packhorse_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    index: u32,
    count: u32,
}

impl Part {
    /// All shards.
    pub const ALL: Part = Part { index: 1, count: 1 };

    /// Part `index` of `count`; a `Config` error unless 1 ≤ index ≤ count.
    pub fn new(index: u32, count: u32) -> Result<Self> {
        match (1..=count).contains(&index) {
            true => Ok(Self { index, count }),
            false if count == 0 => {
                Err(Error::config(format!("part {index}/0: there is at least one part, such as 1/1")))
            }
            false if index > count => {
                Err(Error::config(format!("there is no part {index}/{count}; the last one is {count}/{count}")))
            }
            false => Err(Error::config(format!("there is no part {index}/{count}; parts are counted from 1"))),
        }
    }

    /// Its number, from 1.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// The number of parts.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Whether shard number `i`, counted from 0, belongs to this part.
    pub fn holds(&self, i: usize) -> bool {
        i as u64 % u64::from(self.count) == u64::from(self.index) - 1
    }
}

impl FromStr for Part {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parts = text.split_once('/').and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
        let (index, count) = parts.ok_or_else(|| {
            Error::config(format!("`part` takes i/n, such as 3/16, not \"{text}\"")).with_code(Code::BadSetting)
        })?;
        Self::new(index, count)
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_share_all_shards_between_them() {
        for n in 1..8 {
            for shard in 0..30 {
                assert_eq!((1..=n).filter(|i| Part::new(*i, n).unwrap().holds(shard)).count(), 1);
            }
        }
        for bad in ["0/3", "4/3", "3", "a/b", "1/0"] {
            assert!(bad.parse::<Part>().is_err(), "{bad}");
        }
        assert_eq!("3/16".parse::<Part>().unwrap().to_string(), "3/16");
    }
}
