//! The last error of a part of a plan: a note beside the shards, for those who watch. Nothing depends on it.

use crate::Digest;
use packhorse_core::{Error, Kind, Result};
use serde::{Deserialize, Serialize};

/// The folder of these notes, in the dataset's folder.
pub const ERRORS: &str = ".errors";

/// The most characters of a text.
const LONGEST: usize = 4096;

/// How the last process that filled a part of a plan ended with an error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartError {
    /// Version of this layout.
    pub packhorse_error: u32,
    /// Digest of the plan.
    pub plan: Digest,
    /// The part, as `3/8`.
    pub part: String,
    /// When it ended by its clock, seconds since 1970-01-01 UTC.
    pub time: u64,
    /// Its host.
    pub host: String,
    /// Its number there.
    pub pid: u32,
    /// The kind of the error.
    pub kind: String,
    /// Its code.
    pub code: String,
    /// The input concerned, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// The key of the sample concerned, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample: Option<String>,
    /// The message with its hint.
    pub message: String,
}

impl PartError {
    /// The layout version that this build writes and reads.
    pub const VERSION: u32 = 1;

    /// The most bytes of a document: a character takes up to 12 as JSON.
    pub const MOST_BYTES: u64 = 256 << 10;

    /// Notes `error` of a `part` of `plan`, which a process with the number `pid` of `host` met at `time`. Long texts are cut.
    pub fn new(error: &Error, plan: Digest, part: String, time: u64, (host, pid): (String, u32)) -> Self {
        Self {
            packhorse_error: Self::VERSION,
            plan,
            part,
            time,
            host,
            pid,
            kind: error.kind().name().to_owned(),
            code: error.code().name().to_owned(),
            input: error.input().map(cut),
            sample: error.sample().map(cut),
            message: cut(&error.text()),
        }
    }

    /// The name of the document about a part (`3/8`), in the dataset's folder.
    pub fn file_name(part: &str) -> String {
        format!("{ERRORS}/{}.json", part.replace('/', "-of-"))
    }

    /// The error again, to be shown: its text, input and sample.
    pub fn error(&self) -> Error {
        let error = Error::new(Kind::Incomplete, &*self.message);
        let error = self.input.iter().fold(error, |error, input| error.in_input(input));
        self.sample.iter().fold(error, |error, sample| error.in_sample(sample))
    }

    /// The document's bytes.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let mut bytes =
            serde_json::to_vec_pretty(self).map_err(|e| Error::bug(format!("can't encode an error: {e}")))?;
        bytes.push(b'\n');
        Ok(bytes)
    }

    /// Parses a document; `Content` for anything else, and for another version.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let wrong = |what: String| Error::content(format!("is not an error of this version: {what}"));
        let note: Self = serde_json::from_slice(bytes).map_err(|e| wrong(e.to_string()))?;
        match note.packhorse_error {
            Self::VERSION => Ok(note),
            other => Err(wrong(other.to_string())),
        }
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(error: &Error) -> PartError {
        PartError::new(error, Digest::of(b"plan"), "3/8".to_owned(), 7, ("node1".to_owned(), 42))
    }

    #[test]
    fn an_error_is_told_as_it_was_met() {
        let error = Error::content("is cut short").in_sample("a").in_input("x.jpg").hint("leave it out");
        let found = PartError::decode(&note(&error).encode().unwrap()).unwrap();
        assert_eq!(found, note(&error));
        assert_eq!(found.error().to_string(), error.to_string());
        assert_eq!((&*found.kind, &*found.code), ("content", "bad-input"));
        assert_eq!(PartError::file_name("3/8"), ".errors/3-of-8.json");
    }

    #[test]
    fn no_document_is_longer_than_readers_take() {
        let long = "\u{1}".repeat(1 << 20);
        let bytes = note(&Error::content(&*long).in_input(&long).in_sample(&long)).encode().unwrap();
        assert!((bytes.len() as u64) < PartError::MOST_BYTES, "{} bytes", bytes.len());
        let other = String::from_utf8(note(&Error::content("x")).encode().unwrap()).unwrap();
        assert!(PartError::decode(other.replace("_error\": 1", "_error\": 2").as_bytes()).is_err());
    }
}
