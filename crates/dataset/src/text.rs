//! Paths in JSON documents.

use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// A path in JSON: a string if it is UTF-8, otherwise `{"hex": "…"}` of its bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(untagged)]
pub enum PathText {
    /// A UTF-8 path.
    Text(String),
    /// Any other path.
    Bytes {
        /// Its bytes, two hexadecimal digits each.
        hex: String,
    },
}

impl PathText {
    /// From a path's bytes.
    pub fn new(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => PathText::Text(text.to_owned()),
            Err(_) => PathText::Bytes { hex: bytes.iter().map(|b| format!("{b:02x}")).collect() },
        }
    }

    /// The path. Invalid hexadecimal digits are taken literally.
    pub fn to_path(&self) -> PathBuf {
        match self {
            PathText::Text(text) => PathBuf::from(text),
            PathText::Bytes { hex } => {
                PathBuf::from(unhex(hex).map_or_else(|| OsString::from(hex), OsString::from_vec))
            }
        }
    }

    /// The path's bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.to_path().into_os_string().into_vec()
    }
}

/// By hand: what serde derives for untagged enums parses every path twice.
impl<'de> Deserialize<'de> for PathText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Paths;

        impl<'de> Visitor<'de> for Paths {
            type Value = PathText;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a path")
            }

            fn visit_str<E>(self, text: &str) -> Result<PathText, E> {
                Ok(PathText::Text(text.to_owned()))
            }

            fn visit_string<E>(self, text: String) -> Result<PathText, E> {
                Ok(PathText::Text(text))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<PathText, A::Error> {
                match (map.next_entry::<String, String>()?, map.next_key::<String>()?) {
                    (Some((key, hex)), None) if key == "hex" => Ok(PathText::Bytes { hex }),
                    _ => Err(A::Error::custom("a path is text, or has its bytes in hex alone")),
                }
            }
        }

        deserializer.deserialize_any(Paths)
    }
}

impl From<&OsStr> for PathText {
    fn from(path: &OsStr) -> Self {
        Self::new(path.as_bytes())
    }
}

impl std::fmt::Display for PathText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.to_path().display().fmt(f)
    }
}

fn unhex(hex: &str) -> Option<Vec<u8>> {
    let nibbles: Option<Vec<u8>> = hex.chars().map(|c| c.to_digit(16).and_then(|d| u8::try_from(d).ok())).collect();
    let nibbles = nibbles.filter(|n| n.len() % 2 == 0)?;
    Some(nibbles.chunks_exact(2).map(|pair| pair.iter().fold(0, |byte, nibble| byte << 4 | nibble)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_survives_json() {
        for bytes in [&b"plain/a.jpg"[..], b"\xff\x00x", "größe".as_bytes(), b""] {
            let json = serde_json::to_string(&PathText::new(bytes)).unwrap();
            assert_eq!(serde_json::from_str::<PathText>(&json).unwrap().to_bytes(), bytes, "{json}");
        }
        assert_eq!(serde_json::to_string(&PathText::new(b"\xffa")).unwrap(), r#"{"hex":"ff61"}"#);
        for bad in ["7", "null", "{}", r#"{"hex":7}"#, r#"{"text":"a"}"#, r#"{"hex":"61","text":"a"}"#, "[]"] {
            assert!(serde_json::from_str::<PathText>(bad).is_err(), "{bad}");
        }
    }
}
