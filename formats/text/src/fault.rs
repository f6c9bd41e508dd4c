//! What is wrong with one document.

use packhorse_core::Kind;

/// An error that has yet to learn its line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) kind: Kind,
    /// At which byte of the document.
    pub(crate) at: usize,
    pub(crate) message: String,
}

impl Fault {
    pub(crate) fn content(at: usize, message: impl Into<String>) -> Self {
        Self { kind: Kind::Content, at, message: message.into() }
    }

    pub(crate) fn limit(limit: u64) -> Self {
        let message = format!("is over the limit of {limit} bytes; raise it (--memory), or part the document");
        Self { kind: Kind::Limit, at: 0, message }
    }
}

/// `bytes` as text.
pub(crate) fn utf8(bytes: &[u8]) -> Result<&str, Fault> {
    if let Ok(text) = simdutf8::basic::from_utf8(bytes) {
        return Ok(text);
    }
    // Where it ends to be text is another's word.
    str::from_utf8(bytes).map_err(|e| {
        Fault::content(e.valid_up_to(), "is not UTF-8; convert the file (with iconv, say), or remove the document")
    })
}
