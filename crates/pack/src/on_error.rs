//! How bad inputs are handled.

use crate::choice::choice;

/// How a bad input is handled. Only bad content can be skipped, never a failure of the file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// The job fails with an error that names the input.
    #[default]
    Fail,
    /// The sample is left out and recorded.
    Skip,
}

choice!(OnError: Fail = "fail", Skip = "skip");
