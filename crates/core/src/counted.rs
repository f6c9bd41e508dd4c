//! Counts in messages.

/// `1 shard`, `2 shards`, `1 class`, `2 classes`.
///
/// ```
/// assert_eq!(packhorse_core::counted(1, "shard"), "1 shard");
/// assert_eq!(packhorse_core::counted(0, "class"), "0 classes");
/// ```
pub fn counted(n: u64, noun: &str) -> String {
    let plural = if noun.ends_with('s') { "es" } else { "s" };
    format!("{n} {noun}{}", if n == 1 { "" } else { plural })
}
