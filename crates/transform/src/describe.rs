//! From the canonical text of a transform back to the transform, so that a plan can be filled by
//! whoever finds it.

use crate::Transform;
use crate::fields::Fields;
use crate::image::{Check, Image, ImageOptions};
use packhorse_core::{Error, Limits, Result};

/// What it takes to make a transform again, beside its description.
pub struct Making<'a> {
    /// Bounds on memory.
    pub limits: Limits,
    /// Gives the bytes of the file with the blake3 digest (hexadecimal) that it is asked for: a tokenizer's.
    pub files: &'a dyn Fn(&str) -> Result<Vec<u8>>,
    /// The share of documents that a tokenizer's oracle encodes too: no part of the description, since it decides
    /// no byte.
    pub check_exact: f64,
}

/// The transform that [`Transform::describe`] gave `text` for. Text of another revision, or of a
/// transform that this build does not have, is a `Config` error. So is one that needs a file: see
/// [`from_description_with`].
pub fn from_description(text: &str, limits: Limits) -> Result<Box<dyn Transform>> {
    let files = |digest: &str| {
        Err(Error::config(format!("the plan's transform needs the file {digest}, which is not at hand here")))
    };
    from_description_with(text, &Making { limits, files: &files, check_exact: 0.0 })
}

/// [`from_description`] of any transform.
pub fn from_description_with(text: &str, making: &Making<'_>) -> Result<Box<dyn Transform>> {
    let unknown = || {
        Error::config(format!(
            "the plan has the transform \"{text}\", which this build does not make; use the build that planned"
        ))
    };
    let mut words = text.split(' ');
    if text.starts_with("fields/") {
        let fields = Fields::from_words(text.split(' ').skip(1)).filter(|fields| fields.describe() == text);
        return Ok(Box::new(fields.ok_or_else(unknown)?));
    }
    #[cfg(feature = "tokenize")]
    if text.starts_with("tokenize/") {
        let tokenize = crate::tokenize::Tokenize::from_words(text.split(' ').skip(1), making)?;
        return if tokenize.describe() == text { Ok(Box::new(tokenize)) } else { Err(unknown()) };
    }
    if !words.next().is_some_and(|name| name.starts_with("image/")) {
        return Err(unknown());
    }
    let mut options = ImageOptions::default();
    for word in words {
        match word.split_once('=') {
            None if word == "check" => options.check = Some(Check::Strict),
            Some(("check", "lenient")) => options.check = Some(Check::Lenient),
            Some(("keep", what)) => options.keep = what.parse()?,
            None if word == "orient" => options.orient = true,
            Some(("resize", size)) => options.resize = Some(size.parse()?),
            Some(("quality", quality)) => options.quality = quality.parse().map_err(|_| unknown())?,
            _ => return Err(unknown()),
        }
    }
    let image = Image::new(options, making.limits)?;
    // The revision is in the text too: what does not come out the same is not the same.
    if image.describe() == text { Ok(Box::new(image)) } else { Err(unknown()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_described_comes_back() {
        let options = ImageOptions {
            check: Some(Check::Strict),
            resize: Some("256,long".parse().unwrap()),
            quality: 85,
            orient: true,
            keep: "exif,icc".parse().unwrap(),
        };
        let lenient = ImageOptions { check: Some(Check::Lenient), ..ImageOptions::default() };
        for options in [options, lenient, ImageOptions { check: Some(Check::Strict), ..lenient }] {
            let text = Image::new(options, Limits::default()).unwrap().describe();
            assert_eq!(from_description(&text, Limits::default()).unwrap().describe(), text);
        }
    }

    #[test]
    fn what_this_build_does_not_make_is_refused() {
        for text in ["", "image/999 check", "image/1 sharpen", "crop/1", "image/1 quality=x"] {
            assert!(from_description(text, Limits::default()).is_err(), "{text}");
        }
    }
}
