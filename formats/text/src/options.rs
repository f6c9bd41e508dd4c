//! The source's settings.

use crate::field::FieldPath;
use packhorse_core::{Context, Error, Input, Options, Result};
use std::io::Read;

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
    /// Whether files hold JSON lines; `None` decides by file name and first line.
    pub(crate) json: Option<bool>,
    /// Whether a field of JSON is named.
    pub(crate) named: bool,
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
        let named = options.get("text-field").or(options.get("id-field")).is_some();
        Ok(Self { json, named, text, id: path("id-field", None)?, document })
    }

    /// Whether the file holds JSON lines.
    ///
    /// Errors: those of reading its beginning, where its name does not tell.
    pub(crate) fn is_json(&self, input: &dyn Input) -> Result<bool> {
        if let Some(json) = self.json {
            return Ok(json);
        }
        let inside = without(input.name(), &["gz", "zst", "zstd", "bz2", "xz"]).unwrap_or(input.name());
        if without(inside, &["jsonl", "ndjson", "json"]).is_some() {
            return Ok(true);
        }
        // A text may begin like JSON, so that its name has the say unless fields are asked for.
        let is_text = without(inside, &["txt", "text", "md"]).is_some();
        Ok((self.named || !is_text) && begins_as_json(&beginning(input)?))
    }
}

/// The most bytes that are looked at of a file whose name does not tell what it holds.
const LOOKED_AT: usize = 64 << 10;

/// The first bytes of a file.
fn beginning(input: &dyn Input) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match input.len() {
        Some(len) => {
            bytes.resize(usize::try_from(len).unwrap_or(LOOKED_AT).min(LOOKED_AT), 0);
            input.read_at(0, &mut bytes)?;
        }
        None => {
            input.stream()?.take(LOOKED_AT as u64).read_to_end(&mut bytes).context("read")?;
        }
    }
    Ok(bytes)
}

/// Whether the first line that is not blank is an object, as far as `bytes` tell.
fn begins_as_json(bytes: &[u8]) -> bool {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).trim_ascii_start();
    let (line, whole) = match memchr::memchr(b'\n', bytes) {
        Some(end) => (bytes.get(..end).unwrap_or_default(), true),
        None => (bytes, bytes.len() < LOOKED_AT / 2),
    };
    let begins = line.strip_prefix(b"{").is_some_and(|rest| rest.trim_ascii_start().starts_with(b"\""));
    begins && (!whole || line.trim_ascii_end().ends_with(b"}"))
}

/// `name` without its extension, if that is one of `extensions`.
fn without<'a>(name: &'a str, extensions: &[&str]) -> Option<&'a str> {
    let (stem, extension) = name.rsplit_once('.')?;
    extensions.iter().any(|known| extension.eq_ignore_ascii_case(known)).then_some(stem)
}

#[cfg(test)]
mod tests {
    use super::*;
    use packhorse_core::{Kind, MemoryInput};

    #[test]
    fn json_under_other_names_is_recognised_by_its_first_line() {
        let lines = "\u{feff}\n{ \"text\": \"a\"}\r\n{\"text\": \"b\"}\n";
        let long = format!("{{\"text\": \"{}", "x".repeat(LOOKED_AT));
        let (plain, named) = (parse(&[]).unwrap(), parse(&[("text-field", "text")]).unwrap());
        let is = |settings: &Settings, name: &str, content: &str| {
            settings.is_json(&MemoryInput::new(name, content.as_bytes().to_vec())).unwrap()
        };
        for content in [lines, &long] {
            assert!(is(&plain, "part-00000", content) && is(&named, "a.txt", content));
            assert!(!is(&plain, "a.txt", content));
        }
        for content in ["", "{", "{x}", "{\"a\", he said\n}", "[1]", "text {\"a\": 1}"] {
            assert!(!is(&named, "part-00000", content), "{content}");
        }
    }

    fn parse(pairs: &[(&str, &str)]) -> Result<Settings> {
        Settings::parse(&pairs.iter().copied().collect())
    }

    #[test]
    fn json_is_recognised_by_name() {
        let settings = parse(&[]).unwrap();
        for name in ["a.jsonl", "x/a.NDJSON", "c4-train.00000-of-01024.json.gz", "a.jsonl.zst", "a.jsonl.xz"] {
            assert!(settings.is_json(&MemoryInput::new(name, b"x".to_vec())).unwrap(), "{name}");
        }
        for name in ["a.txt", "a.json.txt", "json", "a.gz", "a.jsonl.lz4", "a.jsonl/b"] {
            assert!(!settings.is_json(&MemoryInput::new(name, b"x".to_vec())).unwrap(), "{name}");
        }
        assert!(parse(&[("json", "yes")]).unwrap().is_json(&MemoryInput::new("a.txt", Vec::new())).unwrap());
        assert!(!parse(&[("json", "no")]).unwrap().is_json(&MemoryInput::new("a.jsonl", Vec::new())).unwrap());
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
