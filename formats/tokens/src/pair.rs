//! A pair of `.idx` and `.bin`, opened by either name.

use packhorse_core::{Error, Input, Result};
use std::sync::Arc;

/// Both files of a pair.
pub(crate) struct Pair<'a> {
    pub(crate) idx: Arc<dyn Input + 'a>,
    pub(crate) bin: Arc<dyn Input + 'a>,
}

impl<'a> Pair<'a> {
    /// Opens the pair of `input`. A name that does not end in `.bin` is an index.
    pub(crate) fn open(input: Arc<dyn Input + 'a>) -> Result<Self> {
        let name = base(input.name());
        if stem(name, ".ds").is_some() {
            let message =
                "is a file of datatrove, not of a pair: it can be packed, but not verified, merged or ordered";
            return Err(Error::unsupported(message).in_input(input.name()));
        }
        match stem(name, ".bin") {
            Some(stem) => Ok(Self { idx: beside(&*input, &format!("{stem}.idx"))?, bin: input }),
            None => {
                let stem = stem(name, ".idx").unwrap_or(name);
                Ok(Self { bin: beside(&*input, &format!("{stem}.bin"))?, idx: input })
            }
        }
    }

    /// The length of the `.bin`.
    pub(crate) fn bin_len(&self) -> Result<u64> {
        known_len(&*self.bin)
    }
}

/// The file `name` beside `input`.
fn beside(input: &dyn Input, name: &str) -> Result<Arc<dyn Input>> {
    let missing = || {
        let error = Error::content(format!("has no {name} beside it; fetch both files of the pair"));
        let other = "an index of something else is left out with `exclude`, or packed as it is with `from=files`";
        if name.ends_with(".bin") { error.hint(other) } else { error }
    };
    input.sibling(name)?.map(Arc::from).ok_or_else(missing)
}

/// The length of an input; an error if it can only be streamed.
pub(crate) fn known_len(input: &dyn Input) -> Result<u64> {
    let stream = || Error::unsupported("can't be read as a stream; decompress it first").in_input(input.name());
    input.len().ok_or_else(stream)
}

/// A file's name without its folder.
pub(crate) fn base(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

fn stem<'n>(name: &'n str, extension: &str) -> Option<&'n str> {
    let (stem, found) = name.split_at_checked(name.len().checked_sub(extension.len())?)?;
    found.eq_ignore_ascii_case(extension).then_some(stem)
}
