//! Exit codes. They are interface: scripts and schedulers decide by them.

use packhorse_core::Kind;

/// The exit code of an error of this kind. 0 is success.
pub fn code(kind: Kind) -> u8 {
    match kind {
        Kind::Bug => 1,
        Kind::Config => 2,
        Kind::Content => 3,
        Kind::Changed => 4,
        Kind::Environment => 5,
        Kind::Incomplete => 6,
        Kind::Limit => 7,
        Kind::Unsupported => 8,
        Kind::Cancelled => 130,
    }
}

/// The kind of errors with this exit code.
pub(crate) fn kind(wanted: i32) -> Option<Kind> {
    KINDS.into_iter().find(|kind| i32::from(code(*kind)) == wanted)
}

const KINDS: [Kind; 9] = [
    Kind::Bug,
    Kind::Config,
    Kind::Content,
    Kind::Changed,
    Kind::Environment,
    Kind::Incomplete,
    Kind::Limit,
    Kind::Unsupported,
    Kind::Cancelled,
];

/// The same as text, for `--help`.
pub(crate) const HELP: &str = "\
Exit codes:
  0    done
  1    a defect of packhorse
  2    the request is invalid
  3    bad input (see --on-error skip), or findings of verify of files or with --for
  4    an input changed or vanished since the plan
  5    the file system failed or is full; safe to run again
  6    the dataset is incomplete: shards are missing or damaged
  7    a limit is exceeded
  8    not supported by packhorse
  130  stopped on request; run the same command again to continue";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_names_every_code() {
        for found in KINDS {
            assert!(HELP.contains(&format!("\n  {}", code(found))), "{found:?}");
            assert_eq!(kind(code(found).into()), Some(found));
        }
        assert_eq!(kind(0), None);
    }
}
