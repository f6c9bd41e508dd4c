//! The source's settings.

use crate::field::FieldPath;
use packhorse_core::{Error, Options, Result};

/// The unit of plain text that makes one document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Document {
    /// A line that is not empty.
    Line,
    /// Lines between blank lines.
    Paragraph,
    /// The whole file.
    File,
}

/// The parsed options.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Whether files hold JSON lines; `None` decides by file name.
    pub(crate) json: Option<bool>,
    pub(crate) text: FieldPath,
    pub(crate) id: Option<FieldPath>,
    pub(crate) document: Document,
}

const DOCUMENTS: [(&str, Document); 3] =
    [("file", Document::File), ("line", Document::Line), ("paragraph", Document::Paragraph)];

impl Settings {
    pub(crate) fn parse(options: &Options) -> Result<Self> {
        options.only(&["document", "id-field", "json", "text-field"])?;
        let json = options.choose("json", &[("auto", None), ("yes", Some(true)), ("no", Some(false))])?;
        let document = options.choose("document", &DOCUMENTS)?;
        let idle: &[&str] = match json {
            Some(true) => &["document"],
            Some(false) => &["id-field", "text-field"],
            None => &[],
        };
        if let Some(name) = idle.iter().find(|name| options.get(name).is_some()) {
            let json = options.get("json").unwrap_or_default();
            let why = format_args!("has no effect with json={json}; leave one of them out");
            return Err(Options::refuse(name, why));
        }
        let path = |name: &str, default: Option<&str>| match options.get(name).or(default) {
            Some("") => Err(Options::refuse(name, "is empty; leave it out or name a field")),
            given => Ok(given.map(FieldPath::parse)),
        };
        let text = path("text-field", Some("text"))?.ok_or_else(|| Error::bug("no text field"))?;
        Ok(Self { json, text, id: path("id-field", None)?, document })
    }

    /// Whether the file `name` holds JSON lines.
    pub(crate) fn is_json(&self, name: &str) -> bool {
        self.json.unwrap_or_else(|| {
            let inside = without(name, &["gz", "zst", "zstd", "bz2", "xz"]).unwrap_or(name);
            without(inside, &["jsonl", "ndjson", "json"]).is_some()
        })
    }
}

/// `name` without its extension, if that is one of `extensions`.
fn without<'a>(name: &'a str, extensions: &[&str]) -> Option<&'a str> {
    let (stem, extension) = name.rsplit_once('.')?;
    extensions.iter().any(|known| extension.eq_ignore_ascii_case(known)).then_some(stem)
}

#[cfg(test)]
mod tests {
    use super::*;
    use packhorse_core::Kind;

    fn parse(pairs: &[(&str, &str)]) -> Result<Settings> {
        Settings::parse(&pairs.iter().copied().collect())
    }

    #[test]
    fn json_is_recognised_by_name() {
        let settings = parse(&[]).unwrap();
        for name in ["a.jsonl", "x/a.NDJSON", "c4-train.00000-of-01024.json.gz", "a.jsonl.zst", "a.jsonl.xz"] {
            assert!(settings.is_json(name), "{name}");
        }
        for name in ["a.txt", "a.json.txt", "json", "a.gz", "a.jsonl.lz4", "a.jsonl/b"] {
            assert!(!settings.is_json(name), "{name}");
        }
        assert!(parse(&[("json", "yes")]).unwrap().is_json("a.txt"));
        assert!(!parse(&[("json", "no")]).unwrap().is_json("a.jsonl"));
    }

    #[test]
    fn contradictory_options_are_refused() {
        for pairs in [
            &[("json", "maybe")][..],
            &[("document", "word")],
            &[("text-field", "")],
            &[("id-field", "")],
            &[("txt-field", "a")],
            &[("json", "yes"), ("document", "line")],
            &[("json", "no"), ("text-field", "a")],
            &[("json", "no"), ("id-field", "a")],
        ] {
            assert_eq!(parse(pairs).map(|_| ()).unwrap_err().kind(), Kind::Config, "{pairs:?}");
        }
    }
}
