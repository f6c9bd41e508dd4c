//! Where an epoch is, to go on from there.

use super::{ORDER_VERSION, Shuffle};
use packhorse_core::{Code, Error, Result};
use serde::Deserialize;

/// The version of the text.
const VERSION: u32 = 1;

/// How far all ranks together have come in an epoch. Every rank of a run has the same.
///
/// As JSON: `{"version":1,"order":1,"dataset":"0123456789abcdef","samples":100,"shuffle":"blocks:8","seed":1,
/// "epoch":0,"consumed":17}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderState {
    /// What identifies the dataset: the first eight bytes of its root digest, the first of them highest, so that it
    /// reads as the first 16 digits of that.
    pub dataset: u64,
    /// Samples of an epoch.
    pub samples: u64,
    /// How they are shuffled.
    pub shuffle: Shuffle,
    /// What shuffles them.
    pub seed: u64,
    /// The epoch.
    pub epoch: u64,
    /// Samples of this epoch that all ranks together have had: the position of the next one.
    pub consumed: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    #[serde(rename = "version")]
    _version: u32,
    #[serde(rename = "order")]
    _order: u32,
    dataset: String,
    samples: u64,
    shuffle: String,
    seed: u64,
    epoch: u64,
    consumed: u64,
}

impl OrderState {
    /// The state in some dozen bytes of JSON.
    pub fn to_json(&self) -> String {
        let Self { dataset, samples, shuffle, seed, epoch, consumed } = self;
        format!(
            "{{\"version\":{VERSION},\"order\":{ORDER_VERSION},\"dataset\":\"{dataset:016x}\",\"samples\":{samples},\
             \"shuffle\":\"{shuffle}\",\"seed\":{seed},\"epoch\":{epoch},\"consumed\":{consumed}}}"
        )
    }

    /// The state that [`OrderState::to_json`] wrote.
    ///
    /// Errors (kind `Config`): other text, a version of the text or of the order that is not this build's, more samples
    /// taken than there are.
    pub fn from_json(text: &str) -> Result<Self> {
        let no_state = || Error::config("is not a state of an order of samples");
        // Of other versions nothing but these need be there.
        #[derive(Deserialize)]
        struct Versions {
            version: u32,
            order: Option<u32>,
        }
        let found: Versions = serde_json::from_str(text).map_err(|e| no_state().caused_by(e))?;
        if found.version != VERSION {
            let found = found.version;
            return Err(Error::config(format!("is a state of version {found}; this build reads version {VERSION}")));
        }
        if let Some(found) = found.order.filter(|&order| order != ORDER_VERSION) {
            return Err(Error::config(format!(
                "is of version {found} of the order of samples, and this build has version {ORDER_VERSION}: what is left of \
                 the epoch is not known here; go on with the release that wrote it, or begin the next epoch"
            )));
        }
        let text: Text = serde_json::from_str(text).map_err(|e| no_state().caused_by(e))?;
        let Text { dataset, samples, shuffle, seed, epoch, consumed, .. } = text;
        let hex =
            |digits: &String| digits.len() == 16 && digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        let digest =
            Some(&dataset).filter(|digits| hex(digits)).and_then(|digits| u64::from_str_radix(digits, 16).ok());
        let dataset =
            digest.ok_or_else(|| Error::config(format!("\"{dataset}\" is not 16 digits of a dataset's digest")))?;
        if consumed > samples {
            return Err(Error::config(format!("{consumed} samples of {samples} can't have been taken")));
        }
        Ok(Self { dataset, samples, shuffle: shuffle.parse()?, seed, epoch, consumed })
    }

    /// That this state and `here` are of one order: only epoch and samples taken may differ.
    ///
    /// Errors (kind `Config`): another dataset, number of samples, shuffle or seed, whichever is first.
    pub fn check(&self, here: &Self) -> Result<()> {
        let hex = |digest: u64| format!("{digest:016x}");
        let text = |value: u64| value.to_string();
        let pairs = [
            ("dataset", "the dataset with digest", hex(self.dataset), hex(here.dataset)),
            ("dataset", "a dataset with samples in number", text(self.samples), text(here.samples)),
            ("shuffle", "the shuffle", self.shuffle.to_string(), here.shuffle.to_string()),
            ("seed", "the seed", text(self.seed), text(here.seed)),
        ];
        match pairs.into_iter().find(|(_, _, saved, here)| saved != here) {
            None => Ok(()),
            Some((what, long, saved, here)) => {
                Err(Error::config(format!("the state is of {long} {saved}, and here it is {here}"))
                    .with_code(Code::StateDiffers)
                    .hint(format!("give the {what} that it was saved with, or start over")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packhorse_core::Kind;

    const STATE: OrderState = OrderState {
        dataset: 0x0123_4567_89ab_cdef,
        samples: 100,
        shuffle: Shuffle::Blocks { shards: 8 },
        seed: u64::MAX,
        epoch: 3,
        consumed: 17,
    };

    const TEXT: &str = "{\"version\":1,\"order\":1,\"dataset\":\"0123456789abcdef\",\"samples\":100,\
                        \"shuffle\":\"blocks:8\",\"seed\":18446744073709551615,\"epoch\":3,\"consumed\":17}";

    #[test]
    fn there_and_back() {
        assert_eq!(STATE.to_json(), TEXT);
        assert_eq!(OrderState::from_json(TEXT).unwrap(), STATE);
    }

    #[test]
    fn what_is_no_state_is_refused() {
        let with = |from: &str, to: &str| {
            assert!(TEXT.contains(from));
            OrderState::from_json(&TEXT.replace(from, to)).unwrap_err()
        };
        assert!(with("\"version\":1", "\"version\":2").message().contains("version 2"));
        assert!(with("\"order\":1", "\"order\":9").message().contains("version 9 of the order"));
        assert!(with(",\"order\":1", "").message().contains("no state"));
        assert!(with("consumed\":17", "consumed\":101").message().contains("101 samples of 100"));
        for dataset in ["0123456789abcde", "0123456789abcdeF", "+123456789abcdef", "0123456789abcdef0"] {
            assert!(with("0123456789abcdef", dataset).message().contains("16 digits"));
        }
        assert!(with("blocks:8", "blocks:0").message().contains("not a shuffle"));
        assert!(with("}", ",\"more\":1}").message().contains("no state"));
        assert!(with("\"epoch\":3", "\"epoch\":3.0").message().contains("no state"));
        assert!(with("\"epoch\":3", "\"epoch\":3,\"epoch\":4").message().contains("no state"));
        for cut in 0..TEXT.len() {
            assert_eq!(OrderState::from_json(&TEXT[..cut]).unwrap_err().kind(), Kind::Config, "{cut}");
        }
    }

    #[test]
    fn a_state_of_another_order_says_how_it_differs() {
        assert!(STATE.check(&OrderState { epoch: 9, consumed: 0, ..STATE }).is_ok());
        let message = |here: OrderState| STATE.check(&here).unwrap_err().message().to_owned();
        assert!(
            message(OrderState { dataset: 1, ..STATE }).contains("0123456789abcdef, and here it is 0000000000000001")
        );
        assert!(message(OrderState { samples: 1, ..STATE }).contains("samples in number 100"));
        assert!(
            message(OrderState { shuffle: Shuffle::Full, ..STATE }).contains("shuffle blocks:8, and here it is full")
        );
        assert!(message(OrderState { seed: 1, ..STATE }).contains("seed"));
    }
}
