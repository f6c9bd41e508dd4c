//! Where a loader is, to go on from there.

use packhorse_core::{Error, Result};
use serde::{Deserialize, Serialize};

/// The version of the text.
const VERSION: u32 = 1;

/// How far all ranks together have come in an order. Every rank of a run has the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenState {
    version: u32,
    /// Samples that were taken: the number of the next one.
    pub consumed: u64,
    /// Samples of the order.
    pub samples: u64,
}

impl TokenState {
    pub(crate) fn new(consumed: u64, samples: u64) -> Self {
        Self { version: VERSION, consumed, samples }
    }

    /// The state in some dozen bytes of JSON.
    pub fn to_json(&self) -> String {
        let Self { version, consumed, samples } = self;
        format!("{{\"version\":{version},\"consumed\":{consumed},\"samples\":{samples}}}")
    }

    /// The state that [`TokenState::to_json`] wrote.
    ///
    /// Errors (kind `Config`): other text, another version, more samples taken than there are.
    pub fn from_json(text: &str) -> Result<Self> {
        let state: Self = serde_json::from_str(text)
            .map_err(|error| Error::config("is not a state of a loader of tokens").caused_by(error))?;
        if state.version != VERSION {
            let message = format!("is a loader's state of version {}; known is {VERSION}", state.version);
            return Err(Error::config(message));
        }
        if state.consumed > state.samples {
            let message = format!("{} samples of {} can't have been taken", state.consumed, state.samples);
            return Err(Error::config(message));
        }
        Ok(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        let state = TokenState::new(17, 100);
        assert_eq!(state.to_json(), r#"{"version":1,"consumed":17,"samples":100}"#);
        assert_eq!(TokenState::from_json(&state.to_json()).unwrap(), state);
        for text in ["", "{}", r#"{"version":2,"consumed":1,"samples":2}"#, r#"{"version":1,"consumed":3,"samples":2}"#]
        {
            assert!(TokenState::from_json(text).is_err(), "{text}");
        }
    }
}
