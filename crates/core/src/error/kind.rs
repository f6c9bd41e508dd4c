//! Who must act on an error.

use super::Code;

/// Who must act on an error. The command line maps each kind to a documented exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The input is bad. Policy may skip the sample; it is then recorded.
    Content,
    /// I/O failed, the disk is full, a permission is missing on an output. Never skipped; safe to run again.
    Environment,
    /// An input is not what the plan saw: it changed or vanished.
    Changed,
    /// The request makes no sense as given.
    Config,
    /// The dataset is not whole: shards are missing or damaged.
    Incomplete,
    /// Something is larger than a limit that the caller can raise.
    Limit,
    /// packhorse does not do this.
    Unsupported,
    /// The caller asked to stop.
    Cancelled,
    /// A defect of packhorse itself.
    Bug,
}

impl Kind {
    /// All kinds.
    pub const ALL: &[Kind] = &[
        Kind::Content,
        Kind::Environment,
        Kind::Changed,
        Kind::Config,
        Kind::Incomplete,
        Kind::Limit,
        Kind::Unsupported,
        Kind::Cancelled,
        Kind::Bug,
    ];

    /// The word used in event lines and records.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Content => "content",
            Kind::Environment => "environment",
            Kind::Changed => "changed",
            Kind::Config => "config",
            Kind::Incomplete => "incomplete",
            Kind::Limit => "limit",
            Kind::Unsupported => "unsupported",
            Kind::Cancelled => "cancelled",
            Kind::Bug => "bug",
        }
    }

    /// The code of an error of this kind that has none of its own.
    pub fn code(self) -> Code {
        match self {
            Kind::Content => Code::BadInput,
            Kind::Environment => Code::IoFailed,
            Kind::Changed => Code::InputChanged,
            Kind::Config => Code::BadRequest,
            Kind::Incomplete => Code::DatasetIncomplete,
            Kind::Limit => Code::OverLimit,
            Kind::Unsupported => Code::NotSupported,
            Kind::Cancelled => Code::Stopped,
            Kind::Bug => Code::Defect,
        }
    }
}
