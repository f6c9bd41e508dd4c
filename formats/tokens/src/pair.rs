//! An `.idx` and its `.bin`, by the name of either.

use packhorse_core::{Error, Input, Result};

/// An input that somebody lent, or one that was opened beside it.
pub(crate) enum Held<'a> {
    Lent(&'a dyn Input),
    Own(Box<dyn Input>),
}

impl Held<'_> {
    pub(crate) fn get(&self) -> &dyn Input {
        match self {
            Held::Lent(input) => *input,
            Held::Own(input) => &**input,
        }
    }
}

/// Both files of a pair.
pub(crate) struct Pair<'a> {
    pub(crate) idx: Held<'a>,
    pub(crate) bin: Held<'a>,
}

impl<'a> Pair<'a> {
    /// The pair that `input` is one file of; of any name but `.bin` it is the index.
    pub(crate) fn open(input: &'a dyn Input) -> Result<Self> {
        let name = base(input.name());
        if stem(name, ".ds").is_some() {
            let message = "is datatrove's and no pair: it can be packed, but not checked, merged or put in order";
            return Err(Error::unsupported(message).in_input(input.name()));
        }
        match stem(name, ".bin") {
            Some(stem) => Ok(Self { idx: beside(input, &format!("{stem}.idx"))?, bin: Held::Lent(input) }),
            None => {
                let stem = stem(name, ".idx").unwrap_or(name);
                Ok(Self { idx: Held::Lent(input), bin: beside(input, &format!("{stem}.bin"))? })
            }
        }
    }

    /// The length of the `.bin`.
    pub(crate) fn bin_len(&self) -> Result<u64> {
        known_len(self.bin.get())
    }
}

/// The file `name` beside `input`.
fn beside<'a>(input: &'a dyn Input, name: &str) -> Result<Held<'a>> {
    let missing = || Error::content(format!("has no {name} beside it; fetch both files of the pair"));
    input.sibling(name)?.map(Held::Own).ok_or_else(missing)
}

/// The length of an input; what is read as a stream has none.
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
