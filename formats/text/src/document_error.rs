//! The error of one document, without its line number.

use packhorse_core::Kind;

/// An error at a byte of a document. [`Documents`](crate::documents::Documents) adds the line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DocumentError {
    pub(crate) kind: Kind,
    /// The byte of the document.
    pub(crate) at: usize,
    pub(crate) message: String,
}

impl DocumentError {
    pub(crate) fn content(at: usize, message: impl Into<String>) -> Self {
        Self { kind: Kind::Content, at, message: message.into() }
    }

    pub(crate) fn limit(limit: u64) -> Self {
        let message = format!("is over the limit of {limit} bytes; raise it (`memory`), or split the document");
        Self { kind: Kind::Limit, at: 0, message }
    }
}

/// `bytes` as text, or an error at the first invalid byte.
pub(crate) fn utf8(bytes: &[u8]) -> Result<&str, DocumentError> {
    if let Ok(text) = simdutf8::basic::from_utf8(bytes) {
        return Ok(text);
    }
    // simdutf8 does not say where the text ends to be valid.
    str::from_utf8(bytes).map_err(|e| {
        DocumentError::content(
            e.valid_up_to(),
            "is not UTF-8; convert the file (with iconv, say), or remove the document",
        )
    })
}
