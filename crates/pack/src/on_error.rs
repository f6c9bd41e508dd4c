//! What to do with bad inputs.

use packhorse_core::{Code, Error};
use std::fmt;
use std::str::FromStr;

/// What happens when an input is bad. Only bad content can be skipped; a failed disk never is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// The job fails and says which input is to blame.
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
