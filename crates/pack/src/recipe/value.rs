//! The values of settings, from text and as text.

use crate::{ByteSize, Decode, KeyEnds, Labels, LongKeys, MetadataRows, OnError, Shuffle, SplitBy, Splits, Symlinks};
use packhorse_core::{Error, Result};
use serde::{Serialize, Serializer};
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// A field of a recipe that is set from text.
pub(super) trait Value {
    /// Sets the value from `text`; a list appends it.
    ///
    /// Errors: `Config`, with the values that it takes.
    fn take(&mut self, text: &OsStr) -> Result<()>;

    /// The texts that, taken one after the other, give the value.
    fn texts(&self) -> Vec<OsString>;
}

fn text(text: &OsStr) -> Result<&str> {
    text.to_str().ok_or_else(|| Error::config(format!("{} is not UTF-8", text.display())))
}

impl Value for String {
    fn take(&mut self, given: &OsStr) -> Result<()> {
        *self = text(given)?.to_owned();
        Ok(())
    }

    fn texts(&self) -> Vec<OsString> {
        vec![self.into()]
    }
}

impl Value for PathBuf {
    fn take(&mut self, given: &OsStr) -> Result<()> {
        *self = given.into();
        Ok(())
    }

    fn texts(&self) -> Vec<OsString> {
        vec![self.into()]
    }
}

impl<T: Value + Default> Value for Option<T> {
    fn take(&mut self, given: &OsStr) -> Result<()> {
        let mut value = T::default();
        value.take(given)?;
        *self = Some(value);
        Ok(())
    }

    fn texts(&self) -> Vec<OsString> {
        self.iter().flat_map(Value::texts).collect()
    }
}

impl<T: Value + Default> Value for Vec<T> {
    fn take(&mut self, given: &OsStr) -> Result<()> {
        let mut value = T::default();
        value.take(given)?;
        self.push(value);
        Ok(())
    }

    fn texts(&self) -> Vec<OsString> {
        self.iter().flat_map(Value::texts).collect()
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

            fn texts(&self) -> Vec<OsString> {
                vec![self.to_string().into()]
            }
        }
    )+};
}

parsed!(bool, u8, u32, u64);

/// Types that are serialized as text.
macro_rules! texts {
    ($($type:ty),+) => {$(
        impl Value for $type {
            fn take(&mut self, given: &OsStr) -> Result<()> {
                *self = text(given)?.parse()?;
                Ok(())
            }

            fn texts(&self) -> Vec<OsString> {
                vec![self.to_string().into()]
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
    )+};
}

texts!(ByteSize, Decode, KeyEnds, Labels, LongKeys, MetadataRows, OnError, Shuffle, SplitBy, Splits, Symlinks);
