//! What loaders do about bad samples.

use packhorse_core::Kind;

/// The treatment of samples with bad content, and of those of missing and damaged shards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// The batch is an error that names the sample or the shard.
    #[default]
    Fail,
    /// They are skipped and reported to the observer ([`Event::Skipped`](packhorse_core::Event::Skipped)).
    Skip,
}

/// Whether a policy may skip samples for errors of this kind: those that will not pass by waiting.
pub(crate) fn may_be_skipped(kind: Kind) -> bool {
    matches!(kind, Kind::Content | Kind::Limit | Kind::Unsupported) || is_of_lost(kind)
}

/// Whether a shard that fails to open with an error of this kind is lost. What this build can't read, or may not, it can't in the
/// other shards either.
pub(crate) fn is_of_lost(kind: Kind) -> bool {
    matches!(kind, Kind::Content | Kind::Incomplete)
}
