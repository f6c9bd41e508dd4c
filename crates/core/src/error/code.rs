//! Names of errors that scripts match and people look up; `docs/errors.md` says what to do about each.

use std::fmt;

macro_rules! codes {
    ($($(#[doc = $text:literal])+ $code:ident = $name:literal,)+) => {
        /// What went wrong, as a stable name. [`Kind`](super::Kind) says who must act; a code says on what.
        ///
        /// `docs/errors.md` lists all of them. A name never changes its meaning.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Code {
            $($(#[doc = $text])+ $code,)+
        }

        impl Code {
            /// All codes, in the order of the documentation.
            pub const ALL: &[Code] = &[$(Code::$code),+];

            /// The name: lowercase words with hyphens between them.
            pub fn name(self) -> &'static str {
                match self {
                    $(Code::$code => $name,)+
                }
            }
        }
    };
}

codes! {
    /// The request makes no sense as given, and no other code says why.
    BadRequest = "bad-request",
    /// A setting has a value that it does not take.
    BadSetting = "bad-setting",
    /// A file or folder that the request names does not exist.
    NoSuchFile = "no-such-file",
    /// A format that the request names does not exist, or can't do what the request asks.
    NoSuchFormat = "no-such-format",
    /// A field, column, branch or tree that the request names does not exist.
    NoSuchField = "no-such-field",
    /// The output exists, and replacing it was not asked for.
    OutputExists = "output-exists",
    /// The output folder can't be created or written to.
    OutputDenied = "output-denied",
    /// Another process replaces the dataset in the output folder.
    OutputBusy = "output-busy",
    /// The folder holds no dataset.
    NoDataset = "no-dataset",
    /// The folder holds no plan.
    NoPlan = "no-plan",
    /// The folder holds shards of another plan.
    PlanDiffers = "plan-differs",
    /// A saved state belongs to another dataset or to other settings.
    StateDiffers = "state-differs",

    /// An input is damaged, and no other code says how.
    BadInput = "bad-input",
    /// An input ends before its content does.
    CutShort = "cut-short",
    /// A checksum or digest is not that of the bytes.
    ChecksumDiffers = "checksum-differs",
    /// Two samples have the same key, or keys that readers can't tell apart.
    KeyTwice = "key-twice",
    /// A key or a field name that some reader of the output can't carry.
    BadName = "bad-name",
    /// Inputs, or samples, have different columns or types.
    ColumnsDiffer = "columns-differ",
    /// A sample lacks a field that was asked for.
    FieldMissing = "field-missing",
    /// A class that is not in the list of classes.
    UnknownClass = "unknown-class",
    /// A sample has no row in the metadata, or a file no sample.
    NoMetadata = "no-metadata",

    /// An input is not the one that was planned.
    InputChanged = "input-changed",
    /// A planned input no longer exists.
    InputVanished = "input-vanished",

    /// The dataset is not whole, and no other code says why.
    DatasetIncomplete = "dataset-incomplete",
    /// A planned shard does not exist.
    ShardMissing = "shard-missing",
    /// A shard is not what its receipt or the manifest says.
    ShardDamaged = "shard-damaged",
    /// The dataset has no manifest.
    NotSealed = "not-sealed",
    /// The folder holds a view, and the request needs a dataset with shards of its own.
    IsView = "is-view",
    /// The dataset of a view was changed, moved or removed.
    BaseChanged = "base-changed",

    /// An operation of the file system failed.
    IoFailed = "io-failed",
    /// The file system or the quota is full.
    NoSpace = "no-space",
    /// A permission is missing, or the file system is read-only.
    NoPermission = "no-permission",
    /// A server refused or failed.
    RemoteFailed = "remote-failed",
    /// No GPU, or its driver failed.
    GpuFailed = "gpu-failed",

    /// Something is larger than a limit.
    OverLimit = "over-limit",
    /// A value does not fit the memory that may be used.
    OverMemory = "over-memory",

    /// packhorse does not do this.
    NotSupported = "not-supported",
    /// This build of packhorse lacks a feature.
    NotBuilt = "not-built",

    /// The work was stopped on request.
    Stopped = "stopped",
    /// A defect of packhorse.
    Defect = "defect",
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
