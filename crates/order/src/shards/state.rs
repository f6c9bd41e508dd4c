//! The progress of an epoch, to resume from.

use super::{ORDER_VERSION, Shuffle};
use packhorse_core::{Code, Error, Result};
use serde::Deserialize;

/// The version of the JSON document.
const VERSION: u32 = 1;

/// The progress of all ranks together in an epoch. It is the same on every rank.
///
/// As JSON: `{"version":1,"order":1,"dataset":"0123456789abcdef","samples":100,"shuffle":"blocks:8","seed":1,
/// "epoch":0,"consumed":17}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderState {
    /// Identifies the dataset: the first eight bytes of its root digest, big-endian. In hexadecimal these are the first
    /// 16 digits of the digest.
    pub dataset: u64,
    /// Samples per epoch.
    pub samples: u64,
    /// How they are shuffled.
    pub shuffle: Shuffle,
    /// The seed of the shuffle.
    pub seed: u64,
    /// The epoch.
    pub epoch: u64,
    /// Samples of this epoch that all ranks together have taken: the position of the next one.
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
    /// The state as JSON.
    pub fn to_json(&self) -> String {
        let Self { dataset, samples, shuffle, seed, epoch, consumed } = self;
        format!(
            "{{\"version\":{VERSION},\"order\":{ORDER_VERSION},\"dataset\":\"{dataset:016x}\",\"samples\":{samples},\
             \"shuffle\":\"{shuffle}\",\"seed\":{seed},\"epoch\":{epoch},\"consumed\":{consumed}}}"
        )
    }

    /// The state that [`OrderState::to_json`] wrote.
    ///
    /// Errors (kind `Config`): other text, another version of the document or of the order, more samples taken than the
    /// epoch has.
    pub fn from_json(text: &str) -> Result<Self> {
        let no_state = || Error::config("is not a state of an order of samples");
        // Other versions may lack all fields but these.
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
                "is of version {found} of the order of samples, and this build has version {ORDER_VERSION}; resume with \
                 the release that wrote it, or begin the next epoch"
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

    /// Checks that this state and `here` are of the same order: only epoch and samples taken may differ.
    ///
    /// Errors (kind `Config`): the first difference of dataset, number of samples, shuffle and seed.
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
        assert!(with(",\"order\":1", "").message().contains("not a state"));
        assert!(with("consumed\":17", "consumed\":101").message().contains("101 samples of 100"));
        for dataset in ["0123456789abcde", "0123456789abcdeF", "+123456789abcdef", "0123456789abcdef0"] {
            assert!(with("0123456789abcdef", dataset).message().contains("16 digits"));
        }
        assert!(with("blocks:8", "blocks:0").message().contains("not a shuffle"));
        assert!(with("}", ",\"more\":1}").message().contains("not a state"));
        assert!(with("\"epoch\":3", "\"epoch\":3.0").message().contains("not a state"));
        assert!(with("\"epoch\":3", "\"epoch\":3,\"epoch\":4").message().contains("not a state"));
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
