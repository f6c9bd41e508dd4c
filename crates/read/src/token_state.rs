//! The progress of a token loader, to resume from.

use packhorse_core::{Code, Error, Result};
use packhorse_dataset::Digest;
use packhorse_order::Order;
use serde::{Deserialize, Serialize};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The version of the JSON document.
const VERSION: u32 = 2;
/// Samples that tell an order from others.
const LOOKED_AT: u64 = 64;

/// The progress of all ranks together in an order. It is the same on every rank.
///
/// As JSON: `{"version":2,"consumed":17,"samples":100,"order":"0123456789abcdef"}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenState {
    version: u32,
    /// Samples taken: the number of the next one.
    pub consumed: u64,
    /// Samples of the order.
    pub samples: u64,
    /// Identifies the order by its samples: another seed, other documents or another length of samples have another one.
    /// The first 16 hexadecimal digits of a BLAKE3 digest.
    pub order: String,
}

impl TokenState {
    pub(crate) fn new(consumed: u64, samples: u64, order: &str) -> Self {
        Self { version: VERSION, consumed, samples, order: order.to_owned() }
    }

    /// The state as JSON.
    pub fn to_json(&self) -> String {
        let Self { version, consumed, samples, order } = self;
        format!("{{\"version\":{version},\"consumed\":{consumed},\"samples\":{samples},\"order\":\"{order}\"}}")
    }

    /// The state that [`TokenState::to_json`] wrote.
    ///
    /// Errors (kind `Config`): other text, another version, more samples taken than the order has.
    pub fn from_json(text: &str) -> Result<Self> {
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        let no_state = |error| Error::config("is not a state of a loader of tokens").caused_by(error);
        let Versioned { version } = serde_json::from_str(text).map_err(no_state)?;
        if version != VERSION {
            let message = format!("is a loader's state of version {version}; known is {VERSION}");
            return Err(Error::config(message));
        }
        let state: Self = serde_json::from_str(text).map_err(no_state)?;
        if state.consumed > state.samples {
            let message = format!("{} samples of {} can't have been taken", state.consumed, state.samples);
            return Err(Error::config(message));
        }
        Ok(state)
    }

    /// Checks that it is of the order `here`, which has so many samples.
    ///
    /// Errors (kind `Config`, code `state-differs`): another order.
    pub(crate) fn check(&self, samples: u64, here: &str) -> Result<()> {
        let message = match (self.samples == samples, self.order == here) {
            (true, true) => return Ok(()),
            (false, _) => format!("the state is of an order of {} samples, and here it has {samples}", self.samples),
            (true, false) => "the state is of another order: of another seed, other documents or lengths".to_owned(),
        };
        let hint = "give the files, order, seed, length and samples that it was saved with, or start over";
        Err(Error::config(message).with_code(Code::StateDiffers).hint(hint))
    }
}

/// What identifies `order`: the segments of samples from all over it. A sample that fails does so when it is loaded.
pub(crate) fn identify(order: &dyn Order) -> String {
    let (len, mut bytes, mut segments) = (order.len(), Vec::new(), Vec::new());
    bytes.extend(len.to_le_bytes());
    let looked_at = len.min(LOOKED_AT);
    for number in 0..looked_at {
        let sample = u128::from(number) * u128::from(len) / u128::from(looked_at);
        segments.clear();
        let found = catch_unwind(AssertUnwindSafe(|| order.sample(sample as u64, &mut segments)));
        bytes.push(u8::from(matches!(found, Ok(Ok(())))));
        for segment in &segments {
            let parts = [segment.dataset, segment.sequence, segment.offset, segment.length];
            parts.iter().for_each(|part| bytes.extend(part.to_le_bytes()));
        }
    }
    let mut digits = Digest::of(&bytes).to_string();
    digits.truncate(16);
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        let state = TokenState::new(17, 100, "0123456789abcdef");
        let text = r#"{"version":2,"consumed":17,"samples":100,"order":"0123456789abcdef"}"#;
        assert_eq!(state.to_json(), text);
        assert_eq!(TokenState::from_json(text).unwrap(), state);
        let older = TokenState::from_json(r#"{"version":1,"consumed":1,"samples":2}"#).unwrap_err();
        assert!(older.to_string().contains("version 1"));
        let [short, many] =
            ["", r#","order":"""#].map(|rest| format!(r#"{{"version":2,"consumed":3,"samples":2{rest}}}"#));
        for text in ["", "{}", &short, &many] {
            assert!(TokenState::from_json(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_state_of_another_order_is_refused() {
        let state = TokenState::new(17, 100, "0123456789abcdef");
        assert!(state.check(100, "0123456789abcdef").is_ok());
        for (samples, order) in [(99, "0123456789abcdef"), (100, "0123456789abcdee")] {
            assert_eq!(state.check(samples, order).unwrap_err().code(), Code::StateDiffers);
        }
    }
}
