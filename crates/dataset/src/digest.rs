//! BLAKE3 digests in documents, and the root digest of a dataset.

use packhorse_core::Error;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A 256-bit BLAKE3 digest; in documents 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(blake3::Hash);

impl Digest {
    /// The digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(blake3::hash(bytes))
    }

    /// Its 32 bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        self.0.as_bytes()
    }
}

impl From<blake3::Hash> for Digest {
    fn from(hash: blake3::Hash) -> Self {
        Self(hash)
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.to_string()
    }
}

impl TryFrom<String> for Digest {
    type Error = Error;
    fn try_from(text: String) -> Result<Self, Error> {
        text.parse()
    }
}

impl FromStr for Digest {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self, Error> {
        blake3::Hash::from_hex(text)
            .map(Self)
            .map_err(|e| Error::content(format!("\"{text}\" is not a BLAKE3 digest: {e}")))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The root digest of a dataset: BLAKE3 over `name NUL samples bytes blake3` of its shards in plan order (numbers as
/// little-endian u64). Independent of companions, times, hosts and folders.
#[derive(Clone, Debug, Default)]
pub struct RootDigest(blake3::Hasher);

impl RootDigest {
    /// Adds the next shard in plan order.
    pub fn add(&mut self, name: &str, samples: u64, bytes: u64, blake3: &Digest) {
        self.0.update(name.as_bytes()).update(&[0]);
        self.0.update(&samples.to_le_bytes()).update(&bytes.to_le_bytes()).update(blake3.as_bytes());
    }

    /// The digest of all added shards.
    pub fn finish(&self) -> Digest {
        Digest(self.0.finalize())
    }
}
