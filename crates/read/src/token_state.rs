//! The progress of a token loader, to resume from.

use packhorse_core::{Error, Result};
use serde::{Deserialize, Serialize};

/// The version of the JSON document.
const VERSION: u32 = 1;

/// The progress of all ranks together in an order. It is the same on every rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenState {
    version: u32,
    /// Samples taken: the number of the next one.
    pub consumed: u64,
    /// Samples of the order.
    pub samples: u64,
}

impl TokenState {
    pub(crate) fn new(consumed: u64, samples: u64) -> Self {
        Self { version: VERSION, consumed, samples }
    }

    /// The state as JSON.
    pub fn to_json(&self) -> String {
        let Self { version, consumed, samples } = self;
        format!("{{\"version\":{version},\"consumed\":{consumed},\"samples\":{samples}}}")
    }

    /// The state that [`TokenState::to_json`] wrote.
    ///
    /// Errors (kind `Config`): other text, another version, more samples taken than the order has.
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
