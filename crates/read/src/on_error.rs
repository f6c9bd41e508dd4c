//! What loaders do about bad samples.

use packhorse_core::Kind;

/// The treatment of samples with bad content, and of those of missing and damaged shards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// The batch is an error that names the sample.
    #[default]
    Fail,
    /// They are skipped and reported to the observer ([`Event::Skipped`]).
    Skip,
}

/// Whether a policy may skip samples for errors of this kind: those that will not pass by waiting.
pub(crate) fn may_be_skipped(kind: Kind) -> bool {
    matches!(kind, Kind::Content | Kind::Limit | Kind::Unsupported | Kind::Incomplete)
}
