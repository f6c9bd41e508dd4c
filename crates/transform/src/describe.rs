//! Rebuilds a transform from its canonical description, so that any process can fill a stored plan.

use crate::Transform;
use crate::fields::Fields;
use crate::image::{Check, Image, ImageOptions};
use packhorse_core::{Error, Limits, Result};

/// The inputs beside the description that rebuilding a transform needs.
pub struct RebuildContext<'a> {
    /// Memory limits.
    pub limits: Limits,
    /// Returns the file (a tokenizer) with the given hexadecimal BLAKE3 digest.
    pub files: &'a dyn Fn(&str) -> Result<Vec<u8>>,
    /// The fraction of documents that the tokenizer's oracle encodes too. Not part of the description: it changes no
    /// byte.
    pub check_exact: f64,
}

/// Rebuilds the transform whose [`Transform::describe`] gave `text`. A `Config` error if the revision differs, if
/// this build lacks the transform, or if it needs a file (see [`from_description_with`]).
pub fn from_description(text: &str, limits: Limits) -> Result<Box<dyn Transform>> {
    let files = |digest: &str| {
        Err(Error::config(format!("the plan's transform needs the file {digest}, which is not at hand here")))
    };
    from_description_with(text, &RebuildContext { limits, files: &files, check_exact: 0.0 })
}

/// Like [`from_description`], for transforms that need files too.
pub fn from_description_with(text: &str, context: &RebuildContext<'_>) -> Result<Box<dyn Transform>> {
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
        let tokenize = crate::tokenize::Tokenize::from_words(text.split(' ').skip(1), context)?;
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
            Some(("nearest", fields)) => options.nearest = fields.split(',').map(str::to_owned).collect(),
            Some(("jpeg", fields)) => options.jpeg = fields.split(',').map(str::to_owned).collect(),
            Some(("leave", fields)) => options.leave = fields.split(',').map(str::to_owned).collect(),
            None if word == "orient" => options.orient = true,
            Some(("resize", size)) => options.resize = Some(size.parse()?),
            Some(("quality", quality)) => options.quality = quality.parse().map_err(|_| unknown())?,
            _ => return Err(unknown()),
        }
    }
    let image = Image::new(options, context.limits)?;
    // The description contains the revision, so a different revision never compares equal.
    if image.describe() == text { Ok(Box::new(image)) } else { Err(unknown()) }
}

/// A description of a transform without the name of the field that it takes text from, and that name; `None` where it has none: the
/// same tokens come of the same text, whatever the field is called.
pub fn without_text_field(text: &str) -> (&str, Option<String>) {
    let parted = text.split_once(" field=").filter(|_| text.starts_with("tokenize/"));
    parted.map_or((text, None), |(rest, name)| (rest, serde_json::from_str(name).ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_round_trip() {
        let options = ImageOptions {
            check: Some(Check::Strict),
            resize: Some("256,long".parse().unwrap()),
            quality: 85,
            orient: true,
            keep: "exif,icc".parse().unwrap(),
            nearest: vec!["mask.png".to_owned(), "seg.png".to_owned()],
            jpeg: vec!["left.png".to_owned(), "right.png".to_owned()],
            leave: vec!["depth.tif".to_owned()],
        };
        let lenient = ImageOptions { check: Some(Check::Lenient), ..ImageOptions::default() };
        for options in [options, lenient.clone(), ImageOptions { check: Some(Check::Strict), ..lenient.clone() }] {
            let text = Image::new(options, Limits::default()).unwrap().describe();
            assert_eq!(from_description(&text, Limits::default()).unwrap().describe(), text);
        }
    }

    #[test]
    fn fields_of_texts_are_told_apart() {
        let named = r#"tokenize/1 tokenizer=ab kind=bpe field="a\u0020title""#;
        assert_eq!(without_text_field(named), ("tokenize/1 tokenizer=ab kind=bpe", Some("a title".to_owned())));
        for text in ["tokenize/1 tokenizer=ab", r#"fields/1 only=["x"] field=["a","b"]"#] {
            assert_eq!(without_text_field(text), (text, None));
        }
    }

    #[test]
    fn unknown_descriptions_are_refused() {
        for text in ["", "image/999 check", "image/1 sharpen", "crop/1", "image/1 quality=x"] {
            assert!(from_description(text, Limits::default()).is_err(), "{text}");
        }
    }
}
