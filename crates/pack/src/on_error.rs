//! How bad inputs are handled.

use packhorse_core::{Code, Error};
use std::fmt;
use std::str::FromStr;

/// How a bad input is handled. Only bad content can be skipped, never a failure of the file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// The job fails with an error that names the input.
    #[default]
    Fail,
    /// The sample is left out and recorded.
    Skip,
}

impl fmt::Display for OnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            OnError::Fail => "fail",
            OnError::Skip => "skip",
        })
    }
}

impl FromStr for OnError {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "fail" => Ok(OnError::Fail),
            "skip" => Ok(OnError::Skip),
            other => {
                Err(Error::config(format!("`on-error` takes fail or skip, not \"{other}\""))
                    .with_code(Code::BadSetting))
            }
        }
    }
}
