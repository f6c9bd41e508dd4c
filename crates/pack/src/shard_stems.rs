//! The shard that a file of a dataset belongs to, by its name.

/// What the shard of a file may be called, the longest first: its name up to each dot.
pub(crate) fn shard_stems(file: &str) -> impl Iterator<Item = &str> {
    file.rmatch_indices('.').filter_map(|(end, _)| file.get(..end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_of_the_shard_with_the_longest_name() {
        assert_eq!(shard_stems("a.b.tar").collect::<Vec<_>>(), ["a.b", "a"]);
        assert_eq!(shard_stems("a").count(), 0);
    }
}
