//! Parses the values of settings from text: from flags, and from serialized recipes.

use crate::{ByteSize, Decode, KeyEnds, Labels, LongKeys, OnError, Shuffle, SplitBy, Splits, Symlinks};
use packhorse_core::{Error, Result};
use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::{Serialize, Serializer};
use std::ffi::OsStr;
use std::fmt;
use std::marker::PhantomData;
use std::path::PathBuf;
use std::str::FromStr;

/// A field of a recipe that is set from text.
pub(super) trait Value {
    /// Sets the value from `text`; a list appends it.
    ///
    /// Errors: `Config`, with the values that it takes.
    fn take(&mut self, text: &OsStr) -> Result<()>;
}

fn text(text: &OsStr) -> Result<&str> {
    text.to_str().ok_or_else(|| Error::config(format!("{} is not UTF-8", text.display())))
}

impl Value for String {
    fn take(&mut self, given: &OsStr) -> Result<()> {
        *self = text(given)?.to_owned();
        Ok(())
    }
}

impl Value for PathBuf {
    fn take(&mut self, given: &OsStr) -> Result<()> {
        *self = given.into();
        Ok(())
    }
}

impl<T: Value + Default> Value for Option<T> {
    fn take(&mut self, given: &OsStr) -> Result<()> {
        let mut value = T::default();
        value.take(given)?;
        *self = Some(value);
        Ok(())
    }
}

impl<T: Value + Default> Value for Vec<T> {
    fn take(&mut self, given: &OsStr) -> Result<()> {
        let mut value = T::default();
        value.take(given)?;
        self.push(value);
        Ok(())
    }
}

macro_rules! parsed {
    ($($type:ty),+) => {$(
        impl Value for $type {
            fn take(&mut self, given: &OsStr) -> Result<()> {
                let given = text(given)?;
                *self = given.parse().map_err(|_| Error::config(format!("can't understand \"{given}\"")))?;
                Ok(())
            }
        }
    )+};
}

parsed!(bool, u8, u32, u64);

/// Types that are parsed from text and serialized as text.
macro_rules! texts {
    ($($type:ty),+) => {$(
        impl Value for $type {
            fn take(&mut self, given: &OsStr) -> Result<()> {
                *self = text(given)?.parse()?;
                Ok(())
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any(Text(PhantomData))
            }
        }
    )+};
}

texts!(ByteSize, Decode, KeyEnds, Labels, LongKeys, OnError, Shuffle, SplitBy, Splits, Symlinks);

/// Text, or a number taken as its digits: `shuffle = 7`.
struct Text<T>(PhantomData<T>);

impl<T: FromStr<Err = Error>> Visitor<'_> for Text<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text or a number")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(|e: Error| E::custom(e.text()))
    }

    fn visit_u64<E: de::Error>(self, n: u64) -> Result<T, E> {
        self.visit_str(&n.to_string())
    }

    fn visit_i64<E: de::Error>(self, n: i64) -> Result<T, E> {
        self.visit_str(&n.to_string())
    }
}
