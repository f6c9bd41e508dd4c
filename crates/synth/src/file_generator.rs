//! The trait of corpora. Owns the numbering of files; writes nothing.

use packhorse_core::Result;

/// Files that can be generated in any order, each from its index alone.
pub(crate) trait FileGenerator: Sync {
    /// Number of files.
    fn files(&self) -> u64;

    /// The relative name of file `index`. The stem ends in digits: `index` + 1.
    fn name(&self, index: u64) -> String;

    /// Fills the empty `out` with the bytes of file `index`.
    fn fill(&self, index: u64, out: &mut Vec<u8>) -> Result<()>;

    /// Whether `name` belongs to a file of this corpus.
    fn owns(&self, name: &str) -> bool {
        let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
        let base = stem.rsplit('/').next().unwrap_or(stem);
        let digits = base.trim_start_matches(|c: char| !c.is_ascii_digit());
        let index = digits.parse::<u64>().ok().and_then(|number| number.checked_sub(1));
        index.is_some_and(|index| index < self.files() && self.name(index) == name)
    }
}
